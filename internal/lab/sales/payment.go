package sales

import "oversell/internal/lab"

func paymentScenarios() []lab.Scenario {
	return []lab.Scenario{latePayment(), sweepAgainstPayment(), releasedStillPayable()}
}

func latePayment() lab.Scenario {
	return lab.Scenario{
		Anomaly: lab.Anomaly{
			Name:     "late-payment",
			Sentence: "A payment is checked in time and arrives late. The hold has expired meanwhile, and its unit is sold to somebody else.",
			Sequence: "One unit. A has a hold and pays: the hold is found to be valid, and the write of the order is delayed. The hold expires. B sweeps, gets the unit, and pays. A's write goes on.",
			Source:   "woocommerce/woocommerce#16069: a customer completes a payment that had failed, for items sold out since; the lock that expires under a paused holder is the same failure",
		},
		Breaks:   readFirst,
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
}

func sweepAgainstPayment() lab.Scenario {
	return lab.Scenario{
		Anomaly: lab.Anomaly{
			Name:     "sweep-against-payment",
			Sentence: "A sweep and a payment decide about one hold at the same time, and both win: the unit is sold and goes back on sale.",
			Sequence: "One unit. A has a hold and pays; the write is delayed until the hold has expired. C sweeps: it has read that the hold is due, and its write is delayed. A's write goes on, and then C's.",
			Source:   "openlinker#2346: a naive expiry sweep is a silent oversell",
		},
		Breaks:   readFirst,
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
}

func releasedStillPayable() lab.Scenario {
	return lab.Scenario{
		Anomaly: lab.Anomaly{
			Name:     "released-still-payable",
			Sentence: "A hold is released, and the right to pay for it lives on: its payment sells a unit that somebody else has bought.",
			Sequence: "One unit. A has a hold and pays in one tab: the hold is found to be valid, and the write of the order is delayed. In another tab it releases the hold, at process D. B gets the unit and pays. A's write goes on.",
			Source:   "woocommerce/woocommerce#67931, which reverts #67751: the original order remains payable after its stock was given to another",
		},
		Breaks:   readFirst,
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
}
