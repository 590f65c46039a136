package sales

import (
	"oversell/internal/lab"
)

func releaseScenarios() []lab.Scenario {
	return []lab.Scenario{doubleRelease, twoSweepers, compensation}
}

var doubleRelease = lab.Scenario{
	Anomaly:  lab.AnomalyNamed("double-release"),
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
	Anomaly:  lab.AnomalyNamed("two-sweepers"),
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
	Anomaly:  lab.AnomalyNamed("compensation-clobbers-next-holder"),
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
