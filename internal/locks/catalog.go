package locks

import (
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"oversell/internal/locks/etcdlock"
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
	"oversell/internal/locks/waitlock"
	"oversell/internal/locks/zklock"
)

// Options are what a guard is made with.
type Options struct {
	Redis  redis.UniversalClient
	TTL    time.Duration // lease of a lock, for those that have one
	Policy Policy        // how to wait for a lock

	// What only some strategies need: see Catalog.With.
	Nodes       []redis.UniversalClient // independent of each other, and of Redis
	Etcd        *etcdlock.Source
	ZooKeeper   *zklock.Source
	Rueidislock *thirdparty.Rueidislock

	// Later has how to get what is missing above, for the needs that are met when a
	// guard is first used: see Strategy.NewGuard.
	Later map[Need]Later
}

// Kind is by what a strategy keeps the stock right.
type Kind int

// The kinds.
const (
	Guarded     Kind = iota // a guard keeps others out, or claims to: Strategy.Guard makes it
	Optimistic              // everybody is let in, and the losers are turned back at the write
	Atomic                  // nothing is guarded: one step checks and takes, and cannot be divided
	Batched                 // as Atomic, in one step for many
	Conditional             // the database checks and takes in one statement
	Versioned               // Optimistic, in the database
	RowLocked               // the database keeps others out of the row, for a transaction
	NameLocked              // the database has a lock with a name
)

// Strategy is one way of keeping the stock right, and what is claimed about it.
type Strategy struct {
	Name   string
	Kind   Kind
	Adds   string // what it has that the one before has not
	Breaks string // what still breaks
	Test   string // the test that shows what breaks

	// Needs is what it takes besides a Redis and a database.
	Needs Need

	// Extra strategies are run by the bench where they are asked for, and not by
	// default: what it takes is long enough.
	Extra bool

	// OwnWait says that callers wait in the lock's own way, whatever the Policy.
	OwnWait bool

	// Guard makes the guard of a strategy that is Guarded, with options that meet its
	// need. Of the other kinds, which keep nobody out, it is nil.
	Guard func(o Options) Guard

	deduct   map[Condition]Expectation
	unfenced map[Condition]Expectation // where the stock does not look at fencing tokens; nil: as deduct
	loads    map[Condition]loads
}

// GuardsLoads reports whether the strategy can guard the loading of a cold key,
// which is to be done by one reader while the others wait: what keeps nobody out
// has nothing to do with that.
func (s Strategy) GuardsLoads() bool { return s.Kind == Guarded }

// HasToken reports whether a hold has a fencing token, at which the stock looks.
func (s Strategy) HasToken() bool { return s.unfenced != nil }

// InDatabase reports whether the strategy works in the database alone, where the
// stock has to be kept then.
func (s Strategy) InDatabase() bool { return s.Kind >= Conditional }

// InRedis reports whether the strategy can only take a stock that is in Redis.
// What guards by a lock can do with either.
func (s Strategy) InRedis() bool {
	return s.Kind == Optimistic || s.Kind == Atomic || s.Kind == Batched
}

// NeedsMySQL reports whether the strategy takes what only MySQL and MariaDB have.
func (s Strategy) NeedsMySQL() bool { return s.Kind == RowLocked || s.Kind == NameLocked }

// Catalog is the list of strategies, in the order in which they are taught.
type Catalog []Strategy

// Find returns the strategy called name. The error wraps ErrName and lists the
// names that are allowed.
func (c Catalog) Find(name string) (Strategy, error) {
	for _, s := range c {
		if s.Name == name {
			return s, nil
		}
	}
	return Strategy{}, fmt.Errorf("%w of a strategy: %q (allowed: %v)", ErrName, name, c.Names())
}

// Names lists the names of the strategies.
func (c Catalog) Names() []string {
	names := make([]string, len(c))
	for i, s := range c {
		names[i] = s.Name
	}
	return names
}

