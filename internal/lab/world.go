package lab

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
)

// World is what one cell happens in: a server, the processes that use it, and
// what is put on record of them.
type World struct {
	TTL   time.Duration // lease of a lock
	Delay time.Duration // between two attempts of who waits

	column  Column
	server  *server
	sku     string // in the name of every key
	lockKey string // of the lock, as the strategy is given it
	ctx     context.Context
	end     context.CancelFunc
	side    *redis.Client   // looks on, past all faults
	sides   []*redis.Client // the same at each server that keeps the lock
	turn    chan struct{}   // one command at a time, so that what it did is seen

	late atomic.Bool // something took longer than it may

	trace   trace
	seen    sights      // of the lock, at redlock's nodes
	spaces  []*keyspace // the one Redis, and after it each of redlock's nodes
	keyless bool        // only the lock is looked at
	names   *names
	history history
	deeds   deeds
	owners  owners

	mu        sync.Mutex
	processes []*Process
	failure   *verdict // of a goroutine that could not go on, or of a look that failed
	cleanups  []func()
	all       sync.WaitGroup
}

// newWorld makes the world of one cell. Close ends it.
func newWorld(ctx context.Context, s *server, c Column, ttl time.Duration) *World {
	sku := "lab-" + uuid.NewString()
	start := time.Now()
	w := &World{
		TTL: ttl, Delay: ttl / 60,
		column: c, server: s, sku: sku,
		turn:  make(chan struct{}, 1),
		trace: trace{start: start},
		names: newNames(start),
	}
	w.ctx, w.end = context.WithCancel(ctx)
	w.side = redis.NewClient(s.options(s.dial))
	w.sides = []*redis.Client{w.side}
	if len(s.nodes) > 0 {
		w.sides = nil
		for _, node := range s.nodes {
			w.sides = append(w.sides, redis.NewClient(node.options(node.dial)))
		}
		w.seen.know(make([]lockState, len(w.sides)))
	}
	w.spaces = []*keyspace{newKeyspace(w.side, "")}
	for i := range s.nodes {
		w.spaces = append(w.spaces, newKeyspace(w.sides[i], nodeName(i)))
	}
	w.names.call(w.stockKey(), "stock")
	w.lockAt("oversell:{" + sku + "}:lock")
	return w
}

// lockAt says where the lock lives, before anybody asks for it.
func (w *World) lockAt(key string) {
	w.lockKey = key
	w.names.call(w.lockKey, "lock")
	w.names.call(w.redisKey(), "lock")
	w.watch()
}

// stockKey is where the guards of package stock keep an item's stock.
func (w *World) stockKey() string { return "oversell:{" + w.sku + "}:stock" }

// redisKey is where in Redis the column's lock lives.
func (w *World) redisKey() string {
	if w.column.RedisKey != nil {
		return w.column.RedisKey(w.lockKey)
	}
	return w.lockKey
}

// close ends every process, removes what the cell left in Redis, and returns
// when no goroutine of the cell is left.
func (w *World) close() {
	w.mu.Lock()
	processes, cleanups := w.processes, w.cleanups
	w.mu.Unlock()
	for _, f := range cleanups {
		f()
	}
	for _, p := range processes {
		p.close()
	}
	w.end()
	w.all.Wait()
	w.leave()
	// The cell is over, and so may be its caller's patience.
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	for _, space := range w.spaces {
		if keys := space.known(); len(keys) > 0 {
			_ = space.side.Del(ctx, keys...).Err()
		}
		_ = space.side.Close()
	}
}

// leave ends the processes' part in a service, all at once: those that are cut off
// take their time.
func (w *World) leave() {
	if w.server.service == nil {
		return
	}
	var all sync.WaitGroup
	for _, p := range w.processes { // nobody starts another one any more
		all.Go(p.leave)
	}
	all.Wait()
}

// cleanup has f called when the cell is over.
func (w *World) cleanup(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cleanups = append(w.cleanups, f)
}

// play runs a scenario and returns its verdict. A scenario that gets stuck,
// panics, or does not end in time decides nothing.
func (w *World) play(run func(*World) verdict, limit time.Duration) verdict {
	out := make(chan verdict, 1)
	w.all.Go(func() {
		v := unknown("the scenario ended without a verdict")
		defer func() {
			if r := recover(); r != nil {
				v = failed(r)
			}
			out <- v
		}()
		v = run(w)
	})
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case v := <-out:
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.failure != nil {
			return *w.failure
		}
		return v
	case <-timer.C:
		return unknown("it was not over after %v", limit)
	case <-w.ctx.Done():
		return unknown("interrupted")
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

// failed is the verdict on a scenario that panicked.
func failed(r any) verdict {
	if s, ok := r.(stuck); ok {
		return unknown("%s", s.why)
	}
	return unknown("panic: %v\n%s", r, debug.Stack())
}

// Sleep lets time pass.
func (w *World) Sleep(d time.Duration) {
	defer w.within(d)()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
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

// Settle lets everybody do what can be done at once.
func (w *World) Settle() { w.Sleep(w.TTL / 50) }

// await reports whether ch is closed within limit.
func (w *World) await(ch <-chan struct{}, limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-ch:
		return true
	case <-timer.C:
		return false
	case <-w.ctx.Done():
		panic(stuck{"interrupted"})
	}
}

// must ends the scenario unless ch is closed soon enough.
func (w *World) must(ch <-chan struct{}, what string) {
	need(w.await(ch, 20*w.TTL), "%s: it did not come about", what)
}

// Note puts a remark into the trace; actor may be "".
func (w *World) Note(actor, format string, args ...any) {
	w.trace.add(actor, Note, fmt.Sprintf(format, args...))
}

// broke marks the moment at which it goes wrong, and is the verdict on it.
func (w *World) broke(actor, format string, args ...any) verdict {
	v := breaks(format, args...)
	if !w.trace.full() {
		w.trace.add(actor, Break, v.note)
		return v
	}
	w.alone(func() { w.show(w.trace.add(actor, Break, v.note)) }) // the commands that led to it are not shown
	return v
}

// exclusive is the verdict on who had the lock when.
func (w *World) exclusive() verdict {
	v := w.history.check()
	if v.outcome == Breaks {
		w.trace.judge()
	}
	return v
}

// verdict is that it holds, if ok, or else that it broke.
func (w *World) verdict(ok bool, actor, good, bad string) verdict {
	if ok {
		return holds("%s", good)
	}
	return w.broke(actor, "%s", bad)
}
