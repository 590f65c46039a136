package lab

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	"oversell/internal/catalog"
	"oversell/internal/guard"
	"oversell/internal/locks/lease"
	"oversell/internal/locks/redlock"
	"oversell/internal/locks/thirdparty"
	yours "oversell/internal/locks/yours"
	"oversell/internal/naming"
	"oversell/internal/stock"
)

// Subject is a strategy or a library that the lab tries.
type Subject struct {
	Name  string
	About string // a description in one line

	// Lock makes a process's lock and the settings that a guard needs. It is nil for a subject
	// without a lock. The lab also uses two optional methods of a handle: Lock(ctx) error, which
	// waits for the lock in its own way, and Context(parent), which returns the context of the work
	// under the lock. That context is cancelled, with the reason, when the lock is lost.
	Lock func(p *Process) *guard.Distributed

	// Guard makes an instance's guard. Nil: the guard is made from Lock.
	Guard func(p *Process) guard.Guard

	// Optimistic says that buyers do not wait for each other; instead, a write fails if the stock
	// has changed.
	Optimistic bool

	// InProcess says that the lock is in the memory of one process.
	InProcess bool

	// Needs names the servers that keep the lock if it is not in the one Redis: NeedsNodes,
	// NeedsEtcd or NeedsZooKeeper.
	Needs catalog.Need

	// Tokens says that a handle has a method Token() int64, which returns the fencing token of its
	// hold.
	Tokens bool

	// RedisKey returns the key of the lock in Redis. Nil: the key is the lock's name.
	RedisKey func(key string) string

	// Beside returns the keys that a script of the lock at key derives from its argument arg and
	// that are not in KEYS. Nil: there are none.
	Beside func(key, arg string) []string

	// AsksAgain says that a waiter asks for the lock once more after it is woken, so that its lease
	// does not depend on when it first asked.
	AsksAgain bool

	// Rewrite changes the SQL statements before they are sent, so that a test can plant a mistake.
	// Nil: they are sent unchanged.
	Rewrite func(statement string) string

	// Nested says that the work under the lock calls a helper that takes the lock again. Only
	// schedules have such subjects.
	Nested bool

	// HolderOnly says that only a holder can call Unlock, because Unlock needs something that a
	// successful TryLock has stored.
	HolderOnly bool
}

// Subjects returns the subjects that are tried by default, in the order of the table.
func Subjects() []Subject {
	stages := catalog.Strategies()
	listed := []Subject{
		{Name: "none", About: "no lock", Guard: func(*Process) guard.Guard { return guard.None{} }},
		{Name: "local", About: "a mutex in the process", InProcess: true, Lock: lockOf(newLocalLock, errNotTaken),
			Guard: func(p *Process) guard.Guard { return p.mutex }},
		{Name: "watch", About: "WATCH, MULTI, EXEC: the write is refused when the stock has changed", Optimistic: true},
		stageOf(stages, "v1_setnx", "SETNX, DEL", nil),
		stageOf(stages, "v2_ttl", "SET NX PX, DEL", nil),
		stageOf(stages, "v3_uuid", "a token, checked before DEL", nil),
		stageOf(stages, "v4_lua", "compare and delete in one script", nil),
		stageOf(stages, "v5_reentrant", "owner and count", nil),
		stageOf(stages, "v6_watchdog", "a lease that is renewed, and a holder that is told", nil),
		stageOf(stages, "v7_queue", "a queue in which a waiter is handed the lock", ofOwner),
		stageOf(stages, "v8_fenced", "a fencing token, which the stock checks", ofOwner),
		stageOf(stages, "v9_cohort", "a process passes the lock between its own waiters", ofTicket),
		{Name: "redsync",
			About: "go-redsync/redsync on one server, with its default number of tries and no extension",
			Lock:  lockOf(func(p *Process, key string) guard.Lock { return redsyncOf(p, key) }, thirdparty.ErrNotHeld)},
		{Name: "redislock", About: "bsm/redislock with a linear backoff and no refresh", HolderOnly: true,
			Lock: lockOf(func(p *Process, key string) guard.Lock { return redislockOf(p, key) },
				thirdparty.ErrNotHeld)},
		{Name: "redsync_extended",
			About: "redsync with as many tries as it takes, extended every third of the ttl by a goroutine of its " +
				"user",
			Lock: lockOf(func(p *Process, key string) guard.Lock {
				return thirdparty.Extend(redsyncOf(p, key, redsync.WithTries(math.MaxInt)), p.w.TTL, p.life)
			}, thirdparty.ErrNotHeld)},
		{Name: "redislock_refreshed", HolderOnly: true,
			About: "redislock with a linear backoff, refreshed every third of the ttl by a goroutine of its user",
			Lock: lockOf(func(p *Process, key string) guard.Lock {
				return thirdparty.Extend(redislockOf(p, key), p.w.TTL, p.life)
			}, thirdparty.ErrNotHeld)},
		{Name: "rueidislock", About: "rueidislock on one server, without client-side caching", HolderOnly: true,
			RedisKey: thirdparty.RueidislockKey,
			Lock: lockOf(func(p *Process, key string) guard.Lock { return p.rueidis.New(key) },
				thirdparty.ErrNotHeld)},
		{Name: "redlock", About: "the lock on a majority of five independent Redis servers", Needs: catalog.NeedsNodes,
			Lock: lockOf(func(p *Process, key string) guard.Lock { return redlock.New(p.Nodes(), key, p.TTL()) },
				redlock.ErrNotHeld)},
	}
	return append(listed, added(stages, listed)...)
}

