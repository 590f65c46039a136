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
	"oversell/internal/message"
)

// World is the environment of one cell: a server, the processes that use it, and the record of
// their actions.
type World struct {
	TTL   time.Duration // lease of a lock
	Delay time.Duration // between two attempts of a waiter

	Subject Subject
	server  *server
	SKU     string // part of the name of every key
	lockKey string // the key that is passed to the strategy
	ctx     context.Context
	end     context.CancelFunc
	Side    *redis.Client // observes Redis, without faults
	turn    chan struct{} // one command at a time, so that its effect can be seen

	late atomic.Bool // an operation took too long

	trace    trace
	spaces   []*keyspace                                 // one for the one Redis, then one for each redlock node
	keyless  bool                                        // only the lock is read after each command
	changed  func(actor string, before, after lockState) // is called after commands that mention the lock; may be nil
	names    *names
	database database

	mu        sync.Mutex
	processes []*Process
	deeds     map[[2]string]int // how many times an actor did something, by what and who
	inside    []string          // the holders of the lock, once for each hold
	overlaps  []message.Message // a sentence about each
	steps     int               // how many times the lock was taken or given up
	failure   *Verdict          // set if a goroutine could not go on or a server could not be read
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
		names: newNames(start), deeds: make(map[[2]string]int),
	}
	w.ctx, w.end = context.WithCancel(ctx)
	w.spaces = []*keyspace{newKeyspace(s, "")}
	for i, node := range s.nodes {
		w.spaces = append(w.spaces, newKeyspace(node, fmt.Sprintf("node %d: ", i))) // numbered as in redlock's errors
	}
	w.Side = w.spaces[0].side
	w.names.call(w.StockKey(), "stock")
	w.SetLockKey(w.itemKey("lock"))
	return w
}

// SetLockKey sets the key of the lock. It must be called before an actor asks for the lock.
func (w *World) SetLockKey(key string) {
	w.lockKey = key
	w.names.call(w.lockKey, "lock")
	w.names.call(w.redisKey(), "lock")
}

// StockKey returns the key at which the guards of package stock keep the item's stock.
func (w *World) StockKey() string { return w.itemKey("stock") }

func (w *World) itemKey(what string) string { return "oversell:{" + w.SKU + "}:" + what }

// redisKey returns the key in Redis of the subject's lock.
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
		for _, p := range processes { // concurrently, because a process that is cut off takes long to leave
			all.Go(p.leave)
		}
		all.Wait()
	}
	w.database.close()
	// The cell is over, and the context of its caller may have ended, too.
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	for _, space := range w.spaces {
		if keys := space.known(); len(keys) > 0 {
			_ = space.side.Del(ctx, keys...).Err()
		}
		_ = space.side.Close()
	}
}

// Cleanup calls f when the cell is over. Functions are called in reverse order.
func (w *World) Cleanup(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cleanups = append(w.cleanups, f)
}

// play runs a scenario and returns its verdict. If the scenario gets stuck, panics, or does not end
// in time, the outcome is Unknown.
func (w *World) play(run func(*World) Verdict, limit time.Duration) Verdict {
	v := Unknown.Because("the scenario ended without a verdict")
	select {
	case <-w.Go(func() { v = run(w) }):
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.failure != nil {
			return *w.failure
		}
		return v
	case <-time.After(limit):
		return Unknown.Because("it was not over after %v", limit)
	case <-w.ctx.Done():
		return interrupted
	}
}

var interrupted = Unknown.Because("interrupted")

// Go runs f in a goroutine of the scenario. The channel is closed when f returns.
func (w *World) Go(f func()) <-chan struct{} {
	done := make(chan struct{})
	w.all.Go(func() {
		defer close(done)
		defer func() {
			if r := recover(); r != nil {
				w.fail(failed(r))
			}
		}()
		f()
	})
	return done
}

// fail sets the outcome of the cell, unless something else failed before.
func (w *World) fail(v Verdict) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failure == nil {
		w.failure = &v
	}
}

func failed(r any) Verdict {
	if v, ok := r.(Verdict); ok {
		return v
	}
	return Unknown.Because("panic: %v\n%s", r, debug.Stack())
}

