package guard

import (
	"context"
	"time"
)

// Recursive makes a well-known mistake on purpose: the loser sleeps and calls itself. When
// the inner call returns, having done the work, the outer call goes on after its if and
// does the work again, without the lock, and without the context by which the lock could
// stop it. A buyer that waited n times buys n+1 times, with any lock. The stack grows with
// the wait too. The mistake is in how the section is run, so it needs a Guard of its own,
// see WithPolicy. The embedded policy by itself waits correctly.
type Recursive struct{ Fixed }

func (r Recursive) String() string { return "recursive:" + r.Delay.String() }

// WithPolicy returns d, or a guard that makes the mistake of Recursive with d's lock if
// that is d's policy.
func WithPolicy(d *Distributed) Guard {
	if r, ok := d.Policy.(Recursive); ok {
		return recursive{r, d}
	}
	return d
}

type recursive struct {
	Recursive
	guard *Distributed
}

func (r recursive) Do(ctx context.Context, e Entry, section func(context.Context) error) (Stats, error) {
	ctx, h := r.guard.handle(ctx, e)
	start, entered := time.Now(), false
	err := r.do(ctx, h, func(ctx context.Context) error {
		if !entered {
			entered, h.stats.Waited = true, time.Since(start)
		}
		return section(ctx)
	})
	if !entered {
		h.stats.Waited = time.Since(start)
	}
	return h.stats, err
}

func (r recursive) do(ctx context.Context, h *handle, section func(context.Context) error) error {
	ok, err := h.try(ctx)
	if err != nil {
		return err
	}
	if !ok {
		if err := Sleep(ctx, r.Delay); err != nil {
			return err
		}
		if err := r.do(ctx, h, section); err != nil {
			return err
		}
		// The flaw: a return is missing here, or an else.
	}
	return h.run(ctx, section)
}
