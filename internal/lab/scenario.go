package lab

import (
	"strings"
)

// Scenario is an anomaly that can be tried.
type Scenario struct {
	Anomaly

	// record has the outcomes on record, one letter for each of Columns:
	// H holds, B breaks, - makes no sense. Spaces do not count.
	record string

	// senseless says why the question makes no sense for a column; "" if it
	// does. Nil: it always does.
	senseless func(c Column) string

	run func(w *World) verdict
}

// Scenarios returns all anomalies, in the order of the table.
func Scenarios() []Scenario {
	var all []Scenario
	for _, family := range [][]Scenario{
		saleScenarios(), expiryScenarios(), releaseScenarios(), reentryScenarios(),
		renewalScenarios(), waitScenarios(), cacheScenarios(),
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
	for i, c := range Columns() {
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

// needsRedisLock is for questions about a lock in Redis.
func needsRedisLock(c Column) string {
	if c.InProcess {
		return "its lock is in the memory of one process, not in Redis"
	}
	return needsLock(c)
}

// needsUnlock is for questions about an unlock by who does not hold the lock.
func needsUnlock(c Column) string {
	if c.HolderOnly {
		return "only a holder is given something to unlock with"
	}
	return needsRedisLock(c)
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
