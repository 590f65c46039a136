package bench

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"oversell/internal/fault"
	"oversell/internal/fleet"
	"oversell/internal/holds"
	"oversell/internal/payment"
	"oversell/internal/shop"
)

// The seams of a sale by holds, in the order of a hold's life.
const (
	AfterTake    fleet.Seam = "take"    // the units are taken from the stock, but the hold is not written yet
	AfterCapture fleet.Seam = "capture" // the buyer is charged, but the stage does not know it yet
	BeforeClaim  fleet.Seam = "claim"   // the payment has found the hold, but written nothing yet
	// AfterOrder: the order is written, but the hold has not ended yet, or the transaction is not
	// committed yet.
	AfterOrder    fleet.Seam = "order"
	BeforeRefund  fleet.Seam = "refund" // the payment was refused, but the refund is not requested yet
	BeforeRestock fleet.Seam = "sweep"  // the sweep has ended a hold, but not returned its units yet
)

// beforeCapture is the seam at which a shop is cut off from the payment provider: the payment is
// authorised, and the request to capture it is about to be sent. No shop is killed at this seam,
// because it would not have charged the buyer.
const beforeCapture fleet.Seam = "authorised"

// HoldSeams lists the seams of a sale by holds at which a shop may be killed.
func HoldSeams() []fleet.Seam {
	return []fleet.Seam{AfterTake, AfterCapture, BeforeClaim, AfterOrder, BeforeRefund, BeforeRestock}
}

// What must not happen in the process while a call waits at a seam; see fleet.Arm.
const (
	// quiet keeps the process from having an open transaction, so that it holds no lock in the
	// database while it is stopped.
	quiet = "quiet"
	// alone keeps other calls of the process from moving units, so that a kill does not interrupt
	// them halfway.
	alone = "alone"
)

// holdSeams holds the seams of one process.
type holdSeams struct {
	*fleet.Seams
	writing sync.RWMutex // held for reading by every write to the database
	hands   sync.RWMutex // held for reading by every call that moves units
	refused sync.Map     // the ids of payments whose claim failed
}

func newHoldSeams(of *fleet.Seams) *holdSeams {
	s := &holdSeams{Seams: of}
	of.Around = func(ctx context.Context, what string) (end func()) {
		if what == alone {
			return s.alone(callOf(ctx))
		}
		s.writing.Lock()
		return s.writing.Unlock
	}
	return s
}

// alone waits until no other call is moving units, and blocks such calls until end is called.
func (s *holdSeams) alone(c *call) (end func()) {
	if !c.moves {
		s.hands.Lock()
		return s.hands.Unlock
	}
	s.hands.RUnlock()
	s.hands.Lock()
	return func() {
		s.hands.Unlock()
		s.hands.RLock()
	}
}

// moving marks a call as one that moves units. It waits while another call is alone. Call end when
// c has returned.
func (s *holdSeams) moving(ctx context.Context, c *call) (_ context.Context, end func()) {
	c.moves = true
	s.hands.RLock()
	return marked(ctx, c), s.hands.RUnlock
}

// The stages do not know about seams. Their calls are marked in the context, and the hooks of their
// connections find the seam from the mark and the command.

// call is a call to a stage.
type call struct {
	sweep bool
	claim bool
	moves bool        // it takes units from the stock or returns them
	wrote atomic.Bool // the claim has begun to write
}

type callKey struct{}

func marked(ctx context.Context, c *call) context.Context {
	return context.WithValue(ctx, callKey{}, c)
}

// callOf returns the call that a context belongs to, or an empty one.
func callOf(ctx context.Context) *call {
	if c, ok := ctx.Value(callKey{}).(*call); ok {
		return c
	}
	return new(call)
}

// markedStage is a stage whose calls are marked.
type markedStage struct {
	holds.Stage
	seams *holdSeams
}

func (s markedStage) Take(ctx context.Context, r holds.Request) (holds.Hold, error) {
	ctx, end := s.seams.moving(ctx, &call{})
	defer end()
	return s.Stage.Take(ctx, r)
}

func (s markedStage) Release(ctx context.Context, id string, token int64) error {
	ctx, end := s.seams.moving(ctx, &call{})
	defer end()
	return s.Stage.Release(ctx, id, token)
}

func (s markedStage) Cancel(ctx context.Context, id string, token int64) error {
	ctx, end := s.seams.moving(ctx, &call{})
	defer end()
	return s.Stage.Cancel(ctx, id, token)
}