// added returns the locks in the catalog that are not listed. They are tried with the settings of
// the catalog, so a new lock there needs no entry in Subjects.
func added(stages catalog.List, listed []Subject) (more []Subject) {
	for _, s := range stages {
		if s.Guard == nil || s.Extra || slices.ContainsFunc(listed, func(c Subject) bool { return c.Name == s.Name }) {
			continue
		}
		if _, ok := s.Guard(catalog.Options{}).(*guard.Distributed); ok {
			more = append(more, stageOf(stages, s.Name, s.Adds, nil))
		}
	}
	return more
}

// stageOf returns a stage of the lock as a subject. The subject uses the same lock as the shop.
func stageOf(stages catalog.List, name, about string, beside func(key, arg string) []string) Subject {
	s, err := stages.Find(name)
	if err != nil {
		panic(err) // the catalog has every stage
	}
	return Subject{
		Name: name, About: about, Needs: s.Needs, Tokens: s.HasToken(), Beside: beside,
		AsksAgain: name == "v7_queue" || name == "v8_fenced",
		Lock: func(p *Process) *guard.Distributed {
			d := s.Distributed(catalog.Options{Redis: p.Redis(), TTL: p.TTL()})
			d.Retry = nil // the lab shows what follows a failed release
			return d
		},
	}
}

// lockOf returns a Subject.Lock for a lock that is not in the catalog, or whose settings in the
// catalog are different.
func lockOf(handle func(p *Process, key string) guard.Lock, notHeld error) func(*Process) *guard.Distributed {
	return func(p *Process) *guard.Distributed {
		lock := func(key string) guard.Lock { return handle(p, key) }
		return &guard.Distributed{New: lock, NotHeld: notHeld}
	}
}

// Coordinated returns the locks on servers other than Redis. They cannot run in virtual
// time, so they are tried only when they are named.
func Coordinated() []Subject {
	return []Subject{
		{Name: "etcd", About: "a key with a lease; its revision is the fencing token, which the stock checks",
			Needs: catalog.NeedsEtcd, Tokens: true, Lock: lockOf(newServiceLock, lease.ErrNotHeld)},
		{Name: "zookeeper", About: "a node that goes with its session, in a queue; its zxid is the fencing token",
			Needs: catalog.NeedsZooKeeper, Tokens: true, Lock: lockOf(newServiceLock, lease.ErrNotHeld)},
	}
}

