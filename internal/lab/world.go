package lab

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"oversell/internal/guard"
)

// World is the stage of one cell: a server, the processes that use it, and the record of
// what they do.
type World struct {
	TTL   time.Duration // lease of a lock
	Delay time.Duration // between two attempts of who waits

	Subject Subject
	server  *server
	SKU     string // in the name of every key
	lockKey string // of the lock, as the strategy is given it
	ctx     context.Context
	end     context.CancelFunc
	Side    *redis.Client // looks on, past all faults
	turn    chan struct{} // one command at a time, so that what it did is seen

	late atomic.Bool // something took longer than it may

	trace    trace
	spaces   []*keyspace                                 // the one Redis, and after it each of redlock's nodes
	keyless  bool                                        // only the lock is looked at
	changed  func(actor string, before, after lockState) // is told of commands that concern the lock; nil: nobody is
	names    *names
	scripts  sync.Map // that buyers at a gate have sent in full, by their hash
	database database

	mu        sync.Mutex
	processes []*Process
	deeds     map[deed]int // how often
	inside    []string     // who holds the lock, once for each hold
	overlaps  []string     // when two held it at once
	steps     int          // how often somebody has taken or given back the lock
	failure   *Verdict     // of a goroutine that could not go on, or of a look that failed
	cleanups  []func()
	all       sync.WaitGroup
}

// newWorld makes the world of one cell. Close ends it.
func newWorld(ctx context.Context, s *server, c Subject, ttl time.Duration) *World {
	sku := "lab-" + uuid.NewString()
	start := time.Now()
	w := &World{
		TTL: ttl, Delay: ttl / 60,
		Subject: c, server: s, SKU: sku,
		turn:  make(chan struct{}, 1),
		trace: trace{start: start},
		names: newNames(start), deeds: make(map[deed]int),
	}
	w.ctx, w.end = context.WithCancel(ctx)
	w.Side = redis.NewClient(s.options(s.dial))
	w.spaces = []*keyspace{newKeyspace(w.Side, "")}
	for i, node := range s.nodes {
		w.spaces = append(w.spaces, newKeyspace(redis.NewClient(node.options(node.dial)), nodeName(i)))
	}
	w.names.call(w.StockKey(), "stock")
	w.SetLockKey(w.itemKey("lock"))
	return w
}

// SetLockKey says where the lock lives, before anybody asks for it.
func (w *World) SetLockKey(key string) {
	w.lockKey = key
	w.names.call(w.lockKey, "lock")
	w.names.call(w.redisKey(), "lock")
}

// StockKey is where the guards of package stock keep an item's stock.
func (w *World) StockKey() string { return w.itemKey("stock") }

func (w *World) itemKey(what string) string { return "oversell:{" + w.SKU + "}:" + what }

// redisKey is where in Redis the subject's lock lives.
func (w *World) redisKey() string {
	if w.Subject.RedisKey != nil {
		return w.Subject.RedisKey(w.lockKey)
	}
	return w.lockKey
}

// close ends every process, removes what the cell left in Redis, and returns when all
// goroutines of the cell have ended.
func (w *World) close() {
	w.mu.Lock()
	cleanups := w.cleanups
	w.mu.Unlock()
	processes := w.actors()
	for _, f := range slices.Backward(cleanups) {
		f()
	}
	for _, p := range processes {
		p.close()
	}
	w.end()
	w.all.Wait()
	if w.server.service != nil {
		var all sync.WaitGroup
		for _, p := range processes { // concurrently, because those that are cut off take long
			all.Go(p.leave)
		}
		all.Wait()
	}
	w.database.close()
	// The cell is over, and its caller's context may be too.
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	for _, space := range w.spaces {
		if keys := space.known(); len(keys) > 0 {
			_ = space.side.Del(ctx, keys...).Err()
		}
		_ = space.side.Close()
	}
}

// Cleanup calls f when the cell is over. What was added last is called first.
func (w *World) Cleanup(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cleanups = append(w.cleanups, f)
}

// play runs a scenario and returns its verdict. A scenario that gets stuck,
// panics, or does not end in time decides nothing.
func (w *World) play(run func(*World) Verdict, limit time.Duration) Verdict {
	out := make(chan Verdict, 1)
	w.all.Go(func() {
		v := Unknown.Because("the scenario ended without a verdict")
		defer func() {
			if r := recover(); r != nil {
				v = failed(r)
			}
			out <- v
		}()
		v = run(w)
	})
	select {
	case v := <-out:
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.failure != nil {
			return *w.failure
		}
		return v
	case <-time.After(limit):
		return Unknown.Because("it was not over after %v", limit)
	case <-w.ctx.Done():
		return Unknown.Because("interrupted")
	}
}