func (s markedStage) Claim(ctx context.Context, id string, token int64, paymentID string) (holds.Order, error) {
	order, err := s.Stage.Claim(marked(ctx, &call{claim: true}), id, token, paymentID)
	if err != nil {
		s.seams.refused.Store(paymentID, true)
	}
	return order, err
}

func (s markedStage) Sweep(ctx context.Context, sku string, limit int) (int, error) {
	ctx, end := s.seams.moving(ctx, &call{sweep: true})
	defer end()
	return s.Stage.Sweep(ctx, sku, limit)
}

// seamPayments adds seams before and after calls to the payments.
type seamPayments struct {
	payment.Provider
	seams *holdSeams
}

func (p seamPayments) Capture(ctx context.Context, paymentID, key string) (payment.Payment, error) {
	p.seams.Reach(ctx, beforeCapture)
	done, err := p.Provider.Capture(ctx, paymentID, key)
	if err == nil {
		p.seams.Reach(ctx, AfterCapture)
	}
	return done, err
}

func (p seamPayments) Refund(ctx context.Context, paymentID, key string) (payment.Payment, error) {
	if _, refused := p.seams.refused.Load(paymentID); refused { // a cancelled order is refunded, too
		p.seams.Reach(ctx, BeforeRefund)
	}
	return p.Provider.Refund(ctx, paymentID, key)
}

// pass is the fault.Hook of the shop. It ensures that a process that is stopped at a quiet seam
// holds no lock in the database, neither for its stages nor for the service around them.
func (s *holdSeams) pass(ctx context.Context, st fault.Statement, send func() (fault.Reply, error)) error {
	switch {
	case st.Reads():
		_, err := send()
		return err
	case st.Text == fault.Begin:
		s.begins(ctx, st.Text)
		s.writing.RLock() // until the transaction ends
		_, err := send()
		if err != nil {
			s.writing.RUnlock()
		}
		return err
	case st.Text == fault.Commit, st.Text == fault.Rollback:
		defer s.writing.RUnlock()
		_, err := send()
		return err
	}
	s.begins(ctx, st.Text)
	if !st.InTx { // in a transaction, writing is locked already
		s.writing.RLock()
	}
	reply, err := send()
	if !st.InTx {
		s.writing.RUnlock()
	}
	if err == nil && reply.Changed > 0 {
		s.done(ctx, st.Text)
	}
	return err
}

// begins is called before a write to the database, or before BEGIN.
func (s *holdSeams) begins(ctx context.Context, statement string) {
	c := callOf(ctx)
	if c.claim && !c.wrote.Swap(true) {
		s.Reach(ctx, BeforeClaim)
	}
	if c.sweep && strings.Contains(statement, "remaining = remaining + ") {
		s.Reach(ctx, BeforeRestock)
	}
}

// done is called after a successful write to the database.
func (s *holdSeams) done(ctx context.Context, statement string) {
	switch {
	case strings.Contains(statement, "remaining = remaining - "):
		s.Reach(ctx, AfterTake)
	case callOf(ctx).claim && strings.HasPrefix(statement, "INSERT INTO oversell_orders"):
		s.Reach(ctx, AfterOrder)
	}
}

// redisHook returns a hook with the seams of the stage whose units are in Redis: after the command
// that takes units, and before the command with which a sweep returns them.
func (s *holdSeams) redisHook() redis.Hook {
	return fault.Redis{
		Before: func(ctx context.Context, commands []redis.Cmder) {
			if callOf(ctx).sweep && commands[0].Name() == "incrby" {
				s.Reach(ctx, BeforeRestock)
			}
		},
		After: func(ctx context.Context, commands []redis.Cmder) {
			if commands[0].Name() == "decrby" && commands[0].Err() == nil {
				s.Reach(ctx, AfterTake)
			}
		},
	}
}

// sell configures a shop to sell by holds, with the seams.
func (s *holdSeams) sell(cfg *shop.Config, with setup) {
	cfg.Provider, cfg.Web.WebhookSecret = with.Provider, with.Secret
	cfg.Holds = holds.Config{Ledger: with.Ledger, TTL: with.TTL, Sweep: sweep(with.TTL), Settle: settlesAfter(with.TTL)}
	cfg.Hook, cfg.Through, cfg.AdjustHolds = s.redisHook(), fault.Injector{Hook: s.pass}.Through, s.adjust
}

// adjust marks the calls to the stages, and puts seams around the payments.
func (s *holdSeams) adjust(cfg *holds.Config) {
	for name, stage := range cfg.Stages {
		cfg.Stages[name] = markedStage{stage, s}
	}
	if cfg.Payments != nil {
		cfg.Payments = seamPayments{cfg.Payments, s}
	}
}