// ofTicket implements Subject.Beside. It returns the list that wakes the waiter with this ticket.
func ofTicket(key, arg string) []string {
	if looksRandom(arg) {
		return []string{key + ":wake:" + arg}
	}
	return nil
}

// ofOwner implements Subject.Beside. It returns the list that wakes this owner, and the key of the
// last token.
func ofOwner(key, arg string) []string {
	if _, err := strconv.Atoi(arg); err == nil {
		return nil
	}
	return []string{key + ":wake:" + arg, key + ":token"}
}

// nested returns the subjects that only schedules use: two stages whose holder calls a helper that
// locks again. With v4_lua, the helper waits for a lock that its own caller holds; with
// v5_reentrant, it gets the lock.
func nested() []Subject {
	var all []Subject
	for _, s := range Subjects() {
		if s.Name == "v4_lua" || s.Name == "v5_reentrant" {
			s.Name, s.Nested = "nested_"+s.Name, true
			s.About += "; the work under it calls a helper that locks again"
			all = append(all, s)
		}
	}
	return all
}

// Yours returns the reader's own lock, in internal/locks/yours, as a subject.
func Yours() Subject {
	handle := func(p *Process, key string) guard.Lock { return yours.New(p.Redis(), key, p.TTL()) }
	return Subject{Name: "yours", About: "the lock in internal/locks/yours: docs/your-lock.md",
		Lock: func(p *Process) *guard.Distributed {
			d := lockOf(handle, yours.ErrNotHeld)(p)
			d.WithOwner = yours.WithOwner
			return d
		}}
}

// FindSubjects returns the subjects with these names. The error for an unknown name lists valid
// names, or says why the lab does not try this strategy of the shop.
func FindSubjects(all []Subject, names []string) ([]Subject, error) {
	for _, name := range names {
		s, err := catalog.Strategies().Find(name)
		if err == nil && !slices.ContainsFunc(all, func(c Subject) bool { return c.Name == name }) {
			why := "it has no lock that could be broken"
			if s.InDatabase() {
				why = "it works in the database, and the lab only breaks locks outside of one"
			}
			return nil, fmt.Errorf("the lab does not try strategy %q: %s; shop and bench have it", name, why)
		}
	}
	return find("strategy", all, Subject.name, names)
}

// find returns the elements with the picked names, in the order of all. An unknown name is an error.
func find[T any](what string, all []T, name func(T) string, picked []string) ([]T, error) {
	allowed := make([]string, len(all))
	for i, one := range all {
		allowed[i] = name(one)
	}
	for _, n := range picked {
		if !slices.Contains(allowed, n) {
			return nil, fmt.Errorf("unknown %s %q (%s)", what, n, naming.Hint(n, allowed))
		}
	}
	return only(all, name, picked), nil
}

func only[T any](all []T, name func(T) string, picked []string) []T {
	return slices.DeleteFunc(slices.Clone(all), func(one T) bool { return !slices.Contains(picked, name(one)) })
}

func (c Subject) name() string { return c.Name }

// InRedis reports whether the subject keeps a lock in Redis, on one server or on
// several.
func (c Subject) InRedis() bool { return c.Lock != nil && !c.InProcess && !c.InService() }

// InService reports whether the subject keeps a lock on servers other than Redis.
func (c Subject) InService() bool {
	return c.Needs == catalog.NeedsEtcd || c.Needs == catalog.NeedsZooKeeper
}

// Leased reports whether a handle has a context that is cancelled when the lock is lost. Only such
// a handle depends on time.
func (c Subject) Leased() bool {
	if !c.InRedis() {
		return false
	}
	w := &World{TTL: ScheduleTTL, Subject: c}
	rdb := redis.NewClient(&redis.Options{}) // it never connects
	defer rdb.Close()
	_, ok := c.Lock(&Process{w: w, life: context.Background(), rdb: rdb}).New("key").(contextual)
	return ok
}

