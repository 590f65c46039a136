package payfault

import (
	"context"
	"sync"
	"time"

	"oversell/internal/holds"
)

// Wrap returns the stages, with claims that stop if the hold's fault says so.
func (f *Faults) Wrap(stages map[string]holds.Stage) map[string]holds.Stage {
	all := make(map[string]holds.Stage, len(stages))
	for name, s := range stages {
		all[name] = stage{s, name, f}
	}
	return all
}

// stage is a holds.Stage whose claims may stop.
type stage struct {
	holds.Stage
	name   string
	faults *Faults
}

// Claim implements holds.Stage. To stop a claim, it stops the clock's first reply: each stage reads
// its clock after it has read the hold and before its first write. When the claim continues, what it
// has read may be out of date.
func (s stage) Claim(ctx context.Context, id string, token int64, paymentID string) (holds.Order, error) {
	pause := s.faults.takePause(id)
	if pause == 0 {
		return s.Stage.Claim(ctx, id, token, paymentID)
	}
	stop := sync.OnceFunc(func() { s.faults.sleep(ctx, pause) })
	b := s.faults.cfg.Backends
	clock := b.Clock()
	b.Now = func() time.Time {
		now := clock()
		stop()
		return now
	}
	return s.faults.cfg.New(b)[s.name].Claim(ctx, id, token, paymentID)
}
