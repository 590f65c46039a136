package lab

import (
	"strings"
)

// Scenario is an anomaly that can be tried.
type Scenario struct {
	Anomaly

	// record has the outcomes on record, one letter for each of recorded: H
	// holds, B breaks, - makes no sense. Spaces do not count.
	record string

	// clocks says that it sets the clocks of the servers that keep the lock. Only
	// of those in memory they can be set: elsewhere it makes no sense.
	clocks bool

	// senseless says why the question makes no sense for a column; "" if it
	// does. Nil: it always does.
	senseless func(c Column) string

	run func(w *World) verdict

	// requires is what must have happened for its outcome to be holds.
	requires []claim
}

// Scenarios returns all anomalies, in the order of the table.
func Scenarios() []Scenario {
	var all []Scenario
	for _, family := range [][]Scenario{
		saleScenarios(), expiryScenarios(), clockScenarios(), releaseScenarios(), reentryScenarios(),
		tokenScenarios(), renewalScenarios(), waitScenarios(), cacheScenarios(),
	} {
		all = append(all, family...)
	}
	return all
}

// FindScenarios returns the anomalies with these names, or an error that says
// which there are.
func FindScenarios(all []Scenario, names []string) ([]Scenario, error) {
	return find("anomaly", all, func(s Scenario) string { return s.Name }, names)
}

// Expected returns the outcome on record, or "" if there is none.
func (s Scenario) Expected(strategy string) Outcome {
	letters := strings.ReplaceAll(s.record, " ", "")
	for i, c := range recorded() {
		if c.Name != strategy || i >= len(letters) {
			continue
		}
		switch letters[i] {
		case 'H':
			return Holds
		case 'B':
			return Breaks
		case '-':
			return NA
		}
	}
	return ""
}

// Why a question makes no sense, for several anomalies.

// needsLock is for questions about a lock, wherever it is.
func needsLock(c Column) string {
	if c.Lock == nil {
		return "it has no lock"
	}
	return ""
}

// needsRemoteLock is for questions about a lock that is kept by a server.
func needsRemoteLock(c Column) string {
	if c.InProcess {
		return "its lock is in the memory of one process, not in Redis"
	}
	return needsLock(c)
}

// needsRedisLock is for questions about single commands to Redis.
func needsRedisLock(c Column) string {
	if c.inService() {
		return "what it says to its servers are no commands of Redis, of which the lab could count them or hold one up"
	}
	return needsRemoteLock(c)
}

// needsForgetful is for questions about servers that forget what they granted.
func needsForgetful(c Column) string {
	if c.inService() {
		return "a majority of its servers has written down what it grants before it grants it, and none without that takes over"
	}
	return needsRemoteLock(c)
}

// needsWallClock is for questions about leases that end by a clock that can be set.
func needsWallClock(c Column) string {
	if c.inService() {
		return "its servers count leases by a clock that only goes on, whatever time is set"
	}
	return needsRemoteLock(c)
}

// needsToken is for questions about fencing tokens.
func needsToken(c Column) string {
	if !c.Tokens {
		return "it has no fencing token"
	}
	return needsRemoteLock(c)
}

// needsUnlock is for questions about an unlock by who does not hold the lock.
func needsUnlock(c Column) string {
	if c.HolderOnly {
		return "only a holder is given something to unlock with"
	}
	return needsRemoteLock(c)
}

// needsLoser is for questions about those who are refused.
func needsLoser(c Column) string {
	switch {
	case c.InProcess:
		return "its losers wait in line: they are not refused, and do not ask again"
	case c.Optimistic:
		return "its retry is part of the guard, and is a loop"
	case c.Lock == nil:
		return "nobody is ever refused"
	}
	return ""
}

// needsCacheGuard is for the cache, where there is no write to check.
func needsCacheGuard(c Column) string {
	if c.Optimistic {
		return "it checks at the write of the stock; a cache has nothing to check"
	}
	return ""
}