// Guard makes the subject's guard for this instance.
func (p *Process) Guard() guard.Guard { return p.w.Subject.guard(p, nil) }

// StockGuard makes the subject's guard around the stock for this instance. A refused caller waits
// as the policy says, or in the subject's own way if the policy is nil.
func (p *Process) StockGuard(policy guard.Policy) stock.Guard {
	c := p.w.Subject
	if c.Optimistic {
		return stock.Optimistic(p.rdb)
	}
	return stock.ExclusiveInRedis(stock.Clients{Redis: p.rdb}, c.guard(p, policy))
}

func (c Subject) guard(p *Process, policy guard.Policy) guard.Guard {
	if c.Guard != nil {
		return c.Guard(p)
	}
	d := c.Lock(p)
	d.Policy = policy
	if _, waits := d.New(p.w.lockKey).(guard.Waiter); policy == nil && !waits {
		d.Policy = guard.Fixed{Delay: p.w.Delay}
	}
	return d
}

// redsyncOf makes redsync's lock with the lab's ttl and retry delay. The number of tries is
// redsync's default unless an option sets it, and nothing extends the lease.
func redsyncOf(p *Process, key string, more ...redsync.Option) *thirdparty.RedsyncMutex {
	options := append([]redsync.Option{redsync.WithExpiry(p.w.TTL), redsync.WithRetryDelay(p.w.Delay)}, more...)
	if p.w.TTL < 2*time.Second { // redsync's default reply timeout is too short for a busy machine
		options = append(options, redsync.WithTimeoutFactor(0.2))
	}
	lib := thirdparty.NewRedsync(p.rdb, options...)
	lib.Bare = true
	return lib.New(key)
}

// redislockOf makes redislock's lock with a linear backoff. Nothing refreshes the lease.
func redislockOf(p *Process, key string) *thirdparty.RedislockMutex {
	wait := func() redislock.RetryStrategy { return redislock.LinearBackoff(p.w.Delay) }
	lib := thirdparty.NewRedislock(p.rdb, p.w.TTL, wait)
	lib.Bare = true
	return lib.New(key)
}

// rueidis makes a process's rueidislock. DisableCache, a documented option, makes it poll, because
// the embedded Redis has no client tracking. It polls on all servers, so that the tables can be
// compared.
func (w *World) rueidis(rdb redis.UniversalClient) *thirdparty.Rueidislock {
	lib := thirdparty.NewRueidislock(rdb, rueidislock.LockerOption{
		KeyValidity:  w.TTL,
		TryNextAfter: w.TTL / 20, // an attempt that takes longer fails
		ClientOption: rueidis.ClientOption{DisableCache: true, ClientSetInfo: rueidis.DisableClientSetInfo},
	})
	lib.Bare = true
	return lib
}

// localLock is a handle on the mutex of a process.
type localLock struct {
	p    *Process
	key  string
	hold *guard.KeyHold
	stop func() bool // cancels the unlock at the end of the process
}

func newLocalLock(p *Process, key string) guard.Lock { return &localLock{p: p, key: key} }

var errNotTaken = errors.New("lab: the mutex was not locked by this caller")

func (l *localLock) TryLock(context.Context) (bool, error) {
	hold := l.p.mutex.Mutex.TryLock(l.key)
	if hold == nil {
		return false, nil
	}
	l.took(hold)
	return true, nil
}

func (l *localLock) Lock(ctx context.Context) error {
	hold, err := l.p.mutex.Mutex.Lock(ctx, l.key)
	if err == nil {
		l.took(hold)
	}
	return err
}

// took stores the hold, and arranges its release at the end of the process.
func (l *localLock) took(hold *guard.KeyHold) {
	l.hold, l.stop = hold, context.AfterFunc(l.p.life, hold.Unlock)
}

func (l *localLock) Unlock(context.Context) error {
	if l.hold == nil {
		return errNotTaken
	}
	if l.stop() {
		l.hold.Unlock()
	}
	l.hold = nil
	return nil
}
