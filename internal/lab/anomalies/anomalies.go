// Package anomalies is the catalogue of what can go wrong: with a lock (Locks), with holds (Holds),
// and with repairs and orders that are written asynchronously (Behind). Most files hold one
// family of anomalies. Each anomaly is a lab.Scenario: a description, and a run that shows it.
//
// Anomalies of sales run the real code of package stock or of the stages of package holds, while SQL
// statements and commands to Redis are delayed or lost. Their outcome does not depend on what a stage
// returned. It is computed at the end: the orders in the database must match the units, and every
// captured payment must match an order or a refund. They need a database, so they are not built for a browser.
package anomalies

import (
	"slices"

	"oversell/internal/lab"
)

// Locks returns the table of locks.
func Locks() lab.Table {
	others := append([]lab.Subject{lab.Yours()}, lab.Coordinated()...)
	return lab.Table{Scenarios: All(), Subjects: lab.Subjects(), Others: others}
}

// All returns all anomalies, in the order of the table.
func All() []lab.Scenario {
	return slices.Concat(
		[]lab.Scenario{lostUpdate, localMutex, pausedWriter, halfSale, earlyRelease, lateRelease},
		mixedScenarios(),
		[]lab.Scenario{
			recursiveRetry, doubleAsk, optimisticAborts,
			orphan, setnxThenExpire, handedOnHolderDies, expiresWhileHeld, longWork, lateReply, cutOff, stoppedHolder,
			failover, restartForgets, forgottenUnlock, clockMinority, clockMajority,
			foreignDelete, foreignChain, checkThenDelete, foreignUnlock, lateUnlock, lostHoldHandedOn,
			unlockAfterFailure, unlockAfterCancel, acquireTimesOut, lostReplyUnlock, lostReplyRetry, repeatedUnlock,
			nestedAcquire, innerUnlock, failedReentry, reentryShortens, sharedToken, tokenOnReentry, successorsToken,
			clockBack,
			renewalAfterUnlock, secondRenewer, renewalError, lossNotTold,
			waitCancelled, cancelNotTold, waitLimit, waitCutsLease, errorTakenForHeld, redisAway,
			missedWakeUp, overtaken, retryStorm,
			cacheStampede, cacheInstances, cacheSlowLoad, cacheSecondLook, cacheMissing, cacheFailedLoad,
		},
	)
}

// The functions below return why an anomaly does not apply to a subject, or "". Several anomalies
// share them.

// not returns a check that answers why for every subject that satisfies so. For any other subject
// it calls next.
func not(so func(lab.Subject) bool, why string, next func(lab.Subject) string) func(lab.Subject) string {
	return func(c lab.Subject) string {
		if so(c) {
			return why
		}
		return next(c)
	}
}

func applies(lab.Subject) string { return "" }

const noCommands = "it sends its servers no Redis commands that the lab could count or delay"

func inMemory(c lab.Subject) bool { return c.InProcess }

var (
	needsLock       = not(func(c lab.Subject) bool { return c.Lock == nil }, "it has no lock", applies)
	needsRemoteLock = not(inMemory, "its lock is in the memory of one process, not in Redis", needsLock)

	// needsRedisLock is for anomalies about single commands to Redis.
	needsRedisLock = not(lab.Subject.InService, noCommands, needsRemoteLock)

	// needsForgetful is for anomalies about servers that forget what they granted.
	needsForgetful = not(lab.Subject.InService,
		"a majority of its servers stores a grant before it is made, and no server without it can take over",
		needsRemoteLock)

	needsWallClock = not(lab.Subject.InService,
		"its servers measure leases with a monotonic clock, which cannot be set", needsRemoteLock)

	// needsToken is for anomalies about fencing tokens.
	needsToken = not(func(c lab.Subject) bool { return !c.Tokens }, "it has no fencing token", needsRemoteLock)

	needsUnlock = not(func(c lab.Subject) bool { return c.HolderOnly },
		"only a holder gets something to unlock with", needsRemoteLock)

	needsSharedLock = not(inMemory, "two instances share no lock: see local-mutex-across-instances", needsLock)

	// needsCacheGuard is for anomalies of the cache, where there is no write to check.
	needsCacheGuard = not(func(c lab.Subject) bool { return c.Optimistic },
		"it checks when it writes the stock; a cache has nothing to check", applies)
)

func needsLoser(c lab.Subject) string {
	switch {
	case c.InProcess:
		return "its waiters queue up: they are not refused, and do not retry"
	case c.Optimistic:
		return "its retry is a loop inside the guard"
	case c.Lock == nil:
		return "nobody is ever refused"
	}
	return ""
}
