package locks

import (
	"errors"
	"fmt"
)

// Condition is what happens to some holders while a guard is at work.
type Condition string

// The conditions. TTL is the lease that the locks take out.
const (
	Calm  Condition = "calm"  // nothing
	Slow  Condition = "slow"  // some holders work longer than the ttl before they write
	Late  Condition = "late"  // some holders let go later than the ttl, long after they wrote
	Crash Condition = "crash" // a process that holds the lock is killed
	Pause Condition = "pause" // a process that holds the lock is stopped for longer than the ttl, then goes on

	// Failover kills the Redis in which the lock is before its replica has heard
	// of it, and the replica takes over. The stock is in the database.
	Failover Condition = "failover"

	// Partition cuts the process that holds the lock off from Redis as it writes,
	// for longer than the ttl. What it has sent arrives when the network is whole
	// again.
	Partition Condition = "partition"

	// Chaos has faults that are drawn strike the shops, Redis, the database and the
	// network, one after the other, while buyers come and try again; see Strategy.UnderChaos.
	Chaos Condition = "chaos"
)

// Conditions lists all conditions.
func Conditions() []Condition {
	return []Condition{Calm, Slow, Late, Crash, Pause, Partition, Failover, Chaos}
}

// NeedsProcess reports whether the condition is done to a whole process, of
// which there must be another that goes on.
func (c Condition) NeedsProcess() bool { return c == Crash || c == Pause || c == Partition }

// Workload is what the requests of a run ask for.
type Workload string

// The workloads.
const (
	Deduct Workload = "deduct" // buy one unit of the hot item
	Cache  Workload = "cache"  // read a cold key through the cache
)

// Workloads lists all workloads.
func Workloads() []Workload { return []Workload{Deduct, Cache} }

// ErrName is what the errors for an unknown name wrap.
var ErrName = errors.New("unknown name")

// pick returns the one of all whose text is name. The error wraps ErrName and
// says what is allowed.
func pick[T ~string](what, name string, all []T) (T, error) {
	for _, v := range all {
		if string(v) == name {
			return v, nil
		}
	}
	return "", fmt.Errorf("%w of a %s: %q (allowed: %v)", ErrName, what, name, all)
}

// ParseCondition returns the condition called name, or ErrName.
func ParseCondition(name string) (Condition, error) { return pick("condition", name, Conditions()) }

// ParseWorkload returns the workload called name, or ErrName.
func ParseWorkload(name string) (Workload, error) { return pick("workload", name, Workloads()) }
