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
	all := []lab.Scenario{
		latePayment, extendedAfterSold, sweepAgainstPayment, releasedStillPayable, capturedTwice, replyLostAfterCapture,
		orderWithoutStatus,
		doubleRelease, cancelledTwice, twoSweepers, compensation,
		lastHold, limitOutside, killedWithUnits, replyLostAfterTake, snapshot, evicted,
		clockDiffers, sweepWithoutTraffic, expiredWaits,
	}
	for i := range all {
		all[i].NotApplicable = aboutHolds(all[i])
	}
	return lab.Table{
		Scenarios: all,
		Subjects: []lab.Subject{
			saleSubject(h1.Name, "a counter in Redis, and a hold with a ttl"),
			saleSubject(h2.Name, "a row with a status that is read, and then written"),
			saleSubject(h3.Name, "one conditional UPDATE, in a transaction with the order and the stock"),
		},
		Others: []lab.Subject{
			saleSubject(sqlSnapshot, "naive: the unit is read from a snapshot that is older than the lock"),
			saleSubject(sqlUnits, "one row for each unit, claimed by a locking read"),
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
			saleSubject(overwrite, "naive: a repair sets the counter to the initial stock less the orders"),
			saleSubject(luaAtomic, "a script takes the units; a repair begins a new generation of the stock"),
			saleSubject(luaBatch, "a script takes the units of all buyers that wait; the repair is the same"),
			saleSubject(ackFirst, "naive: a consumer acknowledges orders before it writes them"),
			saleSubject(noClaim, "naive: nobody takes over what a dead consumer has read"),
			saleSubject(newID, "naive: each attempt writes the order under another id"),
			saleSubject(luaStream, "a stream of accepted orders; one transaction writes them and takes their units"),
		},
	}
}

func saleSubject(name, about string) lab.Subject {
	return lab.Subject{Name: name, About: about, Database: openDatabase}
}

// aboutHolds returns a NotApplicable that is like the scenario's, but also excludes subjects that
// sell from a pool, except from snapshotBeforeLock.
func aboutHolds(s lab.Scenario) func(lab.Subject) string {
	return func(c lab.Subject) string {
		switch {
		case isPool(c) && s.Name != snapshotBeforeLock:
			return "it sells without holds"
		case s.NotApplicable == nil:
			return ""
		}
		return s.NotApplicable(c)
	}
}

func isPool(c lab.Subject) bool { return c.Name == sqlSnapshot || c.Name == sqlUnits }

// openDatabase implements lab.OpenDatabase for all subjects. Spec has the form of the -db flag.
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
