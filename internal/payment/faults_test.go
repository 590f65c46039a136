package payment

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// setFaults switches faults on over HTTP, as a user does.
func setFaults(t *testing.T, c *Client, f Faults) {
	t.Helper()
	must(t, c.SetFaults(t.Context(), f))
}

// A capture whose reply is lost has charged the buyer. If it is repeated with its key, it returns the
// captured payment and does not charge again.
func TestLostReplyAfterTheWork(t *testing.T) {
	eachWay(t, func(t *testing.T, c *Client) {
		p := authorised(t, c, "a")
		setFaults(t, c, Faults{LoseReplyTo: []string{OpCapture}})
		expect(t, c, capture(p.ID, "c"), "", ErrUnavailable)
		wantLedger(t, c, Authorised, Captured)
		setFaults(t, c, Faults{})
		expect(t, c, capture(p.ID, "c"), Captured, nil)
		wantLedger(t, c, Authorised, Captured)
	})
}

// Every nth reply to one of the named operations is lost, but no other reply. A reply with an error is
// never lost, because no work was done.
func TestEveryNthReplyIsLost(t *testing.T) {
	c := clientOf(t, newServer(Config{}))
	setFaults(t, c, Faults{LoseReplyTo: []string{OpCapture, OpRefund}, LoseEvery: 2})
	p, q := authorised(t, c, "a"), authorised(t, c, "b")
	expect(t, c, capture("pay_0", "x"), "", ErrUnknownPayment)
	expect(t, c, capture(p.ID, "c"), Captured, nil)
	expect(t, c, capture(q.ID, "d"), "", ErrUnavailable)
	expect(t, c, refund(p.ID, "e"), Refunded, nil)
	expect(t, c, refund(q.ID, "f"), "", ErrUnavailable)
	wantLedger(t, c, Authorised, Authorised, Captured, Captured, Refunded, Refunded)
}

// An operation that fails because of a fault has done nothing, and its key can be used again.
func TestEveryNthOperationFails(t *testing.T) {
	c := clientOf(t, newServer(Config{}))
	setFaults(t, c, Faults{FailEvery: 2})
	p := authorised(t, c, "a")
	expect(t, c, capture(p.ID, "c"), "", ErrUnavailable)
	wantLedger(t, c, Authorised)
	expect(t, c, capture(p.ID, "c"), Captured, nil)
}

// Only replies to the named operations are delayed. The work is done before the delay, so a caller that
// gives up during the delay has been charged all the same.
func TestDelayIsAfterTheWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(Config{})
		c := clientOf(t, s)
		setFaults(t, c, Faults{ReplyDelay: Duration(3 * time.Second), DelayReplyTo: []string{OpCapture}})
		begin := time.Now()
		p := authorised(t, c, "a")
		time.AfterFunc(time.Second, func() {
			if now, err := s.book.payment(p.ID); err != nil || now.Status != Captured {
				t.Errorf("after a second the payment is %+v, %v", now, err)
			}
		})
		expect(t, c, capture(p.ID, "c"), Captured, nil)
		if d := time.Since(begin); d != 3*time.Second {
			t.Errorf("the reply came after %v", d)
		}
	})
}

// Faults can be set for the payments with one reference. These replace the common faults, and other
// payments are not affected.
func TestFaultsOfOneReference(t *testing.T) {
	s := newServer(Config{})
	c := clientOf(t, s)
	setFaults(t, c, Faults{LoseReplyTo: []string{OpRefund}})
	must(t, s.SetFaultsOf("hold-a", &Faults{LoseReplyTo: []string{OpCapture}}))
	p, q := authorised(t, c, "a"), authorised(t, c, "b")
	expect(t, c, capture(p.ID, "c"), "", ErrUnavailable)
	expect(t, c, capture(q.ID, "d"), Captured, nil)
	expect(t, c, refund(p.ID, "e"), Refunded, nil)
	expect(t, c, refund(q.ID, "f"), "", ErrUnavailable)
	must(t, s.SetFaultsOf("hold-g", &Faults{DeclineEvery: 1}))
	expect(t, c, authorise(request("g")), Declined, ErrDeclined)
	must(t, s.SetFaultsOf("hold-g", nil))
	again := request("h")
	again.Reference = "hold-g"
	expect(t, c, authorise(again), Authorised, nil)
	if err := s.SetFaultsOf("hold-a", &Faults{ReplyDelay: -1}); !errors.Is(err, ErrInvalid) {
		t.Errorf("a delay below zero: %v", err)
	}
}

// When a refund is accepted and fails later, its payment is captured again, and can be refunded with
// another key. A refund that is repeated with its key while the fault is on is the same refund, and
// does not fail a second time.
func TestRefundThatFailsLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clientOf(t, newServer(Config{}))
		p := authorised(t, c, "a")
		expect(t, c, capture(p.ID, "c"), Captured, nil)
		setFaults(t, c, Faults{RefundFails: Duration(time.Second)})
		for _, now := range []Status{Refunding, Captured, Captured} {
			expect(t, c, refund(p.ID, "r"), Refunding, nil) // the same key gets the first answer
			if got, err := c.Payment(t.Context(), p.ID); err != nil || got.Status != now {
				t.Errorf("the payment is %s, %v; want %s", got.Status, err, now)
			}
			time.Sleep(time.Minute)
		}
		setFaults(t, c, Faults{})
		expect(t, c, refund(p.ID, "r2"), Refunded, nil)
		time.Sleep(time.Minute)
		wantLedger(t, c, Authorised, Captured, Refunding, refundFailed, Refunded)
	})
}
