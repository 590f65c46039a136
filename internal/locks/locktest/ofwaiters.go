package locktest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing/synctest"
	"time"
)

// ofWaiters returns the promises of a lock with a Lock method that waits.
func ofWaiters() []promise {
	return applying(func(l Lock) bool { _, ok := l.handle().(waiter); return ok }, []promise{
		{name: "Lock waits until the holder releases the lock, and returns soon after", scenario: waits},
	})
}

func waits(w *World) {
	a, b, c := w.Holder("a"), w.Holder("b"), w.Holder("c")
	a.MustLock()
	served, _ := b.Wait()
	err := served.Within(TTL / 2)
	w.Expect(errors.Is(err, errGoesOn), "Lock returned %v while another holder had the lock", err)
	w.Expect(a.Unlock(), "the holder could not release the lock")
	err = served.Within(TTL / 3)
	w.Expect(err == nil, "the lock was free for a third of the ttl, and its waiter has not got it: %v", err)
	w.Expect(!c.TryLock(), "Lock returned without the lock")
	w.Expect(b.Unlock() && c.TryLock(), "the waiter could not release the lock")
}

// look is the longest time for which a waiter in a queue sleeps before it asks again.
const look = TTL / 3

// ofQueues returns the promises of a lock whose waiters queue up in Redis.
func ofQueues() []promise {
	return applying(func(l Lock) bool { return l.Queue != "" }, []promise{
		{name: "first come, first served, and handing on takes no time", scenario: fifo},
		{name: "a newcomer does not overtake a waiter, even when the lease has expired", scenario: newcomer},
		{name: "a waiter keeps its place", scenario: keepsPlace},
		{name: "a dead waiter is skipped", scenario: deadWaiters},
		{name: "a lock that is handed to a dead waiter is free within the ttl", scenario: deadHeir},
		{name: "a dead process is succeeded as soon as its lease has expired", scenario: deadProcess},
		{name: "a dead holder and dead waiters leave nothing behind", scenario: deadLeaveNothing},
		{name: "a waiter that gives up leaves nothing behind", scenario: givesUp},
		{name: "nor if it gives up during its request", scenario: givesUpDuringRequest},
		{name: "nor if Redis fails when it gives up", scenario: givesUpInVain},
		{name: "a waiter that leaves hands on what it was handed", scenario: leavingHeir},
		{name: "a waiter that leaves late takes no lock", scenario: leavesLate},
		{name: "few of the waiters that cannot leave retry", scenario: fewRetry},
		{name: "a lost wake-up costs a third of the ttl at most", scenario: lostWakeUp},
		{name: "the lease of a waiter begins when it gets the lock", scenario: leaseOfWaiter},
		{name: "a waiter is told when Redis fails", scenario: redisFails},
		{name: "an owner does not wait for itself", scenario: ownerReenters},
		{name: "waiters leave half of the pool to other commands", scenario: halfOfThePool},
	})
}

// Queued starts waiters one after another, and records how they enter.
type Queued struct {
	Witness

	w      *World
	done   []Attempt // of the waiters
	mu     sync.Mutex
	who    []string // the holders that have entered, in order
	tokens []int64  // their tokens, if the lock has tokens
}

// Queued returns a queue without waiters.
func (w *World) Queued() *Queued { return &Queued{w: w} }

// Add starts a waiter that acquires the lock, works, and releases the lock. It returns when the
// waiter waits.
func (q *Queued) Add(h *Holder, work time.Duration) {
	q.add(h, work)
	synctest.Wait()
}

// add is Add, but does not wait.
func (q *Queued) add(h *Holder, work time.Duration) {
	done, _ := h.start(func(ctx context.Context) error {
		if err := h.lock(ctx); err != nil {
			return err
		}
		leave := q.enter(h)
		time.Sleep(work)
		leave()
		return h.Mutex.Unlock(h.Ctx)
	})
	q.done = append(q.done, done)
}

// enter records that h is inside until leave is called.
func (q *Queued) enter(h *Holder) (leave func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.who = append(q.who, h.name)
	if m, ok := h.Mutex.(fenced); ok {
		q.tokens = append(q.tokens, m.Token())
	}
	return q.Enter(h.name)
}

// soFar returns the holders that have entered, in order.
func (q *Queued) soFar() []string {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Clone(q.who)
}

