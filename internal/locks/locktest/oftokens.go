package locktest

import "time"

// ofTokens returns the promises of a lock with fencing tokens.
func ofTokens() []promise {
	return applying(func(l Lock) bool { _, ok := l.handle().(fenced); return ok }, []promise{
		{name: "the late writes of a stopped process are refused", scenario: lateWrite},
		{name: "a re-entry keeps the token", scenario: reentryKeepsToken},
		{name: "tokens grow while the clock stands still", scenario: stillClock},
		{name: "tokens grow after an idle time", scenario: idleTime},
		{name: "tokens grow after Redis has lost its keys", scenario: lostKeys},
		{name: "tokens grow while the lock is held, even if the clock goes back", scenario: clockBack},
		{name: "tokens grow if the clock goes back and Redis has lost its keys", scenario: clockBackAndLostKeys},
	})
}

// The resource remembers the largest token it has seen, and refuses requests with a smaller one.
func lateWrite(w *World) {
	a, b := w.Holder("a"), w.Holder("b")
	a.MustLock()
	a.Stop()
	w.Outlast()
	late := b.TryLock()
	a.GoOn()
	w.Expect(!late || a.Token() < b.Token(), "it writes over what the second holder wrote")
}

func reentryKeepsToken(w *World) {
	if w.lock.WithOwner == nil {
		return
	}
	outer := w.Holder("a")
	inner := outer.Sibling("a")
	w.Expect(outer.Token() == 0, "token %d before the first hold", outer.Token())
	outer.MustLock()
	first := outer.Token()
	outer.MustLock()
	inner.MustLock()
	w.Expect(first != 0 && outer.Token() == first && inner.Token() == first,
		"tokens %d, %d and %d of one hold", first, outer.Token(), inner.Token())
}

// takes acquires and releases the lock, and returns the token of that hold.
func (h *Holder) takes() int64 {
	h.MustLock()
	defer h.MustUnlock()
	return h.Token()
}

// growing returns a function that expects each token to be larger than the previous one.
func (w *World) growing() func(token int64) {
	var last int64
	return func(token int64) {
		w.Expect(token > last, "token %d after %d", token, last)
		last = token
	}
}

// Holders in two processes take turns with the lock, and one of them hands it on within its process.
func stillClock(w *World) {
	w.SetTime(time.Now())
	a, b, grows := w.Holder("a"), w.Holder("b"), w.growing()
	for range 3 {
		c := a.Sibling("c")
		a.MustLock()
		grows(a.Token())
		served, _ := c.Wait()
		a.MustUnlock()
		w.Expect(served.Within(TTL) == nil, "a waiter is not served")
		grows(c.Token())
		c.MustUnlock()
		grows(b.takes())
	}
	w.SetTime(time.Time{})
	w.FlushAll()
}

func idleTime(w *World) {
	a, grows := w.Holder("a"), w.growing()
	grows(a.takes())
	time.Sleep(3 * TTL)
	w.Expect(len(w.Keys()) == 0, "an idle lock leaves %v in Redis", w.Keys())
	grows(a.takes())
}

// A replica that becomes the primary may not have received the lock.
func lostKeys(w *World) {
	a, b, grows := w.Holder("a"), w.Holder("b"), w.growing()
	a.MustLock()
	grows(a.Token())
	time.Sleep(Tick)
	w.FlushAll()
	grows(b.takes())
	a.MustNotHold()
}

// Redis remembers the last token for longer than the lock is held.
func clockBack(w *World) {
	a, b, grows := w.Holder("a"), w.Holder("b"), w.growing()
	a.MustLock()
	grows(a.Token())
	time.Sleep(10 * TTL)
	a.MustUnlock()
	w.SetTime(time.Now().Add(-time.Minute))
	grows(b.takes())
	w.SetTime(time.Time{})
}

func clockBackAndLostKeys(w *World) {
	a, b, grows := w.Holder("a"), w.Holder("b"), w.growing()
	grows(a.takes())
	w.FlushAll()
	w.SetTime(time.Now().Add(-time.Minute))
	grows(b.takes())
	w.SetTime(time.Time{})
	w.FlushAll()
}