// Strategies returns the catalog.
func Strategies() Catalog {
	return Catalog{
		{
			Name:   "none",
			Adds:   "stock kept in Redis: GET, check, SET, and nothing around it",
			Breaks: "two buyers read the same stock, and both write it back less one",
			Test:   "TestNoneLosesUpdates",
			Guard:  func(Options) Guard { return None{} },
			deduct: always(breaks),
			loads:  always(everyMiss),
		},
		{
			Name:   "local",
			Adds:   "a mutex in the process: one buyer at a time inside one instance",
			Breaks: "every further instance has a mutex of its own",
			Test:   "TestLocalIsOneMutexAProcess",
			Guard:  func(Options) Guard { return new(Local) },
			deduct: always(breaksAcross),
			loads:  always(oncePerInstance),
		},
		{
			Name:   "watch",
			Kind:   Optimistic,
			Adds:   "WATCH, MULTI, EXEC: a write is refused when the stock has changed since it was read",
			Breaks: "retries grow with contention; a process that dies after EXEC leaves stock taken with no order",
			Test:   "TestWatchRetriesUnderContention",
			deduct: unguarded,
		},
		{
			Name:   "v1_setnx",
			Adds:   "SETNX, work, DEL: one holder among all processes",
			Breaks: "a holder that dies before DEL locks everybody out for ever",
			Test:   "TestOrphanStaysForEver",
			Guard: func(o Options) Guard {
				d := o.distributed(func(key string) Lock { return v1.New(o.Redis, key) }, v1.ErrNotHeld)
				d.Retry, d.RetryFor = refused, time.Minute // its lock never expires
				return d
			},
			deduct: map[Condition]Expectation{Calm: holds, Slow: holds, Late: holds, Crash: sticks, Pause: holds, Partition: holds, Failover: breaks},
			loads:  map[Condition]loads{Calm: once, Slow: once, Late: once, Crash: onceAndStuck, Pause: once},
		},
		{
			Name:   "v2_ttl",
			Adds:   "SET NX PX: a dead holder's lock goes away by itself",
			Breaks: "work longer than the ttl: the lock expires under its holder, whose DEL then removes the next holder's",
			Test:   "TestForeignDelete",
			Guard: func(o Options) Guard {
				return o.distributed(func(key string) Lock { return v2.New(o.Redis, key, o.TTL) }, v2.ErrNotHeld)
			},
			deduct: leased(breaks, breaks),
			loads:  leasedLoads,
		},
		{
			Name:   "v3_uuid",
			Adds:   "a unique token: a holder deletes no lock but its own",
			Breaks: "GET and DEL are two commands, and the lock can change hands in between",
			Test:   "TestCheckThenDelete",
			Guard: func(o Options) Guard {
				return o.undoable(func(key string) Lock { return v3.New(o.Redis, key, o.TTL) }, v3.ErrNotHeld)
			},
			deduct: leased(breaks, overlaps),
			loads:  leasedLoads,
		},
		{
			Name:   "v4_lua",
			Adds:   "compare and delete in one script: the release is atomic",
			Breaks: "a holder that locks again waits for itself; work longer than the ttl",
			Test:   "TestNotReentrant",
			Guard: func(o Options) Guard {
				return o.undoable(func(key string) Lock { return v4.New(o.Redis, key, o.TTL) }, v4.ErrNotHeld)
			},
			deduct: leased(breaks, overlaps),
			loads:  leasedLoads,
		},
		{
			Name:   "v5_reentrant",
			Adds:   "owner and count in a hash: the holder may lock again, a foreign unlock is refused and told apart",
			Breaks: "work longer than the ttl: a second holder is let in",
			Test:   "TestExpiresUnderItsHolder",
			Guard: func(o Options) Guard {
				d := o.undoable(func(key string) Lock { return v5.New(o.Redis, key, o.TTL) }, v5.ErrNotHeld)
				d.WithOwner = v5.WithOwner
				return d
			},
			deduct: leased(breaks, overlaps),
			loads:  leasedLoads,
		},
		{
			Name:   "v6_watchdog",
			Adds:   "the lease is renewed every ttl/3 while the work lasts, and the holder is told when it is lost",
			Breaks: "a process that is paused for longer than the ttl goes on as if it held the lock; failover",
			Test:   "TestPausedHolderWritesTooLate",
			Guard: func(o Options) Guard {
				d := o.undoable(func(key string) Lock { return v6.New(o.Redis, key, o.TTL) }, v6.ErrNotHeld)
				d.WithOwner = v6.WithOwner
				return d
			},
			deduct: leased(holds, holds),
			loads:  renewedLoads,
		},
		{
			Name:    "v7_queue",
			Adds:    "waiters stand in a queue and are handed the lock, first come, first served, instead of asking for it",
			Breaks:  "a process that is paused for longer than the ttl goes on as if it held the lock; failover",
			Test:    "TestPausedHolderWritesTooLate",
			OwnWait: true,
			Guard: func(o Options) Guard {
				o.Policy = new(InTurn)
				d := o.undoable(func(key string) Lock { return v7.New(o.Redis, key, o.TTL) }, v7.ErrNotHeld)
				d.WithOwner = v7.WithOwner
				return d
			},
			deduct: leased(holds, holds),
			loads:  renewedLoads,
		},
		{
			Name:    "v8_fenced",
			Adds:    "a fencing token for each hold, and a stock that refuses what comes with an older one",
			Breaks:  "a resource that does not check the token; what nobody unlocks",
			Test:    "TestPausedHolderIsFenced",
			OwnWait: true,
			Guard: func(o Options) Guard {
				o.Policy = new(InTurn)
				d := o.undoable(func(key string) Lock { return v8.New(o.Redis, key, o.TTL) }, v8.ErrNotHeld)
				d.WithOwner = v8.WithOwner
				return d
			},
			deduct:   fenced,
			unfenced: leased(holds, holds),
			loads:    renewedLoads,
		},
		{
			Name:    "v9_cohort",
			Adds:    "a process hands the lock on among its own waiters, without a word to Redis, before another process has its turn",
			Breaks:  "a resource that does not check the token; what nobody unlocks",
			Test:    "TestPausedHolderIsFenced",
			OwnWait: true,
			Guard: func(o Options) Guard {
				// It leaves nothing behind that would have to be undone.
				o.Policy = Blocking{}
				d := o.distributed(func(key string) Lock { return v9.New(o.Redis, key, o.TTL) }, v9.ErrNotHeld)
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
			Adds:   "no lock: one script checks that enough is left and takes it, and nobody waits for anybody",
			Breaks: "a process that dies after the script leaves stock taken with no order",
			Test:   "TestCrashAfterTheScriptLeavesStockTaken",
			deduct: unguarded,
		},
		{
			Name:   "lua_batch",
			Kind:   Batched,
			Adds:   "the requests that wait in a process share one script and one INSERT, and each has its own answer",
			Breaks: "a process that dies after the script leaves the stock of a whole batch taken with no order",
			Test:   "TestCrashAfterTheScriptLeavesStockTaken",
			deduct: unguarded,
		},
		{
			Name:   "sql_conditional",
			Kind:   Conditional,
			Extra:  true,
			Adds:   "the database decides: UPDATE … SET remaining = remaining - n WHERE remaining >= n, and the order in the same transaction",
			Breaks: "nothing of the stock; work that was done for units that are gone",
			Test:   "TestDatabaseSellsExactly",
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
			Name:   "sql_for_update",
			Kind:   RowLocked,
			Extra:  true,
			Adds:   "SELECT … FOR UPDATE: the row is locked until the transaction ends, with which everything is written or nothing",
			Breaks: "a transaction and a connection are held while the work lasts; who is stopped keeps everybody out",
			Test:   "TestRowLockIsKeptByAStoppedHolder",
			deduct: always(holds),
		},
		{
			Name:   "sql_get_lock",
			Kind:   NameLocked,
			Extra:  true,
			Adds:   "GET_LOCK: a lock with a name, which belongs to a connection and is free when that ends",
			Breaks: "one connection for each who waits; no help in a cluster of databases",
			Test:   "TestNamedLockEndsWithItsConnection",
			deduct: always(holds),
		},
		{
			Name:   "v6_wait_one",
			Extra:  true,
			Needs:  NeedsReplicas,
			Adds:   "v6, and WAIT 1: nobody has the lock before a replica has it too",
			Breaks: "a failover that promotes another replica; a paused process",
			Test:   "TestAcknowledgedByTheWrongReplica",
			Guard:  func(o Options) Guard { return o.waiting(1) },
			deduct: leased(holds, holds),
			loads:  renewedLoads,
		},
		{
			Name:   "v6_wait_all",
			Extra:  true,
			Needs:  NeedsReplicas,
			Adds:   "v6, and WAIT 2, for a Redis of two replicas: nobody has the lock before all of them have it too",
			Breaks: "nobody is let in while one of the replicas is away; a paused process",
			Test:   "TestTooFewIsAnError",
			Guard:  func(o Options) Guard { return o.waiting(2) },
			deduct: shutting(leased(holds, holds)),
			loads:  renewedLoads,
		},
		{
			Name:   "redlock",
			Extra:  true,
			Needs:  NeedsNodes,
			Adds:   "the same lock on a majority of independent Redis servers: a minority of them may fail",
			Breaks: "a paused process; a majority whose clocks jump, or that restarts empty within the ttl",
			Test:   "TestClockJumpLetsSecondIn",
			Guard: func(o Options) Guard {
				return o.distributed(func(key string) Lock { return quorumLock{redlock.New(o.Nodes, key, o.TTL)} }, redlock.ErrNotHeld)
			},
			deduct: elsewhere(leased(holds, holds)),
			loads:  renewedLoads,
		},
		{
			Name:    "etcd",
			Extra:   true,
			Needs:   NeedsEtcd,
			OwnWait: true,
			Adds:    "a key with a lease at servers that agree on everything; its revision is the fencing token",
			Breaks:  "a paused process, where nobody checks the token",
			Test:    "TestLossIsToldFirst",
			Guard: func(o Options) Guard {
				o.Policy = Blocking{}
				return o.distributed(func(key string) Lock { return etcdlock.New(o.Etcd, key) }, etcdlock.ErrNotHeld)
			},
			deduct:   elsewhere(fenced),
			unfenced: elsewhere(leased(holds, holds)),
			loads:    renewedLoads,
		},
		{
			Name:    "zookeeper",
			Extra:   true,
			Needs:   NeedsZooKeeper,
			OwnWait: true,
			Adds:    "a node that goes with its session, in a queue in which each watches the one before; its zxid is the fencing token",
			Breaks:  "a paused process, where nobody checks the token",
			Test:    "TestLossIsToldFirst",
			Guard: func(o Options) Guard {
				o.Policy = Blocking{}
				return o.distributed(func(key string) Lock { return zklock.New(o.ZooKeeper, key) }, zklock.ErrNotHeld)
			},
			deduct:   elsewhere(fenced),
			unfenced: elsewhere(leased(holds, holds)),
			loads:    renewedLoads,
		},
		{
			Name:    "redsync",
			Extra:   true,
			OwnWait: true,
			Adds:    "go-redsync/redsync on one server, with its defaults: 32 tries, 50 to 250 ms apart, and no extension",
			Breaks:  "work longer than the ttl; whether a crowd is served is left to chance",
			Test:    "TestRedsyncGivesUp",
			Guard: func(o Options) Guard {
				o.Policy = Blocking{}
				lib := thirdparty.NewRedsync(o.Redis, o.TTL)
				return o.distributed(func(key string) Lock { return lib.New(key) }, thirdparty.ErrNotHeld)
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
			Guard: func(o Options) Guard {
				o.Policy = Blocking{}
				lib := thirdparty.NewRedislock(o.Redis, o.TTL)
				return o.distributed(func(key string) Lock { return lib.New(key) }, thirdparty.ErrNotHeld)
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
			Breaks:  "a paused process; now and then nobody is served for a while",
			Test:    "TestUnlockBeforeTheLossIsTold",
			Guard: func(o Options) Guard {
				o.Policy = Blocking{}
				return o.distributed(func(key string) Lock { return o.Rueidislock.New(key) }, thirdparty.ErrNotHeld)
			},
			deduct: always(leftOpen),
			loads:  always(anyLoads),
		},
	}
}

// distributed makes the guard of a Redis lock.
func (o Options) distributed(lock func(key string) Lock, notHeld ...error) *Distributed {
	return &Distributed{New: lock, Policy: o.Policy, NotHeld: notHeld}
}

// waiting makes the guard of stage 6's lock that so many replicas must have.
func (o Options) waiting(replicas int) *Distributed {
	d := o.undoable(func(key string) Lock { return waitlock.New(o.Redis, key, o.TTL, replicas) }, waitlock.ErrNotHeld)
	d.WithOwner = waitlock.WithOwner
	return d
}

// undoable is distributed for a lock whose Unlock removes no lock but its own,
// or hardly ever another, as that of v3 does. It may be called again and again.
func (o Options) undoable(lock func(key string) Lock, notHeld ...error) *Distributed {
	d := o.distributed(lock, notHeld...)
	d.Undo = true
	d.Retry, d.RetryFor = func(error) bool { return true }, o.TTL
	return d
}

// refused reports whether Redis itself answered with err, so that nothing was
// done. A lock without an expiry is still there then, and so nobody else's: the
// Unlock of v1 may be called again. After a reply that was lost it may not, for
// the next holder's lock would go. That of v2 never may: its lock may expire
// before the second DEL, and does so anyway.
func refused(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply)
}