// Sleep lets time pass.
func (w *World) Sleep(d time.Duration) {
	defer w.within(d)()
	select {
	case <-time.After(d):
	case <-w.ctx.Done():
		panic(interrupted)
	}
}

// within starts to time an operation that should take d. The function done must be called when the
// operation is over; it marks the cell as late if the operation took much longer.
func (w *World) within(d time.Duration) (done func()) {
	start := time.Now()
	return func() {
		if time.Since(start) > d+w.TTL/tolerance {
			w.late.Store(true)
		}
	}
}

// Settle sleeps briefly, so that all goroutines can finish what takes no time.
func (w *World) Settle() { w.Sleep(w.TTL / 50) }

// Await reports whether ch is closed within limit.
func (w *World) Await(ch <-chan struct{}, limit time.Duration) bool {
	select {
	case <-ch:
		return true
	case <-time.After(limit):
		return false
	case <-w.ctx.Done():
		panic(interrupted)
	}
}

// Must ends the scenario with the outcome Unknown unless ch is closed soon enough. The format and
// its arguments say what closes ch.
func (w *World) Must(ch <-chan struct{}, format string, args ...any) {
	Need(w.Await(ch, 20*w.TTL), "%s: it did not happen", message.Newf(format, args...))
}

// Note adds a remark to the trace. Actor may be "".
func (w *World) Note(actor, format string, args ...any) {
	w.trace.add(actor, Note, message.Newf(format, args...))
}

// Broke adds a Break to the trace, and returns the verdict Breaks.
func (w *World) Broke(actor, format string, args ...any) Verdict {
	return w.broke(actor, message.Newf(format, args...))
}

func (w *World) broke(actor string, why message.Message) Verdict {
	v := Verdict{Breaks, why}
	if !w.trace.full() {
		w.trace.add(actor, Break, v.Note)
		return v
	}
	w.alone(func() { w.show(w.trace.add(actor, Break, v.Note)) }) // the commands that led to the break are not shown
	return v
}

// Verdict returns Holds with the reason good if ok. Otherwise it calls Broke with bad.
func (w *World) Verdict(ok bool, actor, good, bad string) Verdict {
	if ok {
		return Verdict{Holds, message.Text(good)}
	}
	return w.broke(actor, message.Text(bad))
}

// Enters records that an actor has the lock. Leave must be called when the actor no longer relies
// on it.
func (w *World) Enters(who string) (leave func()) {
	w.enters(who)
	return func() { w.leaves(who) }
}

// actors returns the processes started so far.
func (w *World) actors() []*Process {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.processes)
}

// Trace adds an event to the trace. Actor may be "".
func (w *World) Trace(actor string, kind Kind, format string, args ...any) *Event {
	return w.trace.add(actor, kind, message.Newf(format, args...))
}

// First returns the time of an actor's first event of a kind.
func (w *World) First(actor string, kind Kind) (at time.Duration, ok bool) {
	w.trace.mu.Lock()
	defer w.trace.mu.Unlock()
	for _, e := range w.trace.entries {
		if e.Actor == actor && e.Kind == kind {
			return time.Duration(e.At * float64(time.Millisecond)), true
		}
	}
	return 0, false
}

// Context returns a context that ends when the cell is over.
func (w *World) Context() context.Context { return w.ctx }

// NameKey sets the name by which the trace shows a key, a token or an id.
func (w *World) NameKey(key, name string) { w.names.call(key, name) }

// Readable replaces all keys and tokens in a text by their names.
func (w *World) Readable(text string) string { return w.names.value(text) }

// LockHeld reports whether the lock is held according to its servers.
func (w *World) LockHeld() bool { return w.look().held }

// LeaseLeft returns the time left on the lease. It is 0 if the lock is free, and negative if it is
// held without a lease.
func (w *World) LeaseLeft() time.Duration { return w.look().left }

// Entry returns the guard.Entry with which an owner asks for the lock.
func (w *World) Entry(owner string) guard.Entry {
	return guard.Entry{Key: w.lockKey, Owner: owner}
}
