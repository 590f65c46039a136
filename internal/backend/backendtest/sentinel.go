package backendtest

import (
	"testing"

	"oversell/internal/backend/local"
)

// SentinelSet is a primary, one replica, and a sentinel that promotes the replica in a Failover.
type SentinelSet struct {
	*local.Sentinels
	URL string // for backend.DialRedis and -redis

	Replica *local.Redis
}

// Sentinels runs a SentinelSet for the duration of the test.
func Sentinels(t testing.TB) *SentinelSet {
	t.Helper()
	set := Failovers(t)
	_, replica, other := set.Nodes()
	other.Kill()
	return &SentinelSet{set, set.URL(), replica}
}

// Failovers runs, for the duration of the test, a set of servers that can fail over repeatedly.
func Failovers(t testing.TB) *local.Sentinels {
	t.Helper()
	System(t)
	set, err := local.StartSentinels(t.Context())
	Must(t, err)
	CloseAfter(t, set)
	return set
}
