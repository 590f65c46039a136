// Package sales is the catalogue of what can go wrong with a sale: with holds (Holds), and with
// repairs and orders that are written asynchronously (Behind). It is organized like package
// anomalies: each file is a family of anomalies, and each anomaly is a lab.Scenario. A scenario
// runs the real code of package stock or of the stages of package holds, while SQL statements and
// commands to Redis are delayed or lost.
//
// The outcome does not depend on what a stage returned. It is computed at the end: the orders in
// the database must match the units, and every captured payment must match an order or a refund.
package sales

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
		lastUnit, limitOutside, killedWithUnits, replyLostAfterTake, snapshot, evicted,
		clockDiffers, sweepWithoutTraffic, expiredWaits,
	}
	for i := range all {
		all[i].NotApplicable = aboutHolds(all[i])
	}
	return lab.Table{
		Scenarios: all,
		Subjects: []lab.Subject{
			subject(h1.Name, "a counter in Redis, and a hold with a ttl"),
			subject(h2.Name, "a row with a status that is read, and then written"),
			subject(h3.Name, "one conditional UPDATE, in a transaction with the order and the stock"),
		},
		Others: []lab.Subject{
			subject(sqlSnapshot, "naive: the unit is read from a snapshot that is older than the lock"),
			subject(sqlUnits, "one row for each unit, claimed by a locking read"),
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
			subject(overwrite, "naive: a repair sets the counter to the initial stock less the orders"),
			subject(luaAtomic, "a script takes the units; a repair begins a new generation of the stock"),
			subject(luaBatch, "a script takes the units of all buyers that wait; the repair is the same"),
			subject(ackFirst, "naive: a consumer acknowledges orders before it writes them"),
			subject(noClaim, "naive: nobody takes over what a dead consumer has read"),
			subject(newID, "naive: each attempt writes the order under another id"),
			subject(luaStream, "a stream of accepted orders; one transaction writes them and takes their units"),
		},
	}
}

func subject(name, about string) lab.Subject {
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
