package anomalies

import (
	"cmp"
	"context"
	"errors"

	"oversell/internal/guard"
	"oversell/internal/lab"
	"oversell/internal/stock"
)

var tokenOnReentry = lab.Try("token-grows-on-re-entry", needsToken, func(w *lab.World) lab.Verdict {
	a := w.Start("A")
	outer, inner := a.Holder(), a.Holder()
	outer.MustLock()
	first := outer.Token()
	if !outer.Try() {
		return lab.NA.Because("it cannot be taken twice: see nested-acquire")
	}
	again := outer.Token()
	if !inner.Try() {
		return lab.NA.Because("it cannot be taken twice by two handles: see nested-acquire")
	}
	nested := inner.Token()
	_ = inner.Unlock()
	_ = outer.Unlock()
	last := outer.Token()
	ok := first != 0 && again == first && nested == first && last == first
	return w.Verdict(ok, "A", "the token is the same for all of its holds",
		"the token is not the same for all of its holds")
}, had("A"), lab.IsLock)

var successorsToken = lab.Try("successors-token", needsToken, func(w *lab.World) lab.Verdict {
	w.OpenShop(10)
	a, b := w.Start("A"), w.Start("B")
	late, next := a.Holder(), b.Holder()
	late.MustLock()
	w.Sleep(w.TTL / 10)
	a.Freeze()
	w.Sleep(w.TTL + w.TTL/3)
	lab.Need(next.Obtain(w.TTL), "B did not get the lock")
	theirs := next.Token()
	err := withToken(w, b, presented(theirs), readStock)
	lab.Need(err == nil, "B could not read the stock: %v", err)
	a.Thaw()
	mine := late.Token()
	write := func(left int64) stock.Section {
		return func(ctx context.Context, c stock.Counter) error { return c.Set(ctx, left) }
	}
	err = withToken(w, a, presented(mine), write(3))
	switch {
	case err == nil && mine == theirs:
		return w.Broke("A", "A, which has lost the lock, is told B's token, and its write goes through")
	case err == nil:
		return w.Broke("A", "A, which has lost the lock, writes with its token, and is not refused")
	}
	lab.Need(errors.Is(err, stock.ErrFenced), "A's write failed otherwise: %v", err)
	w.Note("A", "is refused: its token is older than B's")
	if err := withToken(w, b, presented(theirs), write(9)); err != nil {
		return w.Broke("B", "B, which has the lock, is refused: %s", lab.Brief(err))
	}
	return lab.Holds.Because("A is told its own token, and its write is refused; B's is not")
}, had("A", "B"), faulted("A"))

// clockBack takes the lock three times. Before the second and the third time, the server's clock is
// set back by ten times the ttl. By the second time the last token has expired, and by the third
// time all keys of the lock are lost.
var clockBack = setsClocks(lab.Try("clock-back", func(c lab.Subject) string {
	return cmp.Or(needsToken(c), needsWallClock(c))
}, func(w *lab.World) lab.Verdict {
	w.OpenShop(10)
	a, b, c := w.Start("A"), w.Start("B"), w.Start("C")
	first, second, third := a.Holder(), b.Holder(), c.Holder()
	first.MustLock()
	err := withToken(w, a, held{first}, readStock)
	lab.Need(err == nil, "A could not read the stock: %v", err)
	_ = first.Unlock()
	w.Sleep(3 * w.TTL)
	w.SetClocksBack(10 * w.TTL)
	second.MustLock()
	if err := withToken(w, b, held{second}, readStock); err != nil {
		return w.Broke("B", "B has the lock, and is refused until the clock has caught up: %s", lab.Brief(err))
	}
	w.LoseLock(w.Servers(), "the server loses all keys of the lock")
	second.Done()
	w.SetClocksBack(20 * w.TTL)
	third.MustLock()
	if err := withToken(w, c, held{third}, readStock); err != nil {
		return w.Broke("C", "C has the lock, and is refused until the clock has caught up: %s", lab.Brief(err))
	}
	return lab.Holds.Because("B and C get tokens after the largest one that the stock has seen")
}, had("A", "B", "C")))

func readStock(ctx context.Context, c stock.Counter) error {
	_, err := c.Get(ctx)
	return err
}

// withToken runs a section on the stock with the lock's token, without taking the lock.
func withToken(w *lab.World, p *lab.Process, lock guard.Lock, section stock.Section) error {
	guard := &guard.Distributed{
		New:    func(string) guard.Lock { return lock },
		Policy: guard.Fixed{Delay: w.Delay},
	}
	_, err := stock.ExclusiveInRedis(stock.Clients{Redis: p.Redis()}, guard).Do(w.Context(),
		stock.Location{Key: w.StockKey()}, w.Entry(p.Name+"/1"), section)
	return err
}

// presented is a lock that only presents a token.
type presented int64

func (presented) TryLock(context.Context) (bool, error) { return true, nil }
func (presented) Unlock(context.Context) error          { return nil }

func (t presented) Token() int64 { return int64(t) }

// held is a lock that its holder already has.
type held struct{ *lab.Holder }

func (held) TryLock(context.Context) (bool, error) { return true, nil }
func (held) Unlock(context.Context) error          { return nil }
