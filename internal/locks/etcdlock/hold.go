package etcdlock

import (
	"context"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// A hold is a lock that is held.
type hold struct {
	place *place
	ctx   context.Context // ends with the hold
	end   context.CancelCauseFunc
}

func newHold(p *place) *hold {
	h := &hold{place: p}
	h.ctx, h.end = context.WithCancelCause(p.session.Ctx)
	_ = p.session.source.group.Go(h.attend) // if the source is closed, the hold is over
	return h
}

// errDeleted is the cause when somebody has deleted the holder's key.
var errDeleted = fmt.Errorf("%w: the key was deleted", ErrLost)

// attend checks, as often as the lease is renewed, that the key still exists: if it
// is deleted, etcd lets the next holder in although the lease goes on.
func (h *hold) attend() {
	n := h.place.session
	tick := time.NewTicker(n.TTL / 3)
	defer tick.Stop()
	for {
		select {
		case <-h.ctx.Done():
			return
		case <-tick.C:
		}
		ctx, cancel := context.WithTimeout(h.ctx, n.TTL/3)
		r, err := n.source.client.Get(ctx, h.place.key, clientv3.WithCountOnly())
		cancel()
		if err == nil && r.Count == 0 { // errors are left to the lease
			h.end(errDeleted)
			return
		}
	}
}

// giveBack ends the hold, first in etcd and then in this process.
func (h *hold) giveBack(ctx context.Context) error {
	h.end(context.Canceled)
	if h.place.session.Over() {
		h.place.leave()
		return ErrNotHeld // its key goes with the lease
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerTimeout)
	defer cancel()
	removed := make(chan error, 1)
	if !h.place.session.source.group.Go(func() {
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
