// Package catalog lists the strategies of the shop. For each it says what the strategy adds to the
// one before, what still breaks, what it needs, how it is made, and the expected outcome of a run
// under each condition.
package catalog

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/redis/go-redis/v9"

	"oversell/internal/guard"
	"oversell/internal/locks/lease"
	"oversell/internal/locks/redlock"
	"oversell/internal/locks/thirdparty"
	v1 "oversell/internal/locks/v1_setnx"
	v2 "oversell/internal/locks/v2_ttl"
	v3 "oversell/internal/locks/v3_uuid"
	v4 "oversell/internal/locks/v4_lua"
	v5 "oversell/internal/locks/v5_reentrant"
	v6 "oversell/internal/locks/v6_watchdog"
	v7 "oversell/internal/locks/v7_queue"
	v8 "oversell/internal/locks/v8_fenced"
	v9 "oversell/internal/locks/v9_cohort"
	"oversell/internal/naming"
	"oversell/internal/stock"
)

// Options configure a guard.
type Options struct {
	Redis  redis.UniversalClient
	TTL    time.Duration // lease of the locks that have one
	Policy guard.Policy  // how to wait for a lock

	Unfenced bool         // the stock does not check fencing tokens
	Stream   stock.Stream // how a Streamed strategy accepts orders

	// Needed only by some strategies; see List.With.
	Rueidislock *thirdparty.Rueidislock
	Locks       map[Need]Connect // locks on other servers
}

// Kind is the mechanism by which a strategy keeps the stock correct.
type Kind int

// The kinds.
const (
	Guarded     Kind = iota // a guard keeps other buyers out, or claims to: Strategy.Guard makes it
	Optimistic              // all buyers may enter, and the writes of the losers are refused
	Atomic                  // no guard: a script checks and takes in one step
	Batched                 // like Atomic, but with one script for many buyers
	Streamed                // like Batched, but with the orders in a stream until a consumer writes them
	Conditional             // the database checks and takes in one statement
	Versioned               // Optimistic, in the database
	RowLocked               // the database locks the row for a transaction
	NameLocked              // a named lock in the database keeps other buyers out
	Pooled                  // the database has a row for each unit, and hands out free rows
)

// Strategy describes one way of keeping the stock correct, and what is claimed about it.
type Strategy struct {
	Name   string
	Kind   Kind
	Adds   string // what it adds to the strategy before it
	Breaks string // what still breaks
	Test   string // the test that shows what breaks

	// Needs says what the strategy needs besides a Redis and a database.
	Needs Need

	// Extra means that the bench runs the strategy only on request, because the default run takes
	// long enough already.
	Extra bool

	// OwnWait means that the lock has its own way of waiting, and ignores the Policy.
	OwnWait bool

	// Guard makes the guard of a Guarded strategy, with options that meet its need and no Policy
	// if OwnWait is set: NewGuard ensures both. For the other kinds it is nil.
	Guard func(o Options) guard.Guard

	deduct   map[Condition]Expectation
	unfenced map[Condition]Expectation // outcomes if the stock does not check fencing tokens; nil: the same as deduct
	loads    map[Condition]loads
}

// GuardsLoads reports whether the strategy can guard the load of a cold key. It needs a guard that
// keeps other readers out, so that one reader loads while the others wait.
func (s Strategy) GuardsLoads() bool { return s.Kind == Guarded }

// HasToken reports whether a hold has a fencing token that the stock checks.
func (s Strategy) HasToken() bool { return s.unfenced != nil }

// Keepers returns the backends in which the strategy can keep the stock. A Guarded strategy works
// with the stock in either backend.
func (s Strategy) Keepers() []stock.Backend {
	switch s.Kind {
	case Conditional, Versioned, RowLocked, NameLocked, Pooled:
		return []stock.Backend{stock.InDatabase}
	case Optimistic, Atomic, Batched, Streamed:
		return []stock.Backend{stock.InRedis}
	}
	return []stock.Backend{stock.InRedis, stock.InDatabase}
}

