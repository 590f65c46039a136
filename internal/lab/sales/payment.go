package sales

import (
	"strings"

	h1 "oversell/internal/holds/h1_counter"
	"oversell/internal/lab"
	"oversell/internal/lab/wire"
	"oversell/internal/payment"
)

func paymentScenarios() []lab.Scenario {
	return []lab.Scenario{latePayment, sweepAgainstPayment, releasedStillPayable, capturedTwice, replyLostAfterCapture, orderWithoutStatus}
}

var latePayment = lab.Scenario{
	Anomaly: lab.Anomaly{
		Name:     "late-payment",
		Loss:     lab.SellsTwice,
		Sentence: "A payment is checked in time and arrives late. The hold has expired meanwhile, and its unit is sold to somebody else.",
		Sequence: "One unit. A has a hold and pays: the hold is found to be valid, and the write of the order is delayed. The hold expires. B sweeps, gets the unit, and pays. A's write goes on.",
		Source:   "woocommerce/woocommerce#16069: a customer completes a payment that had failed, for items sold out since; the lock that expires under a paused holder is the same failure",
	},
	Requires: []lab.Claim{had(hasHold, "A", "B"), had(hasOrder, "B"), had(wasTold, "A")},
	Run: func(w *lab.World) lab.Verdict {
		s := open(w, 1)
		a, b := s.shop("A"), s.shop("B")
		h := a.take("A")
		a.midway(func() error { return a.pay(h) }, func() {
			s.expire(h)
			_, _ = b.sweep()
			_ = b.pay(b.take("B"))
		})
		return s.verdict()
	},
}

var sweepAgainstPayment = lab.Scenario{
	Anomaly: lab.Anomaly{
		Name:     "sweep-against-payment",
		Loss:     lab.SellsTwice,
		Sentence: "A sweep and a payment decide about one hold at the same time, and both win: the unit is sold and goes back on sale.",
		Sequence: "One unit. A has a hold and pays; the write is delayed until the hold has expired. C sweeps: it has read that the hold is due, and its write is delayed. A's write goes on, and then C's.",
		Source:   "openlinker-project/openlinker#2346: a naive expiry sweep is a silent oversell, with every counter consistent",
	},
	Requires: []lab.Claim{had(hasHold, "A"), had(wasTold, "A", "C")},
	Run: func(w *lab.World) lab.Verdict {
		s := open(w, 1)
		a, c := s.shop("A"), s.shop("C")
		h := a.take("A")
		parked := a.parkWrite()
		paying := a.begin(func() error { return a.pay(h) })
		a.mustPark(parked, paying)
		s.expire(h)
		c.midway(func() error { _, err := c.sweep(); return err }, func() {
			parked.Release()
			w.Must(paying, "the end of A")
		})
		return s.verdict()
	},
}

var releasedStillPayable = lab.Scenario{
	Anomaly: lab.Anomaly{
		Name:     "released-still-payable",
		Loss:     lab.SellsTwice,
		Sentence: "A hold is released, and the right to pay for it lives on: its payment sells a unit that somebody else has bought.",
		Sequence: "One unit. A has a hold and pays in one tab: the hold is found to be valid, and the write of the order is delayed. In another tab it releases the hold, at process D. B gets the unit and pays. A's write goes on.",
		Source:   "woocommerce/woocommerce#67931, which reverts #67751: the original order remains payable after its stock was given to another",
	},
	Requires: []lab.Claim{had(hasHold, "A", "B"), had(hasOrder, "B"), had(wasTold, "A", "D")},
	Run: func(w *lab.World) lab.Verdict {
		s := open(w, 1)
		a, b, d := s.shop("A"), s.shop("B"), s.shop("D")
		h := a.take("A")
		a.midway(func() error { return a.pay(h) }, func() {
			err := d.release(h)
			lab.Need(err == nil, "the hold could not be released: %v", err)
			_ = b.pay(b.take("B"))
		})
		return s.verdict()
	},
}

