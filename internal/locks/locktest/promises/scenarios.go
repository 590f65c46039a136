package promises

import (
	"context"
	"errors"
	"time"

	"oversell/internal/locks/locktest"
)

func exclusive(w *world) {
	a, b := w.start("a"), w.start("b")
	a.mustLock()
	w.expect(!b.lock(), "a second holder came in")
	w.expect(a.unlock(), "the first could not give the lock back")
	w.expect(b.lock(), "the lock given back is not free")
}

func frank(w *world) {
	a := w.start("a")
	a.hook.On(locktest.Any, 1, locktest.Fail(locktest.ErrCut))
	ok, err := a.mutex.TryLock(a.ctx)
	w.expect(!ok, "TryLock succeeded without Redis")
	w.expect(err != nil, "TryLock took silence for a lock that is held")
}

func cancelled(w *world) {
	a, b := w.start("a"), w.start("b")
	a.mustLock()
	w.expect(!b.lock(), "a second holder came in, and nothing is given back")
	ctx, cancel := context.WithCancel(a.ctx)
	cancel()
	w.expect(a.mutex.Unlock(ctx) == nil, "Unlock failed")
	w.expect(b.lock(), "the lock is not free")
}

func crash(w *world) {
	a, b := w.start("a"), w.start("b")
	a.mustLock()
	w.expect(!b.lock(), "a second holder came in before the first one died")
	a.stop()
	w.outlast()
	w.expect(b.lock(), "the lock stays")
}

// An Unlock is late if the lock has expired, or if it repeats a release whose
// reply was lost.
func foreign(w *world) {
	a, b, c := w.start("a"), w.start("b"), w.start("c")
	a.mustLock()
	a.stop()
	w.outlast()
	late := b.lock()
	a.goOn()
	a.unlock()
	w.expect(!late || !c.lock(), "it removed the next one's lock")
	b.unlock()

	a.mustLock()
	a.unlockUntold()
	b.mustLock()
	a.unlock()
	w.expect(!c.lock(), "unlocking again, it removed the next one's lock")
}

func atomic(w *world) {
	a, b, c := w.start("a"), w.start("b"), w.start("c")
	for _, where := range []parking{beforeIt, afterIt} {
		a.mustLock()
		goOn := a.unlockParked(where)
		w.outlast()
		late := b.lock()
		goOn()
		w.expect(!late || !c.lock(), "it removed the next one's lock")
		b.unlock()
	}

	a.mustLock()
	a.unlockUntold()
	goOn := a.unlockParked(beforeIt)
	b.mustLock()
	goOn()
	w.expect(!c.lock(), "unlocking again, it removed the next one's lock")
}

func reentrant(w *world) {
	a, b := w.start("a"), w.start("b")
	a.mustLock()
	w.expect(a.lock(), "the holder waits for itself")
	w.expect(a.unlock() && !b.lock(), "the inner Unlock frees the lock")
	w.expect(a.unlock() && b.lock(), "the outer Unlock does not")
}

func slow(w *world) {
	a, b := w.start("a"), w.start("b")
	a.mustLock()
	for range 3 {
		w.outlast()
		w.expect(!b.lock(), "a second holder came in")
	}
}

// The lock expires; if it does not, another process removes it, if it can.
func told(w *world) {
	a, b, c := w.start("a"), w.start("b"), w.start("c")
	c.mustLock()
	c.unlockUntold()
	a.mustLock()
	ctx := w.ctx
	if m, ok := a.mutex.(interface {
		Context(context.Context) context.Context
	}); ok {
		ctx = m.Context(ctx)
	}
	a.stop()
	w.outlast()
	lost := b.lock()
	if !lost {
		c.unlock()
		lost = b.lock()
	}
	a.goOn()
	if !lost {
		return // the lock was not lost, so there is no loss to report
	}
	select {
	case <-ctx.Done():
	case <-time.After(w.ttl):
		w.expect(false, "it works on")
	}
}

func pause(w *world) {
	a, b := w.start("a"), w.start("b")
	a.mustLock()
	a.stop()
	w.outlast()
	w.expect(!b.lock(), "a second holder came in, and the first is about to go on")
}

// The resource remembers the largest token it has seen, if it gets tokens at all,
// and rejects requests with a smaller one.
func fenced(w *world) {
	a, b := w.start("a"), w.start("b")
	a.mustLock()
	a.stop()
	w.outlast()
	late := b.lock()
	a.goOn()
	w.expect(!late || a.token() < b.token(), "it writes over what the second holder wrote")
}

func lostReply(w *world) {
	a, b := w.start("a"), w.start("b")
	a.hook.On(locktest.Any, 1, locktest.LoseReply(locktest.ErrCut))
	if _, err := a.mutex.TryLock(a.ctx); err == nil {
		panic(failure{errors.New("the reply was not lost")})
	}
	time.Sleep(w.ttl / 10) // what the attempt acquired may be released meanwhile
	w.expect(a.lock(), "it waits for the lock that it has")
	w.expect(a.unlock() && b.lock(), "it has the lock twice, and gives it back once")
}
