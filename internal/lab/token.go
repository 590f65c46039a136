package lab

import (
	"context"
	"errors"

	"oversell/internal/locks"
	"oversell/internal/stock"
)

func tokenScenarios() []Scenario { return []Scenario{tokenOnReentry(), successorsToken()} }

// token asks the handle for the fencing token of its hold.
func (h *Holder) token() int64 {
	l, ok := h.lock.(interface{ Token() int64 })
	need(ok, "%s has no Token method", h.p.w.column.Name)
	return l.Token()
}

func tokenOnReentry() Scenario {
	return Scenario{
		Anomaly: Anomaly{
			Name:     "token-grows-on-re-entry",
			Sentence: "The holder takes its lock once more and is given a larger token: what it still sends with the first one is refused as if another had come.",
			Sequence: "A takes the lock and asks for its token. Further down its own call it takes the lock again, with the same handle and with one of its own. All three tokens must be the same, also after the inner calls have given back what they took.",
			Source:   "Hazelcast, FencedLock: its fence grows each time that the lock goes from free to held, and so not with a re-entry",
		},
		record:    "--- -------HH --- ---",
		requires:  []claim{had("A"), isLock},
		senseless: needsToken,
		run: func(w *World) verdict {
			a := w.Start("A")
			outer, inner := a.Holder(), a.Holder()
			outer.MustLock()
			first := outer.token()
			if !outer.Try() {
				return na("it cannot be taken twice: see nested-acquire")
			}
			again := outer.token()
			if !inner.Try() {
				return na("it cannot be taken twice by two handles: see nested-acquire")
			}
			nested := inner.token()
			_ = inner.Unlock()
			_ = outer.Unlock()
			last := outer.token()
			ok := first != 0 && again == first && nested == first && last == first
			return w.verdict(ok, "A", "the token is the same for all of its holds", "the token does not stay the same for all of its holds")
		},
	}
}

func successorsToken() Scenario {
	return Scenario{
		Anomaly: Anomaly{
			Name:     "successors-token",
			Sentence: "A holder asks for its token only when it is about to write, and has lost the lock by then: it is told the token of the one who has it now, and no resource can refuse it.",
			Sequence: "A takes the lock, and its process is stopped for longer than the ttl. B takes the lock, and reads the stock with its token. A goes on, asks for its token only now, and writes with what it is told. The write must be refused, and B's, which comes after it, must not.",
			Source:   "a token that is read from a counter beside the lock, instead of coming with the grant; Martin Kleppmann, How to do distributed locking (2016): the lock service returns the token each time that a client acquires the lock",
		},
		record:    "--- -------HH --- -HH",
		requires:  []claim{had("A", "B"), struck("A")},
		senseless: needsToken,
		run: func(w *World) verdict {
			w.open(10)
			a, b := w.Start("A"), w.Start("B")
			late, next := a.Holder(), b.Holder()
			late.MustLock()
			w.Sleep(w.TTL / 10)
			a.Freeze()
			w.Sleep(w.TTL + w.TTL/3)
			need(next.Obtain(w.TTL), "B did not get the lock")
			theirs := next.token()
			err := w.withToken(b, theirs, func(ctx context.Context, c stock.Counter) error {
				_, err := c.Get(ctx)
				return err
			})
			need(err == nil, "B could not read the stock: %v", err)
			a.Thaw()
			mine := late.token()
			write := func(left int64) stock.Section {
				return func(ctx context.Context, c stock.Counter) error { return c.Set(ctx, left) }
			}
			err = w.withToken(a, mine, write(3))
			switch {
			case err == nil && mine == theirs:
				return w.broke("A", "A, which has lost the lock, is told B's token, and its write goes through")
			case err == nil:
				return w.broke("A", "A, which has lost the lock, writes with its token, and is not refused")
			}
			need(errors.Is(err, stock.ErrFenced), "A's write failed otherwise: %v", err)
			w.Note("A", "is refused: its token is older than that of B")
			if err := w.withToken(b, theirs, write(9)); err != nil {
				return w.broke("B", "B, which has the lock, is refused: %s", brief(err))
			}
			return holds("A is told its own token, and its write is refused; B's is not")
		},
	}
}

// withToken runs a section on the stock with a token, whoever has the lock.
func (w *World) withToken(p *Process, token int64, section stock.Section) error {
	guard := &locks.Distributed{
		New:    func(string) locks.Lock { return presented(token) },
		Policy: locks.Fixed{Delay: w.Delay},
	}
	_, err := stock.Exclusive(stock.Keepers{Redis: p.rdb}, guard).Do(w.ctx, w.stock(), w.entry(p), section)
	return err
}

// presented is a token that is shown, with no lock behind it.
type presented int64

func (presented) TryLock(context.Context) (bool, error) { return true, nil }
func (presented) Unlock(context.Context) error          { return nil }

// Token is the token that is shown.
func (t presented) Token() int64 { return int64(t) }
