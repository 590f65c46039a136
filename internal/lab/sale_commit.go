package lab

import (
	"context"
	"sync"
	"sync/atomic"

	"oversell/internal/stock"
)

// ledger stands for a database: what is written is seen once it is committed.
type ledger struct {
	mu        sync.Mutex
	committed int
}

func (l *ledger) read() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.committed
}

func (l *ledger) commit() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.committed++
}

func earlyRelease() Scenario {
	return Scenario{
		Anomaly: Anomaly{
			Name:     "released-before-commit",
			Sentence: "The lock is given back inside a transaction that commits a moment later: the next holder does not yet see what was written. That is a flaw in the use: no lock helps.",
			Sequence: "One unit is left. A begins a transaction, takes the lock, finds no order, writes one, gives the lock back, and only then commits. B does the same, and has the lock before A commits.",
			Source:   "redisson/redisson#2183; hyperledger-labs/fabric-smart-client PR #670, of an advisory lock",
		},
		record:    "--- BBBBBBBBB BBB BBB",
		requires:  []claim{had("A", "B")},
		senseless: needsSharedLock,
		run:       func(w *World) verdict { return w.lastUnit(false) },
	}
}

func lateRelease() Scenario {
	return Scenario{
		Anomaly: Anomaly{
			Name:     "committed-before-release",
			Sentence: "What was written is committed before the lock is given back, and the next holder sees it: the remedy for released-before-commit.",
			Sequence: "One unit is left. A takes the lock, begins a transaction, finds no order, writes one, commits, and only then gives the lock back. B does the same.",
			Source:   "the answer in redisson/redisson#2183",
		},
		record:    "--- HHHHHHHHH HHH HHH",
		requires:  []claim{had("A", "B")},
		senseless: needsSharedLock,
		run:       func(w *World) verdict { return w.lastUnit(true) },
	}
}

// lastUnit has two buy the last unit, whose orders are committed a while after
// they are written: within the lock, or after it was given back.
func (w *World) lastUnit(within bool) verdict {
	var db ledger
	var commits, late atomic.Int64 // late: entries after a commit
	sell := func(p *Process) func() {
		guard := w.column.stockGuard(p, nil)
		return func() {
			var wrote bool
			commit := func() {
				w.Sleep(w.TTL / 10)
				commits.Add(1)
				if wrote {
					db.commit()
					w.Note(p.name, "commits its order")
				}
			}
			called := w.history.call()
			_, _ = guard.Do(w.ctx, w.stock(), w.entry(p), func(context.Context, stock.Counter) error {
				w.history.acquired(p.name, called)
				defer w.history.released(p.name)
				late.Add(min(commits.Load(), 1))
				wrote = db.read() == 0
				if within {
					commit()
				}
				return nil
			})
			if !within {
				commit()
			}
		}
	}
	first := w.Go(sell(w.Start("A")))
	w.Sleep(w.TTL / 20)
	second := w.Go(sell(w.Start("B")))
	w.together(first, second)
	need(db.read() > 0, "nobody bought")
	need(within || late.Load() == 0, "B had the lock only after A had committed")
	return w.verdict(db.read() == 1, "B", "one order was written", "one unit was left, and two orders are committed")
}

// needsSharedLock is for questions about a lock that two instances share.
func needsSharedLock(c Column) string {
	if c.InProcess {
		return "two instances share no lock, whenever it is given back: see local-mutex-across-instances"
	}
	return needsLock(c)
}
