// Package payfault makes the payment of a single hold go wrong, so that a visitor can see how a
// stage of holds handles it. It needs a payment provider inside the shop's process, and is for
// demonstrations: a shop with a real provider cannot use it.
package payfault

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"oversell/internal/guard"
	"oversell/internal/holds"
	"oversell/internal/payment"
	"oversell/internal/stock"
)

// Kind says what goes wrong.
type Kind string

// The kinds of faults.
const (
	None Kind = "none"
	// SlowBank is a bank that answers the authorisation late.
	SlowBank Kind = "slow_bank"
	// LostReply means that the reply to the capture is lost, and that its webhook comes late.
	LostReply Kind = "lost_reply"
	// SlowShop is a shop that stops between its check of the hold and its write, like a paused
	// process. The webhook comes after that.
	SlowShop Kind = "slow_shop"
)

// Kinds lists the kinds.
func Kinds() []Kind { return []Kind{None, SlowBank, LostReply, SlowShop} }

// Most returns the maximum duration of a fault of the kind, in seconds. A slow bank must answer
// before payment.DefaultTimeout, and a slow shop must continue before its calls to the database
// time out.
func (k Kind) Most() int {
	switch k {
	case SlowBank:
		return 9
	case LostReply:
		return 60
	case SlowShop:
		return 4
	}
	return 0
}

// Fault says what goes wrong with a payment.
type Fault struct {
	Kind    Kind `json:"fault"`
	Seconds int  `json:"seconds"` // how late the answer or the webhook is, or how long the shop stops
}

// check returns stock.ErrInvalid for an unknown fault or a duration that is out of range.
func (f Fault) check() error {
	if !slices.Contains(Kinds(), f.Kind) {
		return fmt.Errorf("%w: %.20q is not a fault; allowed: %v", stock.ErrInvalid, f.Kind, Kinds())
	}
	least := min(1, f.Kind.Most())
	if f.Seconds < least || f.Seconds > f.Kind.Most() {
		return fmt.Errorf("%w: seconds is %d; it must be %d to %d for %s",
			stock.ErrInvalid, f.Seconds, least, f.Kind.Most(), f.Kind)
	}
	return nil
}

// ofProvider returns the faults to set at the provider, or nil if there are none.
func (f Fault) ofProvider() *payment.Faults {
	late := payment.Duration(time.Duration(f.Seconds) * time.Second)
	switch f.Kind {
	case SlowBank:
		return &payment.Faults{ReplyDelay: late, DelayReplyTo: []string{payment.OpAuthorise}}
	case LostReply:
		return &payment.Faults{LoseReplyTo: []string{payment.OpCapture}, WebhookDelay: late}
	case SlowShop:
		// otherwise the webhook would write the order during the pause
		return &payment.Faults{WebhookDelay: late + payment.Duration(time.Second)}
	}
	return nil
}

// MaxHolds is the maximum number of holds whose payments may have faults at the same time.
const MaxHolds = 100

// ErrTooMany means that the payments of too many holds already have faults.
var ErrTooMany = errors.New("too many holds already have payments that are made to go wrong")

// forgetAfter is how long after the expiry of a hold its fault is kept: longer than a payment
// takes.
const forgetAfter = time.Minute

// Config configures Faults.
type Config struct {
	Provider *payment.Server // in this process
	Backends holds.Backends  // of the stages

	New func(holds.Backends) map[string]holds.Stage // makes the stages, by name
}

// Faults holds the faults that were chosen for the payments of single holds. It is safe for
// concurrent use.
type Faults struct {
	cfg   Config
	sleep func(ctx context.Context, d time.Duration) // replaced by tests

	mu     sync.Mutex
	chosen map[string]*choice // by the id of a hold
}

// choice is the fault that was chosen for a hold's payment.
type choice struct {
	reference string        // the reference of the hold's payments
	pause     time.Duration // how long the next claim stops
	until     time.Time     // when the fault is forgotten
}

// New returns Faults in which no fault is set.
func New(cfg Config) *Faults {
	sleep := func(ctx context.Context, d time.Duration) { _ = guard.Sleep(ctx, d) } // a request that is over goes on
	return &Faults{cfg: cfg, sleep: sleep, chosen: make(map[string]*choice)}
}

// Set sets the fault of a hold's payment, from now until a minute after the hold has expired. For
// SlowShop the shop stops once per call. It returns stock.ErrInvalid, holds.NotHeldError or
// ErrTooMany.
func (f *Faults) Set(h holds.Hold, fault Fault) error {
	if err := fault.check(); err != nil {
		return err
	}
	if h.Status != holds.Held {
		return holds.NotHeldError{Status: h.Status}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.forget(time.Now())
	if _, known := f.chosen[h.ID]; !known && len(f.chosen) >= MaxHolds && fault.Kind != None {
		return ErrTooMany
	}
	if err := f.cfg.Provider.SetFaultsOf(h.Reference(), fault.ofProvider()); err != nil {
		return fmt.Errorf("setting the faults of the payments for hold %s: %w", h.ID, err)
	}
	if fault.Kind == None {
		delete(f.chosen, h.ID)
		return nil
	}
	c := &choice{reference: h.Reference(), until: h.ExpiresAt.Add(forgetAfter)}
	if fault.Kind == SlowShop {
		c.pause = time.Duration(fault.Seconds) * time.Second
	}
	f.chosen[h.ID] = c
	return nil
}

// forget removes the faults whose time is over. The caller must hold the mutex.
func (f *Faults) forget(now time.Time) {
	for id, c := range f.chosen {
		if now.After(c.until) {
			_ = f.cfg.Provider.SetFaultsOf(c.reference, nil) // nil is always valid
			delete(f.chosen, id)
		}
	}
}

// takePause returns how long the next claim of a hold stops. The claim after that does not stop.
func (f *Faults) takePause(id string) (pause time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if c, ok := f.chosen[id]; ok {
		pause, c.pause = c.pause, 0
	}
	return pause
}