// MustServe expects that all waiters get the lock within the limit, one at a time, and each with a
// larger token than the one before. It returns them in the order in which they were served.
func (q *Queued) MustServe(limit time.Duration) []string {
	end := time.Now().Add(limit)
	var failed error
	for _, done := range q.done {
		synctest.Wait()
		failed = errors.Join(failed, done.Within(time.Until(end)))
	}
	overlaps := q.Overlaps()
	q.w.Expect(len(overlaps) == 0, "%s", strings.Join(overlaps, "; "))
	served := q.soFar()
	q.w.Expect(failed == nil, "not served within %v: %v; served were %v", limit, failed, served)
	for i := 1; i < len(q.tokens); i++ {
		q.w.Expect(q.tokens[i-1] < q.tokens[i], "the token %d came after %d", q.tokens[i], q.tokens[i-1])
	}
	return served
}

// MustServeInOrder expects that all waiters get the lock within the limit, in the order want.
func (q *Queued) MustServeInOrder(limit time.Duration, want ...string) {
	got := q.MustServe(limit)
	q.w.Expect(slices.Equal(got, want), "served %v, want %v", got, want)
}

func fifo(w *World) {
	a, q := w.Holder("a"), w.Queued()
	a.MustLock()
	for _, who := range []string{"b", "c", "d"} {
		q.Add(w.Holder(who), 0)
	}
	a.MustUnlock()
	q.MustServeInOrder(0, "b", "c", "d")
}

func newcomer(w *World) {
	a, b, c, q := w.Holder("a"), w.Holder("b"), w.Holder("c"), w.Queued()
	a.MustLock()
	a.Stop()
	time.Sleep(look / 2)
	q.Add(b, look)
	time.Sleep(TTL - look/2 + Tick/2)
	c.MustNotLock()
	q.Add(w.Holder("d"), 0)
	time.Sleep(look)
	w.Expect(len(w.queue()) == 1, "the queue has %v, want the only waiter", w.queue())
	q.MustServeInOrder(2*look, "b", "d")
}

// A waiter sends a heartbeat within each ttl, even a short one, and is in the queue only once.
func keepsPlace(w *World) {
	const ttl = TTL / 10
	a, b := w.holderWith("a", ttl), w.holderWith("b", ttl)
	a.MustLock()
	served, leave := b.Wait()
	for range 100 {
		time.Sleep(ttl / 10)
		w.Expect(len(w.queue()) == 1, "the queue has %v, want the waiter once", w.queue())
	}
	leave()
	<-served
	q := w.Queued()
	q.Add(w.holderWith("c", ttl), 0)
	q.Add(b, 0)
	time.Sleep(10 * ttl)
	a.MustUnlock()
	q.MustServeInOrder(0, "c", "b")
}

// dead puts n waiters into the queue, and stops their processes.
func (w *World) dead(n int) {
	for i := range n {
		h := w.Holder(fmt.Sprint("dead ", i))
		h.Wait()
		h.Stop()
	}
}

// Both Unlock and the next request skip a dead waiter once its heartbeat has expired.
func deadWaiters(w *World) {
	for _, unlocked := range []bool{true, false} {
		a, q := w.Holder("a"), w.Queued()
		a.MustLock()
		w.dead(3)
		time.Sleep(look / 2)
		q.Add(w.Holder("b"), 0)
		time.Sleep(TTL - look/4)
		if unlocked {
			a.MustUnlock()
			q.MustServeInOrder(0, "b")
		} else {
			a.Stop()
			w.Del(w.Key)
			q.MustServeInOrder(look, "b")
		}
	}
}

func deadHeir(w *World) {
	a, b := w.Holder("a"), w.Holder("b")
	a.MustLock()
	w.dead(1)
	time.Sleep(TTL / 2)
	a.MustUnlock()
	b.MustNotLock()
	took := b.lockNow()
	w.Expect(took <= TTL/2+look, "waited %v, want the rest of the heartbeat of %v and a look at most", took, TTL/2)
	w.Expect(len(w.queue()) == 0, "the queue has %v, which has the lock", w.queue())
}

// A process with a holder and a waiter dies.
func deadProcess(w *World) {
	a, b := w.Holder("a"), w.Holder("b")
	a.MustLock()
	time.Sleep(look / 10)
	a.Sibling("dead").Wait()
	a.Stop()
	time.Sleep(look / 10)
	took := b.lockNow()
	w.Expect(took <= TTL-look/10+5*Tick, "waited %v, want %v", took, TTL-look/10)
}