// Go runs f as one more actor of the scenario. The channel is closed when it
// returns.
func (w *World) Go(f func()) <-chan struct{} {
	done := make(chan struct{})
	w.all.Go(func() {
		defer close(done)
		defer func() {
			if r := recover(); r != nil {
				v := failed(r)
				w.mu.Lock()
				defer w.mu.Unlock()
				w.failure = &v
			}
		}()
		f()
	})
	return done
}

func failed(r any) Verdict {
	if s, ok := r.(stuck); ok {
		return Unknown.Because("%s", s.why)
	}
	return Unknown.Because("panic: %v\n%s", r, debug.Stack())
}

// Sleep lets time pass.
func (w *World) Sleep(d time.Duration) {
	defer w.within(d)()
	select {
	case <-time.After(d):
	case <-w.ctx.Done():
		panic(stuck{"interrupted"})
	}
}

// within measures until it is called whether something takes much longer than d.
func (w *World) within(d time.Duration) (done func()) {
	start := time.Now()
	return func() {
		if time.Since(start) > d+w.TTL/tolerance {
			w.late.Store(true)
		}
	}
}

// Settle lets enough time pass for everybody to finish what takes no time.
func (w *World) Settle() { w.Sleep(w.TTL / 50) }

// Await reports whether ch is closed within limit.
func (w *World) Await(ch <-chan struct{}, limit time.Duration) bool {
	select {
	case <-ch:
		return true
	case <-time.After(limit):
		return false
	case <-w.ctx.Done():
		panic(stuck{"interrupted"})
	}
}

// Must ends the scenario unless ch is closed soon enough.
func (w *World) Must(ch <-chan struct{}, what string) {
	Need(w.Await(ch, 20*w.TTL), "%s: it did not happen", what)
}

// Note adds a remark to the trace. Actor may be "".
func (w *World) Note(actor, format string, args ...any) {
	w.trace.add(actor, Note, fmt.Sprintf(format, args...))
}

// Broke marks the moment at which it goes wrong, and returns the verdict.
func (w *World) Broke(actor, format string, args ...any) Verdict {
	v := Breaks.Because(format, args...)
	if !w.trace.full() {
		w.trace.add(actor, Break, v.Note)
		return v
	}
	w.alone(func() { w.show(w.trace.add(actor, Break, v.Note)) }) // the commands that led to it are not shown
	return v
}

// Verdict is Holds with the reason good if ok, and otherwise Broke with bad.
func (w *World) Verdict(ok bool, actor, good, bad string) Verdict {
	if ok {
		return Holds.Because("%s", good)
	}
	return w.Broke(actor, "%s", bad)
}

// Enters notes that an actor has the lock. Leave is to be called when it no longer relies on it.
func (w *World) Enters(who string) (leave func()) {
	w.enters(who)
	return func() { w.leaves(who) }
}

// actors are the processes so far.
func (w *World) actors() []*Process {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.processes)
}

// Trace adds an event to the trace. Actor may be "".
func (w *World) Trace(actor string, kind Kind, text string) { w.trace.add(actor, kind, text) }

// First returns when an actor first had an event of that kind.
func (w *World) First(actor string, kind Kind) (at time.Duration, ok bool) {
	return w.trace.first(actor, kind)
}

// Context ends with the cell.
func (w *World) Context() context.Context { return w.ctx }

// NameKey sets the name by which the trace shows a key, a token or an id.
func (w *World) NameKey(key, name string) { w.names.call(key, name) }

// Readable is a text with names for all keys and tokens in it.
func (w *World) Readable(text string) string { return w.names.value(text) }

// LockHeld reports whether somebody holds the lock, as its servers have it.
func (w *World) LockHeld() bool { return w.look().held }

// LeaseLeft is what is left of the lease: 0 if nobody holds the lock, and less if it
// is held without one.
func (w *World) LeaseLeft() time.Duration { return w.look().left }

// Entry is how an owner asks a guard for the lock.
func (w *World) Entry(owner string) guard.Entry {
	return guard.Entry{Key: w.lockKey, Owner: owner}
}
