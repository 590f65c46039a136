package locktest

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ofAll returns the promises of every lock, in the order in which the stages learn to keep them.
func ofAll() []promise {
	return applying(func(Lock) bool { return true }, []promise{
		{name: "one holder at a time", scenario: (*World).isLock},
		{name: "holders of one process exclude each other, and their tokens grow", scenario: together},
		{name: "an error of Redis is not mistaken for a held lock", scenario: frank},
		{name: "a cancelled caller can still release the lock", scenario: cancelled},
		{name: "Unlock reports that there is nothing to release", scenario: nothingHeld},
		{name: "a lock whose reply was lost can be released", scenario: untold},
		{name: "the lock of a crashed holder is free after the ttl", scenario: crash},
		{name: "a failed Unlock keeps the lock for a ttl at most", scenario: failedUnlock},
		{name: "a lost reply keeps the lock for a ttl at most", scenario: lostForATTL},
		{name: "a lock that nobody unlocks is free in the end", scenario: forgotten},
		{name: "a late holder does not release the next holder's lock", scenario: foreign},
		{name: "nor if it is late between two commands", scenario: atomic},
		{name: "the holder may take the lock again", scenario: reentrant},
		{name: "work longer than the ttl keeps the lock", scenario: slow},
		{name: "a process stopped for longer than the ttl keeps the lock", scenario: pause},
		{name: "a retry after a lost reply does no harm", scenario: lostReply},
	})
}

// Several holders wait for the lock while another holder in the same process has it. Then each of
// them gets the lock once.
func together(w *World) {
	first, q := w.Holder("a"), w.Queued()
	var others []*Holder
	for _, name := range []string{"b", "c", "d", "e"} {
		others = append(others, first.Sibling(name))
	}
	first.MustLock()
	leave := q.enter(first)
	for _, h := range others {
		w.Expect(!h.TryLock(), "a second holder of the process came in")
	}
	for _, h := range others {
		q.add(h, TTL/20) // all at the same time
	}
	time.Sleep(TTL / 20)
	leave()
	first.MustUnlock()
	q.MustServe(TTL)
}

func frank(w *World) {
	a := w.Holder("a")
	a.Hook.On(Any, 1, Fail(ErrCut))
	ok, err := a.Mutex.TryLock(a.Ctx)
	w.Expect(!ok, "TryLock succeeded without Redis")
	w.Expect(err != nil, "TryLock took silence for a lock that is held")
	time.Sleep(TTL / 10) // lets a background release end, in case the attempt acquired the lock
	a.MustLock()
	a.Hook.On(Any, 1, Fail(ErrCut))
	err = a.Mutex.Unlock(a.Ctx)
	w.Expect(err != nil && !errors.Is(err, w.lock.NotHeld), "Unlock without Redis = %v", err)
}

func cancelled(w *World) {
	a, b := w.Holder("a"), w.Holder("b")
	a.MustLock()
	w.Expect(!b.TryLock(), "a second holder came in, and nothing is released")
	ctx, cancel := context.WithCancel(a.Ctx)
	cancel()
	w.Expect(a.Mutex.Unlock(ctx) == nil, "Unlock failed")
	w.Expect(b.TryLock(), "the lock is not free")
}

func nothingHeld(w *World) {
	a := w.Holder("a")
	w.Expect(!a.Unlock(), "before the first hold")
	a.MustLock()
	a.MustUnlock()
	w.Expect(!a.Unlock(), "after the last hold")
	a.MustLock()
	w.Del(w.Key)
	w.Expect(!a.Unlock(), "after Redis has lost the lock")
}

func untold(w *World) {
	a, b := w.Holder("a"), w.Holder("b")
	a.LoseReply()
	a.Unlock()
	time.Sleep(TTL / 10)
	w.Expect(b.TryLock(), "it stays")
}

func crash(w *World) {
	a, b := w.Holder("a"), w.Holder("b")
	a.MustLock()
	a.Stop()
	time.Sleep(TTL - Tick)
	w.Expect(!b.TryLock(), "a second holder came in before the ttl was over")
	time.Sleep(2 * Tick)
	w.Expect(b.TryLock(), "the lock stays")
}

