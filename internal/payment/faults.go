package payment

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// The operations of a provider, by their names in Faults.LoseReplyTo.
const (
	OpAuthorise = "authorise"
	OpCapture   = "capture"
	OpRefund    = "refund"
)

// Faults say what a Server does wrong. The zero value means no faults. An event is subject to the
// faults that were set when it happened, and a reply to the faults that are set when it is sent.
type Faults struct {
	// LoseReplyTo names operations that the Server carries out without replying: it closes the
	// connection instead. LoseEvery limits this to every nth reply; 0 means every reply.
	LoseReplyTo []string `json:"lose_reply_to,omitempty"`
	LoseEvery   int      `json:"lose_every,omitempty"`

	DeclineEvery int `json:"decline_every,omitempty"` // every nth payment is declined
	FailEvery    int `json:"fail_every,omitempty"`    // every nth operation is not done, but answered with 503

	// ReplyDelay is the time between the work and its reply, for the operations in DelayReplyTo, or
	// for all operations if that is empty.
	ReplyDelay   Duration `json:"reply_delay,omitzero"`
	DelayReplyTo []string `json:"delay_reply_to,omitempty"`

	WebhookDelay     Duration `json:"webhook_delay,omitzero"`       // between an event and its webhook
	WebhookTwice     bool     `json:"webhook_twice,omitempty"`      // an accepted webhook is sent once more
	WebhookDropEvery int      `json:"webhook_drop_every,omitempty"` // every nth event is never sent

	// RefundFails makes refunds of captured payments fail this long after they were accepted. If
	// the process ends before that, they do not fail.
	RefundFails Duration `json:"refund_fails,omitzero"`

	// WebhookReverse holds back the events of a payment for this long after the first of them, and
	// then sends them newest first.
	WebhookReverse Duration `json:"webhook_reverse,omitzero"`
}

// Duration is a time.Duration that is written as text in JSON, such as "1.5s".
type Duration time.Duration

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	*d = Duration(v)
	return err
}

// maxFaultTime limits each time in Faults, so that a mistyped one does not last forever.
const maxFaultTime = Duration(time.Hour)

// check returns ErrInvalid if the faults are not valid.
func (f Faults) check() error {
	for _, op := range slices.Concat(f.LoseReplyTo, f.DelayReplyTo) {
		if !slices.Contains([]string{OpAuthorise, OpCapture, OpRefund}, op) {
			return fmt.Errorf("%w: %.20q is not an operation: there are %s, %s and %s",
				ErrInvalid, op, OpAuthorise, OpCapture, OpRefund)
		}
	}
	if f.LoseEvery < 0 || f.DeclineEvery < 0 || f.FailEvery < 0 || f.WebhookDropEvery < 0 {
		return fmt.Errorf("%w: a count must not be negative", ErrInvalid)
	}
	for _, d := range []Duration{f.ReplyDelay, f.WebhookDelay, f.WebhookReverse, f.RefundFails} {
		if d < 0 || d > maxFaultTime {
			return fmt.Errorf("%w: a time must be 0s to %v", ErrInvalid, time.Duration(maxFaultTime))
		}
	}
	return nil
}

// switched holds faults, and what was counted since they were set.
type switched struct {
	faults Faults
	counts struct{ lost, asked, done, events int } // since the faults were set
}

// faulty holds the common faults of all payments, and the faults of single payments.
type faulty struct {
	mu  sync.Mutex
	all switched
	of  map[string]*switched // by the reference of payments; such faults replace the common ones
}

// set replaces the faults of all payments, and resets the counts.
func (f *faulty) set(faults Faults) error {
	if err := faults.check(); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all = switched{faults: faults}
	return nil
}

// setOf sets separate faults for the payments with the given reference. If faults is nil, the
// common faults apply to these payments again.
func (f *faulty) setOf(reference string, faults *Faults) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if faults == nil {
		delete(f.of, reference)
		return nil
	}
	if err := faults.check(); err != nil {
		return err
	}
	if f.of == nil {
		f.of = make(map[string]*switched)
	}
	f.of[reference] = &switched{faults: *faults}
	return nil
}

// at returns the faults that apply to payments with a reference. The caller must hold the mutex.
func (f *faulty) at(reference string) *switched {
	if own, ok := f.of[reference]; ok {
		return own
	}
	return &f.all
}

func (f *faulty) get() Faults {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.all.faults
}

// decline reports whether the next payment is declined.
func (f *faulty) decline(reference string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.at(reference)
	return nth(&s.counts.asked, s.faults.DeclineEvery)
}

// fail reports whether the next operation fails. It counts all operations together, because the
// payment of an operation is not known yet.
func (f *faulty) fail() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return nth(&f.all.counts.done, f.all.faults.FailEvery)
}

// loseReply reports whether the reply to a completed operation is lost.
func (f *faulty) loseReply(reference, op string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.at(reference)
	return slices.Contains(s.faults.LoseReplyTo, op) && nth(&s.counts.lost, max(s.faults.LoseEvery, 1))
}

// replyDelay returns how long the reply to an operation is delayed.
func (f *faulty) replyDelay(reference, op string) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.at(reference)
	if len(s.faults.DelayReplyTo) > 0 && !slices.Contains(s.faults.DelayReplyTo, op) {
		return 0
	}
	return time.Duration(s.faults.ReplyDelay)
}

// refundFails returns how long after its acceptance a refund fails, or 0 if it does not fail.
func (f *faulty) refundFails(reference string) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return time.Duration(f.at(reference).faults.RefundFails)
}

// event returns the faults for the next event, and whether it is dropped.
func (f *faulty) event(reference string) (faults Faults, drop bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.at(reference)
	return s.faults, nth(&s.counts.events, s.faults.WebhookDropEvery)
}

// nth increments the count, and reports whether it is a multiple of n. If n is 0, nth returns
// false.
func nth(count *int, n int) bool {
	*count++
	return n > 0 && *count%n == 0
}
