// Package anomalies is the catalogue of what can go wrong with a lock. Each file is a family
// of anomalies, and each anomaly is a lab.Scenario: what happens, and the run that shows it.
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
			nestedAcquire, innerUnlock, failedReentry, reentryShortens, sharedToken, tokenOnReentry, successorsToken, clockBack,
			renewalAfterUnlock, secondRenewer, renewalError, lossNotTold,
			waitCancelled, cancelNotTold, waitLimit, waitCutsLease, errorTakenForHeld, redisAway,
			missedWakeUp, overtaken, retryStorm,
			cacheStampede, cacheInstances, cacheSlowLoad, cacheSecondLook, cacheMissing, cacheFailedLoad,
		},
	)
}

// Why a question does not apply, for several anomalies.

func needsLock(c lab.Subject) string {
	if c.Lock == nil {
		return "it has no lock"
	}
	return ""
}

func needsRemoteLock(c lab.Subject) string {
	if c.InProcess {
		return "its lock is in the memory of one process, not in Redis"
	}
	return needsLock(c)
}

// needsRedisLock is for questions about single commands to Redis.
func needsRedisLock(c lab.Subject) string {
	if c.InService() {
		return "it sends its servers no Redis commands that the lab could count or delay"
	}
	return needsRemoteLock(c)
}

// needsForgetful is for questions about servers that forget what they granted.
func needsForgetful(c lab.Subject) string {
	if c.InService() {
		return "a majority of its servers stores a grant before it is made, and no server without it can take over"
	}
	return needsRemoteLock(c)
}

func needsWallClock(c lab.Subject) string {
	if c.InService() {
		return "its servers measure leases with a monotonic clock, which cannot be set"
	}
	return needsRemoteLock(c)
}

// needsToken is for questions about fencing tokens.
func needsToken(c lab.Subject) string {
	if !c.Tokens {
		return "it has no fencing token"
	}
	return needsRemoteLock(c)
}

func needsUnlock(c lab.Subject) string {
	if c.HolderOnly {
		return "only a holder gets something to unlock with"
	}
	return needsRemoteLock(c)
}

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

// needsCacheGuard is for the cache, where there is no write to check.
func needsCacheGuard(c lab.Subject) string {
	if c.Optimistic {
		return "it checks when it writes the stock; a cache has nothing to check"
	}
	return ""
}