func deadLeaveNothing(w *World) {
	a := w.Holder("a")
	a.MustLock()
	w.dead(1)
	a.Stop()
	time.Sleep(5 * TTL)
	w.Expect(len(w.Keys()) == 0, "left in Redis: %v", w.Keys())
}

func givesUp(w *World) {
	a, b := w.Holder("a"), w.Holder("b")
	a.MustLock()
	errEnough := errors.New("enough")
	const patience = 5*look + look/2 // between two heartbeats
	ctx, cancel := context.WithTimeoutCause(b.Ctx, patience, errEnough)
	defer cancel()
	start := time.Now()
	err := b.lock(ctx)
	w.Expect(errors.Is(err, errEnough) && time.Since(start) == patience, "Lock = %v after %v", err, time.Since(start))
	synctest.Wait()
	w.Expect(len(w.queue()) == 0, "the queue has %v", w.queue())
	a.MustUnlock()
	w.MustBeFree()
	err = b.lock(ctx)
	w.Expect(errors.Is(err, errEnough), "Lock = %v after the wait was over", err)
	w.MustBeFree()
}

// In one case the withdrawal reaches Redis before the request; in the other, after it.
func givesUpDuringRequest(w *World) {
	for _, where := range []parking{beforeIt, afterIt} {
		a, b := w.Holder("a"), w.Holder("b")
		a.MustLock()
		pause := NewPause()
		b.Hook.On(Any, 1, where(pause))
		gone, leave := b.start(b.lock)
		<-pause.Parked()
		leave()
		synctest.Wait()
		pause.Release()
		err := gone.Within(look + Tick)
		w.Expect(errors.Is(err, context.Canceled), "Lock = %v", err)
		time.Sleep(look + Tick)
		w.Expect(len(w.queue()) == 0, "the queue has %v", w.queue())
		a.MustUnlock()
		w.MustBeFree()
	}
}

func givesUpInVain(w *World) {
	a, b := w.Holder("a"), w.Holder("b")
	a.MustLock()
	_, leave := b.Wait()
	b.Hook.On(Any, 4, Fail(ErrCut))
	leave()
	time.Sleep(TTL / 4)
	w.Expect(len(w.queue()) == 0, "the queue has %v", w.queue())
	a.MustUnlock()
	w.MustBeFree()
}

// The waiter is woken, and leaves before it has asked again. A dead waiter is behind it.
func leavingHeir(w *World) {
	a, b, q := w.Holder("a"), w.Holder("b"), w.Queued()
	a.MustLock()
	gone, leave := b.Wait()
	w.dead(1)
	time.Sleep(look / 2)
	q.Add(w.Holder("c"), 0)
	time.Sleep(TTL - look/4)
	pause := NewPause()
	asks := b.Hook.On(Any, 1, pause.Before)
	a.MustUnlock()
	synctest.Wait()
	asks.Off() // in case b got the lock together with the message
	leave()
	synctest.Wait()
	if asks.Hits() == 0 {
		b.MustUnlock()
	}
	q.MustServeInOrder(0, "c")
	pause.Release()
	if err := gone.Now(); err == nil { // the lock was free, so b got it after all
		b.Unlock()
	}
}

// The command that removes a waiter from the queue reaches Redis late: by then, the waiter's owner
// has acquired the lock.
func leavesLate(w *World) {
	a, b, c := w.Holder("a"), w.Holder("b"), w.Holder("c")
	a.MustLock()
	gone, leave := b.Wait()
	pause := NewPause()
	b.Hook.On(Any, 1, pause.Before)
	leave()
	<-pause.Parked()
	err := gone.Within(look + Tick)
	w.Expect(errors.Is(err, context.Canceled), "Lock = %v", err)
	time.Sleep(Tick)
	a.MustUnlock()
	locked := b.TryLock()
	pause.Release()
	synctest.Wait()
	if locked {
		c.MustNotLock()
		b.MustUnlock()
	}
	w.MustBeFree()
}

// While Redis is unavailable, most of the waiters that give up try only once to leave the queue.
func fewRetry(w *World) {
	const many = 640
	a := w.Holder("a")
	failing := a.Hook.On(Any, -1, Fail(ErrCut))
	tries := func(waiters int) int {
		before := failing.Hits()
		for i := range waiters {
			a.Sibling(fmt.Sprint("waiter ", i)).Wait()
		}
		time.Sleep(2 * TTL)
		return failing.Hits() - before
	}
	one := tries(1)
	n := tries(many)
	w.Expect(one >= 5 && n <= 3*many+many/10*one, "%d commands of %d waiters, where one sends %d", n, many, one)
}

