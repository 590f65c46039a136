package anomalies

import (
	"context"
	"errors"

	"oversell/internal/guard"
	"oversell/internal/lab"
	"oversell/internal/stock"
)

var tokenOnReentry = lab.Scenario{
	Anomaly:       lab.AnomalyNamed("token-grows-on-re-entry"),
	Requires:      []lab.Claim{had("A"), lab.IsLock},
	NotApplicable: needsToken,
	Run: func(w *lab.World) lab.Verdict {
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
	},
}

var successorsToken = lab.Scenario{
	Anomaly:       lab.AnomalyNamed("successors-token"),
	Requires:      []lab.Claim{had("A", "B"), faulted("A")},
	NotApplicable: needsToken,
	Run: func(w *lab.World) lab.Verdict {
		w.OpenShop(10)
		a, b := w.Start("A"), w.Start("B")
		late, next := a.Holder(), b.Holder()
		late.MustLock()
		w.Sleep(w.TTL / 10)
		a.Freeze()
		w.Sleep(w.TTL + w.TTL/3)
		lab.Need(next.Obtain(w.TTL), "B did not get the lock")
		theirs := next.Token()
		err := withToken(w, b, theirs, func(ctx context.Context, c stock.Counter) error {
			_, err := c.Get(ctx)
			return err
		})
		lab.Need(err == nil, "B could not read the stock: %v", err)
		a.Thaw()
		mine := late.Token()
		write := func(left int64) stock.Section {
			return func(ctx context.Context, c stock.Counter) error { return c.Set(ctx, left) }
		}
		err = withToken(w, a, mine, write(3))
		switch {
		case err == nil && mine == theirs:
			return w.Broke("A", "A, which has lost the lock, is told B's token, and its write goes through")
		case err == nil:
			return w.Broke("A", "A, which has lost the lock, writes with its token, and is not refused")
		}
		lab.Need(errors.Is(err, stock.ErrFenced), "A's write failed otherwise: %v", err)
		w.Note("A", "is refused: its token is older than B's")
		if err := withToken(w, b, theirs, write(9)); err != nil {
			return w.Broke("B", "B, which has the lock, is refused: %s", lab.Brief(err))
		}
		return lab.Holds.Because("A is told its own token, and its write is refused; B's is not")
	},
}

// withToken runs a section on the stock with a token, regardless of the lock.
func withToken(w *lab.World, p *lab.Process, token int64, section stock.Section) error {
	guard := &guard.Distributed{
		New:    func(string) guard.Lock { return presented(token) },
		Policy: guard.Fixed{Delay: w.Delay},
	}
	_, err := stock.ExclusiveInRedis(stock.Backends{Redis: p.Redis()}, guard).Do(w.Context(),
		stock.Location{Key: w.StockKey()}, w.Entry(p.Name+"/1"), section)
	return err
}

// presented is a token without a lock.
type presented int64

func (presented) TryLock(context.Context) (bool, error) { return true, nil }
func (presented) Unlock(context.Context) error          { return nil }

func (t presented) Token() int64 { return int64(t) }
