package sales

import (
	"oversell/internal/lab"
)

func releaseScenarios() []lab.Scenario {
	return []lab.Scenario{doubleRelease, twoSweepers, compensation}
}

var doubleRelease = lab.Scenario{
	Anomaly: lab.Anomaly{
		Name:     "double-release",
		Loss:     lab.SellsTwice,
		Sentence: "A release is sent twice, and both give the unit back: one unit is on sale twice.",
		Sequence: "One unit. A releases its hold: the hold is found to be valid, and the write is delayed. The client sends the release again, to process D, which does it. A's write goes on.",
		Source:   "open-mercato/open-mercato#5418: a release never checks that the reservation is still active; pass-culture/pass-culture-api#2458: two cancellations a few milliseconds apart",
	},
	Requires: []lab.Claim{had(hasHold, "A"), had(wasTold, "A", "D")},
	Run: func(w *lab.World) lab.Verdict {
		s := open(w, 1)
		a, d := s.shop("A"), s.shop("D")
		h := a.take("A")
		a.midway(func() error { return a.release(h) }, func() { _ = d.release(h) })
		return s.verdict()
	},
}

var twoSweepers = lab.Scenario{
	Anomaly: lab.Anomaly{
		Name:     "two-sweepers",
		Loss:     lab.SellsTwice,
		Sentence: "Two processes sweep at the same time. Both find the same expired hold, and both give its unit back.",
		Sequence: "One unit. A has a hold that expires. C sweeps: it has read that the hold is due, and its write is delayed. D sweeps. C's write goes on.",
		Source:   "TokenRhythm/opensquilla#1576: a reservation is released by what was read of it before another process wrote; a sweep in every instance of a shop is the same",
	},
	Requires: []lab.Claim{had(hasHold, "A"), had(wasTold, "C", "D")},
	Run: func(w *lab.World) lab.Verdict {
		s := open(w, 1)
		a, c, d := s.shop("A"), s.shop("C"), s.shop("D")
		s.expire(a.take("A"))
		c.midway(func() error { _, err := c.sweep(); return err }, func() { _, _ = d.sweep() })
		return s.verdict()
	},
}

var compensation = lab.Scenario{
	Anomaly: lab.Anomaly{
		Name:     "compensation-clobbers-next-holder",
		Loss:     lab.SellsTwice,
		Sentence: "A payment fails, and what undoes it comes late: it gives back a unit that the next buyer holds by then.",
		Sequence: "One unit. A's payment fails, and its hold is to be released: it is found to be valid, and the write is delayed. The hold expires. C sweeps, and B gets the unit. A's write goes on. B pays.",
		Source:   "hoangdaochuz/booking#31: the expiry races with the payment, and what undoes it clobbers the seats of other bookings",
	},
	Requires: []lab.Claim{had(hasHold, "A", "B"), had(wasTold, "A", "C"), had(hasOrder, "B")},
	Run: func(w *lab.World) lab.Verdict {
		s := open(w, 1)
		a, b, c := s.shop("A"), s.shop("B"), s.shop("C")
		h := a.take("A")
		var next = h
		a.midway(func() error { return a.release(h) }, func() {
			s.expire(h)
			_, _ = c.sweep()
			next = b.take("B")
		})
		_ = b.pay(next)
		return s.verdict()
	},
}