// The connection breaks after Redis has taken the message from its list. The ttl is short.
func lostWakeUp(w *World) {
	const ttl = TTL / 10
	a, b := w.holderWith("a", ttl), w.holderWith("b", ttl)
	a.MustLock()
	b.Hook.On(Command("blpop"), 1, LoseReply(ErrCut))
	served, _ := b.Wait()
	a.MustUnlock()
	err := served.Within(ttl / 3)
	w.Expect(err == nil, "after a third of the ttl: %v", err)
	b.MustUnlock()

	// The message is already gone when the waiter begins to sleep.
	a.MustLock()
	b.Hook.On(Command("blpop"), 1, func(_ context.Context, send func() error) error {
		_ = a.Mutex.Unlock(a.Ctx)
		for _, key := range w.Keys() {
			if strings.Contains(key, ":wake:") {
				w.Del(key)
			}
		}
		return send()
	})
	served, _ = b.Wait()
	err = served.Within(ttl/3 + Tick)
	w.Expect(err == nil, "after a third of the ttl: %v", err)
}

// A waiter that gets the lock does not rely on its lease for longer than Redis keeps the lock.
func leaseOfWaiter(w *World) {
	a, b, c := w.Holder("a"), w.Holder("b"), w.Holder("c")
	a.MustLock()
	served, _ := b.Wait()
	time.Sleep(TTL / 2)
	a.MustUnlock()
	w.Expect(served.Now() == nil, "the waiter is not served")
	w.Expect(w.TTL(w.Key) > TTL/2, "Redis keeps the lock for %v", w.TTL(w.Key))
	ctx := b.Context()
	b.Hook.On(Any, -1, Fail(ErrCut))
	for ctx.Err() == nil {
		w.Expect(!c.TryLock(), "a second holder came in, and the first was not told")
		time.Sleep(look / 10)
		synctest.Wait()
	}
	time.Sleep(TTL)
	c.MustLock()
	_ = b.Mutex.Unlock(b.Ctx)
}

func redisFails(w *World) {
	a, b := w.Holder("a"), w.Holder("b")
	a.MustLock()
	failed, _ := b.Wait()
	away := b.Hook.On(Any, -1, Fail(ErrCut))
	err := failed.Within(2 * look)
	w.Expect(errors.Is(err, ErrCut), "Lock = %v", err)
	time.Sleep(TTL / 2)
	away.Off()
	time.Sleep(TTL / 5)
	w.Expect(len(w.queue()) == 0, "the queue has %v", w.queue())
	a.MustUnlock()
	w.MustBeFree()
}

func ownerReenters(w *World) {
	if w.lock.WithOwner == nil {
		return
	}
	outer, q := w.Holder("a"), w.Queued()
	inner := outer.Sibling("a")
	outer.MustLock()
	q.Add(w.Holder("b"), 0)
	took := inner.lockNow()
	w.Expect(took == 0, "the owner waited %v for itself", took)
	inner.MustUnlock()
	synctest.Wait()
	w.Expect(len(q.soFar()) == 0, "the inner Unlock hands the lock on")
	outer.MustUnlock()
	q.MustServeInOrder(0, "b")
}

// One process waits for many locks.
func halfOfThePool(w *World) {
	const locks = 50
	key, waiting, q := w.Key, w.Holder("waiting"), w.Queued()
	pool := waiting.rdb.Options().PoolSize
	var blocked Witness
	waiting.Hook.On(Command("blpop"), -1, func(_ context.Context, send func() error) error {
		defer blocked.Enter("a waiter")()
		return send()
	})
	var held []*Holder
	for i := range locks {
		w.Key = fmt.Sprint(key, i)
		held = append(held, w.Holder("holder"))
		held[i].MustLock()
		q.Add(waiting.Sibling("waiting"), 0)
	}
	w.Expect(blocked.Most() <= pool/2, "%d waiters block a connection each; the pool has %d", blocked.Most(), pool)
	for _, h := range held {
		h.MustUnlock()
	}
	time.Sleep(look)
	w.Expect(len(q.soFar()) == locks, "%d of %d waiters were served", len(q.soFar()), locks)
	w.Key = key
}
