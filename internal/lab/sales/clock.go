package sales

import (
	"oversell/internal/lab"
)

func clockScenarios() []lab.Scenario {
	return []lab.Scenario{clockDiffers()}
}

func clockDiffers() lab.Scenario {
	return lab.Scenario{
		Anomaly: lab.Anomaly{
			Name:     "clock-differs",
			Sentence: "The clock of one shop is ahead. By that clock a hold has expired, and its unit is sold while its buyer still has time to pay.",
			Sequence: "One unit. A has a hold. The clock of C is ahead by two ttls: C sweeps. B gets what there is. A pays in time.",
			Source:   "Kleppmann, How to do distributed locking: a lease that ends by the clock of whoever looks",
		},
		Breaks:   readFirst,
		Requires: []lab.Claim{had(hasHold, "A"), had(wasTold, "A", "B", "C")},
		Run: func(w *lab.World) lab.Verdict {
			s := open(w, 1)
			a, b, c := s.shop("A"), s.shop("B"), s.shopAt("C", 2*w.TTL)
			h := a.take("A")
			_, _ = c.sweep()
			next, err := b.ask("B", 0)
			if paid := a.pay(h); paid != nil {
				return w.Broke("A", "A pays in time, and is refused: %s", w.Readable(lab.Brief(paid)))
			}
			if err == nil {
				_ = b.pay(next)
			}
			return s.verdict()
		},
	}
}