func failedUnlock(w *World) {
	a, b := w.Holder("a"), w.Holder("b")
	for name, fault := range faults {
		a.MustLock()
		a.Hook.On(unlocking, 1, fault)
		err := a.Mutex.Unlock(a.Ctx)
		w.Expect(err != nil && !errors.Is(err, w.lock.NotHeld), "%s: Unlock = %v", name, err)
		time.Sleep(TTL + Tick)
		w.Expect(b.TryLock(), "%s: the lock stays", name)
		b.MustUnlock()
	}
}

func lostForATTL(w *World) {
	a, b := w.Holder("a"), w.Holder("b")
	a.LoseReply()
	time.Sleep(TTL / 10) // lets a background release end, in case the attempt acquired the lock
	if a.TryLock() {
		a.MustUnlock()
	}
	time.Sleep(TTL + Tick)
	w.Expect(b.TryLock(), "the lock stays")
}

func forgotten(w *World) {
	a, b := w.Holder("a"), w.Holder("b")
	ctx, cancel := context.WithCancel(a.Ctx)
	if ok, err := a.Mutex.TryLock(ctx); !ok {
		panic(failure{fmt.Errorf("TryLock = %v, %w", ok, err)})
	}
	cancel() // the holder's work ends without Unlock
	time.Sleep(100 * TTL)
	w.Expect(b.TryLock(), "the lock stays")
}

// An Unlock is late if the lock has expired, or if it repeats a release whose reply was lost.
func foreign(w *World) {
	a, b, c := w.Holder("a"), w.Holder("b"), w.Holder("c")
	a.MustLock()
	a.Stop()
	w.Outlast()
	late := b.TryLock()
	a.GoOn()
	a.Unlock()
	w.Expect(!late || !c.TryLock(), "it removed the next one's lock")
	for range 2 {
		w.Expect(!late || !a.TryLock(), "it is counted in the next one's lock")
	}
	b.Unlock()

	a.MustLock()
	a.unlockUntold()
	time.Sleep(TTL / 10) // the lock may repeat a failed Unlock in the background
	b.MustLock()
	a.Unlock()
	w.Expect(!c.TryLock(), "unlocking again, it removed the next one's lock")
}

func atomic(w *World) {
	a, b, c := w.Holder("a"), w.Holder("b"), w.Holder("c")
	for _, where := range []parking{beforeIt, afterIt} {
		a.MustLock()
		goOn := a.unlockParked(where)
		w.Outlast()
		late := b.TryLock()
		goOn()
		w.Expect(!late || !c.TryLock(), "it removed the next one's lock")
		b.Unlock()
	}

	a.MustLock()
	a.unlockUntold()
	goOn := a.unlockParked(beforeIt)
	time.Sleep(TTL / 10)
	b.MustLock()
	goOn()
	w.Expect(!c.TryLock(), "unlocking again, it removed the next one's lock")
}

func reentrant(w *World) {
	a, b := w.Holder("a"), w.Holder("b")
	a.MustLock()
	for range 2 {
		w.Expect(a.TryLock(), "the holder waits for itself")
	}
	for range 2 {
		w.Expect(a.Unlock() && !b.TryLock(), "the inner Unlock frees the lock")
	}
	w.Expect(a.Unlock() && b.TryLock(), "the outer Unlock does not")
}

func slow(w *World) {
	a, b := w.Holder("a"), w.Holder("b")
	a.MustLock()
	ctx := a.Context()
	for range 30 {
		time.Sleep(TTL/3 + Tick)
		w.Expect(!b.TryLock(), "a second holder came in")
	}
	w.Expect(ctx.Err() == nil, "the context of its work has ended: %v", context.Cause(ctx))
}

func pause(w *World) {
	a, b := w.Holder("a"), w.Holder("b")
	a.MustLock()
	a.Stop()
	w.Outlast()
	w.Expect(!b.TryLock(), "a second holder came in, and the first is about to go on")
}

func lostReply(w *World) {
	a, b := w.Holder("a"), w.Holder("b")
	a.LoseReply()
	time.Sleep(TTL / 10) // lets a background release end, in case the attempt acquired the lock
	w.Expect(a.TryLock(), "it waits for the lock that it has")
	w.Expect(a.Unlock() && b.TryLock(), "it has the lock twice, and releases it once")
}
