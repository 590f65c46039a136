//go:build !js

package anomalies

import (
	"context"
	"database/sql/driver"

	"gorm.io/gorm"

	"oversell/internal/backend"
	h1 "oversell/internal/holds/h1_counter"
	h2 "oversell/internal/holds/h2_status"
	h3 "oversell/internal/holds/h3_claim"
	"oversell/internal/lab"
)

// The subjects with deliberate mistakes (see package naive).
const (
	overwrite   = "overwrite"
	ackFirst    = "ack_first"
	noClaim     = "no_claim"
	newID       = "new_id"
	sqlSnapshot = "sql_snapshot"
)

// The subjects of package stock.
const (
	luaAtomic = "lua_atomic"
	luaBatch  = "lua_batch"
	luaStream = "lua_stream"
	sqlUnits  = "sql_units"
)

// Holds returns the table of holds. The subjects that sell from a pool of units need MySQL or
// MariaDB, and are tried only if they are named.
func Holds() lab.Table {
	return lab.Table{
		Scenarios: []lab.Scenario{
			latePayment, extendedAfterSold, sweepAgainstPayment, releasedStillPayable, capturedTwice,
			replyLostAfterCapture, orderWithoutStatus,
			doubleRelease, cancelledTwice, twoSweepers, compensation,
			lastHold, limitOutside, killedWithUnits, replyLostAfterTake, snapshot, evicted,
			clockDiffers, sweepWithoutTraffic, expiredWaits,
		},
		Subjects: []lab.Subject{
			{Name: h1.Name, About: "a counter in Redis, and a hold with a ttl"},
			{Name: h2.Name, About: "a row with a status that is read, and then written"},
			{Name: h3.Name, About: "one conditional UPDATE, in a transaction with the order and the stock"},
		},
		Others: []lab.Subject{
			{Name: sqlSnapshot, About: "naive: the unit is read from a snapshot that is older than the lock"},
			{Name: sqlUnits, About: "one row for each unit, claimed by a locking read"},
		},
	}
}

// Behind returns the table of repairs and of orders that are written asynchronously.
func Behind() lab.Table {
	return lab.Table{
		Scenarios: []lab.Scenario{
			repairInFlight, repairAfterCrash, absoluteSave, stockKeyEvicted,
			diesAfterReading, diesBeforeAcknowledging, diesBetweenTwoOrders, databaseReplyLost, twoConsumers,
			redisLosesAccepted,
		},
		Subjects: []lab.Subject{
			{Name: overwrite, About: "naive: a repair sets the counter to the initial stock less the orders"},
			{Name: luaAtomic, About: "a script takes the units; a repair begins a new generation of the stock"},
			{Name: luaBatch, About: "a script takes the units of all buyers that wait; the repair is the same"},
			{Name: ackFirst, About: "naive: a consumer acknowledges orders before it writes them"},
			{Name: noClaim, About: "naive: nobody takes over what a dead consumer has read"},
			{Name: newID, About: "naive: each attempt writes the order under another id"},
			{Name: luaStream, About: "a stream of accepted orders; one transaction writes them and takes their units"},
		},
	}
}

var needsHolds = not(isPool, "it sells without holds", applies)

func needsHoldsInRedis(c lab.Subject) string {
	if why := needsHolds(c); why != "" || c.Name == h1.Name {
		return why
	}
	return "it keeps nothing in Redis"
}

func isPool(c lab.Subject) bool { return c.Name == sqlSnapshot || c.Name == sqlUnits }

// openDatabase implements lab.OpenDatabase for all sales. Spec has the form of the -db flag.
func openDatabase(ctx context.Context, spec string) (*lab.Database, error) {
	server, err := backend.ServeDatabase(ctx, spec)
	if err != nil {
		return nil, err
	}
	dial := func(ctx context.Context, through func(driver.Connector) driver.Connector) (*gorm.DB, error) {
		return backend.DialDatabaseThrough(ctx, server.URL, through)
	}
	return &lab.Database{Dial: dial, TablePrefix: backend.TablePrefix, Close: server.Close}, nil
}