// InDatabase reports whether the strategy works in the database alone, and needs the stock in it.
func (s Strategy) InDatabase() bool { return !slices.Contains(s.Keepers(), stock.InRedis) }

// InRedis reports whether the strategy needs the stock in Redis.
func (s Strategy) InRedis() bool { return !slices.Contains(s.Keepers(), stock.InDatabase) }

// NeedsMySQL reports whether the strategy needs a feature that only MySQL and MariaDB have.
func (s Strategy) NeedsMySQL() bool {
	return s.Kind == RowLocked || s.Kind == NameLocked || s.Kind == Pooled
}

// List is a list of strategies, in the order of the lessons.
type List []Strategy

// Find returns the strategy with the given name. Its error wraps ErrName and lists the allowed
// names.
func (c List) Find(name string) (Strategy, error) { return naming.Find("strategy", name, c, c.Names()) }

// Names lists the names of the strategies.
func (c List) Names() []string {
	names := make([]string, len(c))
	for i, s := range c {
		names[i] = s.Name
	}
	return names
}

// Strategies returns the whole catalog.
func Strategies() List {
	return List{
		{
			Name:   "none",
			Adds:   "the stock is in Redis: GET, check, SET, and nothing around them",
			Breaks: "two buyers read the same stock, and each writes back one less",
			Test:   "TestNoneLosesUpdates",
			Guard:  func(Options) guard.Guard { return guard.None{} },
			deduct: always(breaks),
			loads:  always(everyMiss),
		},
		{
			Name:   "local",
			Adds:   "a mutex in the process: one buyer at a time inside one instance",
			Breaks: "each instance has its own mutex",
			Test:   "TestLocalIsOneMutexAProcess",
			Guard:  func(Options) guard.Guard { return new(guard.Local) },
			deduct: always(breaksAcross),
			loads:  always(oncePerInstance),
		},
		{
			Name:   "watch",
			Kind:   Optimistic,
			Adds:   "WATCH, MULTI, EXEC: a write is refused when the stock has changed since it was read",
			Breaks: "retries grow with contention; a process that crashes after EXEC leaves stock taken with no order",
			Test:   "TestWatchRetriesUnderContention",
			deduct: unguarded,
		},
		{
			Name:   "v1_setnx",
			Adds:   "SETNX, work, DEL: one holder among all processes",
			Breaks: "a holder that crashes before DEL locks everybody out forever",
			Test:   "TestOrphanStaysForEver",
			Guard: func(o Options) guard.Guard {
				d := o.distributed(func(key string) guard.Lock { return v1.New(o.Redis, key) }, v1.ErrNotHeld)
				d.Retry, d.RetryFor = refused, time.Minute // its lock never expires
				return d
			},
			deduct: map[Condition]Expectation{Calm: holds, Slow: holds, Late: holds, Crash: sticks, Pause: holds,
				Partition: holds, Failover: breaks},
			loads: map[Condition]loads{Calm: once, Slow: once, Late: once, Crash: onceAndStuck, Pause: once},
		},
		{
			Name: "v2_ttl",
			Adds: "SET NX PX: the lock of a crashed holder expires by itself",
			Breaks: "work longer than the ttl: the lock expires under its holder, whose DEL then removes the " +
				"next holder's lock",
			Test:   "TestForeignDelete",
			Guard:  func(o Options) guard.Guard { return leasedLock(o, v2.New, v2.ErrNotHeld) },
			deduct: leased(breaks, breaks),
			loads:  leasedLoads,
		},
		{
			Name:   "v3_uuid",
			Adds:   "a unique token: a holder deletes only its own lock",
			Breaks: "GET and DEL are two commands, and the lock can change hands in between; work longer than the ttl",
			Test:   "TestCheckThenDelete",
			Guard:  func(o Options) guard.Guard { return undoable(o, v3.New, nil, v3.ErrNotHeld) },
			deduct: leased(breaks, overlaps),
			loads:  leasedLoads,
		},
		{
			Name:   "v4_lua",
			Adds:   "compare and delete in one script: the release is atomic",
			Breaks: "a holder that locks again waits for itself; work longer than the ttl",
			Test:   "TestNotReentrant",
			Guard:  func(o Options) guard.Guard { return undoable(o, v4.New, nil, v4.ErrNotHeld) },
			deduct: leased(breaks, overlaps),
			loads:  leasedLoads,
		},
		{
			Name:   "v5_reentrant",
			Adds:   "owner and count in a hash: the holder may lock again; a foreign unlock is refused and reported",
			Breaks: "work longer than the ttl: a second holder is let in",
			Test:   "TestExpiresUnderItsHolder",
			Guard:  func(o Options) guard.Guard { return undoable(o, v5.New, v5.WithOwner, v5.ErrNotHeld) },
			deduct: leased(breaks, overlaps),
			loads:  leasedLoads,
		},
		{
			Name:   "v6_watchdog",
			Adds:   "the lease is renewed every ttl/3 while the work lasts, and the holder is told when it is lost",
			Breaks: "a process that is paused for longer than the ttl goes on as if it held the lock; failover",
			Test:   "TestPausedHolderWritesTooLate",
			Guard:  func(o Options) guard.Guard { return undoable(o, v6.New, v6.WithOwner, v6.ErrNotHeld) },
			deduct: leased(holds, holds),
			loads:  renewedLoads,
		},
		{
			Name:    "v7_queue",
			Adds:    "waiters queue in Redis and are handed the lock, first come, first served, instead of polling",
			Breaks:  "a process that is paused for longer than the ttl goes on as if it held the lock; failover",
			Test:    "TestPromises",
			OwnWait: true,
			Guard: func(o Options) guard.Guard {
				d := undoable(o, v7.New, v7.WithOwner, v7.ErrNotHeld)
				d.OneWaits = true
				return d
			},
			deduct: leased(holds, holds),
			loads:  renewedLoads,
		},
		{
			Name:    "v8_fenced",
			Adds:    "a fencing token for each hold, and a stock that refuses older tokens",
			Breaks:  "a resource that does not check the token; a lock that is never unlocked",
			Test:    "TestPausedHolderIsFenced",
			OwnWait: true,
			Guard: func(o Options) guard.Guard {
				d := undoable(o, v8.New, v8.WithOwner, v8.ErrNotHeld)
				d.OneWaits = true
				return d
			},
			deduct:   fenced,
			unfenced: leased(holds, holds),
			loads:    renewedLoads,
		},
		{
			Name: "v9_cohort",
			Adds: "a process passes the lock between its own waiters without asking Redis, before another process " +
				"gets its turn",
			Breaks:  "a resource that does not check the token; a lock that is never unlocked",
			Test:    "TestForgottenUnlock",
			OwnWait: true,
			Guard: func(o Options) guard.Guard {
				// Not undoable: a failed attempt leaves nothing to undo.
				d := leasedLock(o, v9.New, v9.ErrNotHeld)
				d.WithOwner = v9.WithOwner
				return d
			},
			deduct:   fenced,
			unfenced: leased(holds, holds),
			loads:    renewedLoads,
		},
		{
			Name:   "lua_atomic",
			Kind:   Atomic,
			Adds:   "no lock: one script checks and takes the units, and nobody waits for anybody",
			Breaks: "a process that crashes after the script leaves stock taken with no order",
			Test:   "TestCrashAfterTheScriptLeavesStockTaken",
			deduct: unguarded,
		},
		{
			Name:   "lua_batch",
			Kind:   Batched,
			Adds:   "the requests that wait in a process share one script and one INSERT, and each gets its own answer",
			Breaks: "a process that crashes after the script leaves the stock of a whole batch taken with no order",
			Test:   "TestCrashAfterTheScriptLeavesStockTaken",
			deduct: unguarded,
		},
		{
			Name: "lua_stream",
			Kind: Streamed,
			Adds: "orders written behind the sale: the script appends them to a stream, and consumers write " +
				"them to the database",
			Breaks: "a Redis that loses its last writes loses orders that it had accepted; nothing is oversold",
			Test:   "TestOrdersThatRedisLostAreNotAccepted",
			deduct: behindTheSale,
		},
		{
			Name:  "sql_conditional",
			Kind:  Conditional,
			Extra: true,
			Adds: "the database decides: UPDATE … SET remaining = remaining - n WHERE remaining >= n, and the " +
				"order in the same transaction",
			Breaks: "the stock stays correct; work is wasted on units that are gone",
			Test:   "TestConditionalUpdateDecides",
			deduct: always(overlaps),
		},
		{
			Name:   "sql_version",
			Kind:   Versioned,
			Extra:  true,
			Adds:   "the row has a version, and is written only if it is still the one that was read",
			Breaks: "retries grow with contention",
			Test:   "TestVersionIsRefusedAfterAnotherWrite",
			deduct: always(overlaps),
		},
		{
			Name:  "sql_for_update",
			Kind:  RowLocked,
			Extra: true,
			Adds: "SELECT … FOR UPDATE: the row is locked until the end of the transaction, which writes both stock " +
				"and order, or neither",
			Breaks: "a transaction and a connection are held while the work lasts; a stopped holder keeps " +
				"everybody out",
			Test:   "TestRowLockIsKeptByAStoppedHolder",
			deduct: always(holds),
		},
		{
			Name:   "sql_get_lock",
			Kind:   NameLocked,
			Extra:  true,
			Adds:   "GET_LOCK: a named lock that belongs to a connection and is released when the connection ends",
			Breaks: "each waiter needs a connection; no protection in a cluster of databases",
			Test:   "TestNamedLockEndsWithItsConnection",
			deduct: always(holds),
		},
		{
			Name:  "sql_units",
			Kind:  Pooled,
			Extra: true,
			Adds: "one row for each unit: SELECT … FOR UPDATE SKIP LOCKED claims free rows in the transaction " +
				"of the order, so claims do not wait for each other",
			Breaks: "the stock stays correct; a process stopped while its buyer fills the pool keeps everybody " +
				"out, and one stopped in a claim holds up changes to the item and the buyers of the last units",
			Test:   "TestLockedUnitsAreSkipped",
			deduct: always(overlaps),
		},
		{
			Name:   "redlock",
			Extra:  true,
			Needs:  NeedsNodes,
			Adds:   "the same lock on a majority of independent Redis servers: a minority of them may fail",
			Breaks: "a paused process; a majority whose clocks jump, or that restarts empty within the ttl",
			Test:   "TestSchedulesWithoutDelayedRestart",
			Guard:  func(o Options) guard.Guard { return o.elsewhere(NeedsNodes, redlock.ErrNotHeld) },
			deduct: elsewhere(leased(holds, holds)),
			loads:  renewedLoads,
		},
		{
			Name:     "etcd",
			Extra:    true,
			Needs:    NeedsEtcd,
			OwnWait:  true,
			Adds:     "a key with a lease on servers that agree by consensus; its revision is the fencing token",
			Breaks:   "a paused process, if nobody checks the token",
			Test:     "TestLedgerRefusesAnOlderToken",
			Guard:    func(o Options) guard.Guard { return o.elsewhere(NeedsEtcd, lease.ErrNotHeld) },
			deduct:   elsewhere(fenced),
			unfenced: elsewhere(leased(holds, holds)),
			loads:    renewedLoads,
		},
		{
			Name:    "zookeeper",
			Extra:   true,
			Needs:   NeedsZooKeeper,
			OwnWait: true,
			Adds: "an ephemeral node in a queue in which each waiter watches the one before; its zxid is the " +
				"fencing token",
			Breaks:   "a paused process, if nobody checks the token",
			Test:     "TestLedgerRefusesAnOlderToken",
			Guard:    func(o Options) guard.Guard { return o.elsewhere(NeedsZooKeeper, lease.ErrNotHeld) },
			deduct:   elsewhere(fenced),
			unfenced: elsewhere(leased(holds, holds)),
			loads:    renewedLoads,
		},
		{
			Name:    "redsync",
			Extra:   true,
			OwnWait: true,
			Adds: "go-redsync/redsync on one server, with its defaults: 32 tries, 50 to 250 ms apart, and no " +
				"extension",
			Breaks: "work longer than the ttl; whether a crowd is served is left to chance",
			Test:   "TestRedsyncGivesUp",
			Guard: func(o Options) guard.Guard {
				lib := thirdparty.NewRedsync(o.Redis, redsync.WithExpiry(o.TTL))
				return o.distributed(func(key string) guard.Lock { return lib.New(key) }, thirdparty.ErrNotHeld)
			},
			deduct: always(leftOpen),
			loads:  always(anyLoads),
		},
		{
			Name:    "redislock",
			Extra:   true,
			OwnWait: true,
			Adds:    "bsm/redislock with a linear backoff of 500 ms, and no refresh",
			Breaks:  "work longer than the ttl; whether a crowd is served is left to chance",
			Test:    "TestRedislockWaitsBeyondTheTTL",
			Guard: func(o Options) guard.Guard {
				lib := thirdparty.NewRedislock(o.Redis, o.TTL, thirdparty.LinearBackoff)
				return o.distributed(func(key string) guard.Lock { return lib.New(key) }, thirdparty.ErrNotHeld)
			},
			deduct: always(leftOpen),
			loads:  always(anyLoads),
		},
		{
			Name:    "rueidislock",
			Extra:   true,
			Needs:   NeedsRueidis,
			OwnWait: true,
			Adds:    "rueidislock on one server: waiters are woken by client-side caching, and the lease is extended",
			Breaks:  "a paused process; sometimes nobody is served for a while",
			Test:    "TestUnlockBeforeTheLossIsTold",
			Guard: func(o Options) guard.Guard {
				return o.distributed(func(key string) guard.Lock { return o.Rueidislock.New(key) },
					thirdparty.ErrNotHeld)
			},
			deduct: always(leftOpen),
			loads:  always(anyLoads),
		},
	}
}

