package catalog

import "oversell/internal/naming"

// Condition says what happens to some holders during a run.
type Condition string

// The conditions. The ttl is the lease of the locks.
const (
	Calm  Condition = "calm"  // nothing
	Slow  Condition = "slow"  // some holders work for longer than the ttl before they write
	Late  Condition = "late"  // some holders write in time, but release after the ttl
	Crash Condition = "crash" // a process that holds the lock is killed
	Pause Condition = "pause" // a process that holds the lock is stopped for longer than the ttl, then goes on

	// Failover kills the Redis with the lock before the lock was replicated, and the
	// replica takes over. The stock is in the database.
	Failover Condition = "failover"

	// Partition cuts the process that holds the lock off from Redis as it writes, for longer than
	// the ttl. The write arrives once the network is restored.
	Partition Condition = "partition"

	// Chaos injects random faults into the shops, Redis, the database and the network,
	// one after the other, while buyers come and retry; see Strategy.UnderChaos.
	Chaos Condition = "chaos"
)

// Conditions lists all conditions.
func Conditions() []Condition {
	return []Condition{Calm, Slow, Late, Crash, Pause, Partition, Failover, Chaos}
}

// NeedsProcess reports whether the condition affects a whole process, so that a second process is
// needed to continue the sale.
func (c Condition) NeedsProcess() bool { return c == Crash || c == Pause || c == Partition }

// Workload says what the requests of a run do.
type Workload string

// The workloads.
const (
	Deduct Workload = "deduct" // buy one unit of the hot item
	Cache  Workload = "cache"  // read a cold key through the cache
	Hold   Workload = "hold"   // hold a unit of the hot item and pay later: see HoldStages
)

// Workloads lists the workloads of the strategies in List.
func Workloads() []Workload { return []Workload{Deduct, Cache} }

// ErrName is wrapped by the errors about an unknown name.
var ErrName = naming.ErrName

// ParseCondition returns the condition with the given name, or an error that wraps ErrName.
func ParseCondition(name string) (Condition, error) {
	return naming.Find("condition", name, Conditions(), Conditions())
}
