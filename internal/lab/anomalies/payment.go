//go:build !js

package anomalies

import (
	"strings"

	"oversell/internal/fault"
	h1 "oversell/internal/holds/h1_counter"
	"oversell/internal/lab"
	"oversell/internal/payment"
)

var latePayment = try("late-payment", 1, func(s *sale) {
	a, b := s.shop("A"), s.shop("B")
	h := a.take("A")
	a.midway(func() error { return a.pay(h) }, func() { b.resell(h) })
}, did(hasHold, "A", "B"), did(hasOrder, "B"), did(wasTold, "A"))

var extendedAfterSold = try("extended-after-sold", 1, func(s *sale) {
	a, b := s.shop("A"), s.shop("B")
	h := a.take("A")
	a.midway(func() error { return a.extend(h) }, func() { b.resell(h) })
	_ = a.pay(h)
}, did(hasHold, "A", "B"), did(hasOrder, "B"), did(wasTold, "A"))

var sweepAgainstPayment = try("sweep-against-payment", 1, func(s *sale) {
	a, c := s.shop("A"), s.shop("C")
	h := a.take("A")
	parked := a.Park(changes)
	paying := a.begin(func() error { return a.pay(h) })
	a.mustPark(parked, paying)
	s.expire(h)
	c.midway(c.sweep, func() {
		parked.Release()
		s.w.Must(paying, "the end of A")
	})
}, did(hasHold, "A"), did(wasTold, "A", "C"))

var releasedStillPayable = try("released-still-payable", 1, func(s *sale) {
	a, b, d := s.shop("A"), s.shop("B"), s.shop("D")
	h := a.take("A")
	a.midway(func() error { return a.pay(h) }, func() {
		err := d.release(h)
		lab.Need(err == nil, "the hold could not be released: %v", err)
		_ = b.pay(b.take("B"))
	})
}, did(hasHold, "A", "B"), did(hasOrder, "B"), did(wasTold, "A", "D"))

var capturedTwice = try("captured-twice", 1, func(s *sale) {
	a, d := s.shop("A"), s.shop("D")
	h := a.take("A")
	a.midway(func() error { return a.pay(h) }, func() { _ = d.pay(h) })
}, did(hasHold, "A"), did(hasOrder, "D"), did(hasRefund, "A"))

var replyLostAfterCapture = try("reply-lost-after-capture", 1, func(s *sale) {
	a, b, d := s.shop("A"), s.shop("B"), s.shop("D")
	h := a.take("A")
	s.faults(payment.Faults{LoseReplyTo: []string{payment.OpCapture}})
	s.w.Note("", "the provider loses its replies to captures")
	_ = a.pay(h)
	s.faults(payment.Faults{})
	lost := s.lastPayment()
	b.resell(h)
	_ = d.webhook(lost)
}, did(hasHold, "A", "B"), did(hasOrder, "B"), did(wasTold, "A", "D"), did(hasRefund, "D"))

func (s *sale) faults(f payment.Faults) {
	err := s.client.SetFaults(s.w.Context(), f)
	lab.Need(err == nil, "the provider could not be told its faults: %v", err)
}

var orderWithoutStatus = try("killed-between-order-and-hold", 1, func(s *sale) {
	a, c, d := s.shop("A"), s.shop("C"), s.shop("D")
	h := a.take("A")
	a.killedAt(func() error { return a.pay(h) }, secondWrite(s.w.Subject))
	s.expire(h)
	_ = c.sweep()
	_ = d.webhook(s.lastPayment())
}, did(hasHold, "A"), did(wasTold, "C", "D"))

// secondWrite returns a Match for the second of the two writes after a payment: the order and the
// change of the hold, in either order.
func secondWrite(c lab.Subject) lab.Match {
	if c.Name == h1.Name {
		return func(cmd fault.Command) bool { return cmd.Is("DEL") }
	}
	return second(func(cmd fault.Command) bool {
		text := lab.SQL(cmd)
		return strings.HasPrefix(text, "INSERT INTO oversell_orders") ||
			strings.HasPrefix(text, "UPDATE oversell_holds SET status")
	})
}

// second returns a Match for the second command of a process that matches.
func second(match lab.Match) lab.Match {
	met := 0 // one process sends its statements one at a time
	return func(cmd fault.Command) bool {
		if match(cmd) {
			met++
			return met == 2
		}
		return false
	}
}
