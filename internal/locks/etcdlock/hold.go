package etcdlock

import (
	"context"
	"fmt"
)

// A hold is a lock that is had.
type hold struct {
	place *place
	ctx   context.Context // ends with the hold
	end   context.CancelCauseFunc
}

func newHold(p *place) *hold {
	h := &hold{place: p}
	h.ctx, h.end = context.WithCancelCause(p.session.ctx)
	return h
}

// giveBack ends the hold in etcd and then in this process.
func (h *hold) giveBack(ctx context.Context) error {
	h.end(context.Canceled)
	if h.place.session.over() {
		h.place.leave()
		return ErrNotHeld // its key goes with the lease
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerTimeout)
	defer cancel()
	removed := make(chan error, 1)
	if !h.place.session.source.start(func() {
		err := h.place.remove()
		h.place.leave()
		removed <- err
	}) {
		h.place.leave()
		return ErrNotHeld // the source was closed just now
	}
	select {
	case err := <-removed:
		return err
	case <-ctx.Done():
		return fmt.Errorf("etcdlock: unlock: %w", ctx.Err())
	}
}