// distributed returns the guard of a lock.
func (o Options) distributed(lock func(key string) guard.Lock, notHeld error) *guard.Distributed {
	return &guard.Distributed{New: lock, Policy: o.Policy, NotHeld: notHeld}
}

// elsewhere returns the guard of a lock on the servers for a need.
func (o Options) elsewhere(n Need, notHeld error) guard.Guard {
	return &remote{connect: o.Locks[n], distributed: o.distributed(nil, notHeld)}
}

// leasedLock returns the guard of a lock in Redis that expires.
func leasedLock[C redis.Cmdable, L guard.Lock](
	o Options, lock func(rdb C, key string, ttl time.Duration) L, notHeld error,
) *guard.Distributed {
	return o.distributed(func(key string) guard.Lock { return lock(o.Redis.(C), key, o.TTL) }, notHeld)
}

// undoable is like leasedLock, but for a lock whose Unlock removes only its own lock, so that the
// Unlock may be repeated. (In v3 it may, very rarely, remove the lock of another holder.) Pass nil
// for withOwner if the lock has no owners.
func undoable[C redis.Cmdable, L guard.Lock](
	o Options, lock func(rdb C, key string, ttl time.Duration) L,
	withOwner func(ctx context.Context, owner string) context.Context, notHeld error,
) *guard.Distributed {
	d := leasedLock(o, lock, notHeld)
	d.WithOwner, d.Undo = withOwner, true
	d.Retry, d.RetryFor = func(error) bool { return true }, o.TTL
	return d
}

// refused reports whether err is a reply of Redis, so that the command was not executed. A
// lock without an expiry then still exists and is still the caller's, so the Unlock of v1
// may be repeated. After a lost reply it may not, because it could delete the next holder's
// lock. The Unlock of v2 may never be repeated: its lock may expire before the second DEL,
// and it expires anyway.
func refused(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply)
}