var capturedTwice = lab.Scenario{
	Anomaly: lab.Anomaly{
		Name:     "captured-twice",
		Loss:     lab.SellsTwice,
		Sentence: "A buyer pays for one hold in two tabs. Both payments are captured, and one of them has to be refunded.",
		Sequence: "One unit. A has a hold and pays: the payment is captured, and the write of the order is delayed. The buyer pays for the same hold at process D, with another key. A's write goes on.",
		Source:   "omise/omise-woocommerce#161: a first charge that succeeds, and a second one for the same order",
	},
	Requires: []lab.Claim{had(hasHold, "A"), had(hasOrder, "D"), had(hasRefund, "A")},
	Run: func(w *lab.World) lab.Verdict {
		s := open(w, 1)
		a, d := s.shop("A"), s.shop("D")
		h := a.take("A")
		a.midway(func() error { return a.pay(h) }, func() { _ = d.pay(h) })
		return s.verdict()
	},
}

var replyLostAfterCapture = lab.Scenario{
	Anomaly: lab.Anomaly{
		Name:     "reply-lost-after-capture",
		Loss:     lab.Stuck,
		Sentence: "The provider captures a payment, and the shop never gets the reply. The hold expires. The buyer has paid, and needs an order or the money back.",
		Sequence: "One unit. A has a hold and pays: the capture is done, and the reply to it is lost, as often as the shop asks again. The hold expires. B sweeps, gets the unit, and pays. The webhook of the capture arrives at D.",
		Source:   "razorpay/razorpay-php#223: orders are not created in the store, and the payment is captured",
	},
	Requires: []lab.Claim{had(hasHold, "A", "B"), had(hasOrder, "B"), had(wasTold, "A", "D"), had(hasRefund, "D")},
	Run: func(w *lab.World) lab.Verdict {
		s := open(w, 1)
		a, b, d := s.shop("A"), s.shop("B"), s.shop("D")
		h := a.take("A")
		s.faults(payment.Faults{LoseReplyTo: []string{payment.OpCapture}})
		w.Note("", "the provider loses its replies to captures")
		_ = a.pay(h)
		s.faults(payment.Faults{})
		lost := s.lastPayment()
		s.expire(h)
		_, _ = b.sweep()
		_ = b.pay(b.take("B"))
		_ = d.webhook(lost)
		return s.verdict()
	},
}

// faults switches the faults of the provider on and off.
func (s *sale) faults(f payment.Faults) {
	err := s.provider.client.SetFaults(s.w.Context(), f)
	lab.Need(err == nil, "the provider could not be told its faults: %v", err)
}

var orderWithoutStatus = lab.Scenario{
	Anomaly: lab.Anomaly{
		Name:     "killed-between-order-and-hold",
		Loss:     lab.SellsTwice,
		Sentence: "A process is killed when it has written one of the two: the order, or that the hold is paid. The sweep finds a hold that looks unpaid.",
		Sequence: "One unit. A has a hold and pays. Its process is killed at the second of the two writes. The hold expires. C sweeps. The webhook of the capture arrives at D.",
		Source:   "magento/inventory#3036: the order and the reservation are two writes, and their order matters",
	},
	Requires: []lab.Claim{had(hasHold, "A"), had(wasTold, "C", "D")},
	Run: func(w *lab.World) lab.Verdict {
		s := open(w, 1)
		a, c, d := s.shop("A"), s.shop("C"), s.shop("D")
		h := a.take("A")
		inSQL, inRedis := secondWrite(w.Subject)
		a.killedAt(func() error { return a.pay(h) }, inSQL, inRedis)
		s.expire(h)
		_, _ = c.sweep()
		_ = d.webhook(s.lastPayment())
		return s.verdict()
	},
}

// secondWrite matches the second write with which a payment becomes an order.
func secondWrite(c lab.Subject) (inSQL, inRedis lab.Match) {
	if c.Name == h1.Name {
		return nil, func(cmd wire.Command) bool { return cmd.Is("DEL") }
	}
	written := false // statements of one process, one at a time
	return func(cmd wire.Command) bool {
		text := cmd.Args[1]
		if !strings.HasPrefix(text, "INSERT INTO oversell_orders") && !strings.HasPrefix(text, "UPDATE oversell_holds SET status") {
			return false
		}
		second := written
		written = true
		return second
	}, nil
}
