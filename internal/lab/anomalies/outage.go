package anomalies

import (
	"oversell/internal/catalog"
	"oversell/internal/lab"
)

var cutOff = lab.Try("cut-off-holder", needsRemoteLock, func(w *lab.World) lab.Verdict {
	a, b := w.Start("A"), w.Start("B").Holder()
	holder := a.Holding()
	w.Sleep(w.TTL / 10)
	a.Cut()
	w.Sleep(w.TTL / 70)
	asking := w.Go(func() {
		if b.Obtain(2 * w.TTL) {
			w.Sleep(w.TTL)
			b.Done()
		}
	})
	w.Must(asking, "the end of B")
	holder.Done()
	return handedOver(w, "A", "B")
}, had("A"), faulted("A"), refused("B"))

// handedOver returns the verdict of Exclusive. Its note compares the time at which the first holder
// learned of its loss with the time at which the next holder got the lock.
func handedOver(w *lab.World, first, next string) lab.Verdict {
	v := w.Exclusive()
	told, wasTold := w.First(first, lab.Lost)
	came, hasCome := w.First(next, lab.Hold)
	switch {
	case v.Outcome == lab.Holds && wasTold && hasCome:
		v = lab.Holds.Because("%s was told of its loss %s before %s had the lock", first, lab.About(came-told), next)
	case v.Outcome == lab.Holds && !hasCome:
		v = lab.Holds.Because("the lock does not expire, and nobody is let in")
	case v.Outcome == lab.Breaks && wasTold && hasCome:
		v = lab.Breaks.Because("%s, and %s was told %s later", v.Note, first, lab.About(told-came))
	case v.Outcome == lab.Breaks && hasCome:
		v = lab.Breaks.Because("%s, and %s was never told", v.Note, first)
	}
	return v
}

var failover = lab.Try("failover", needsForgetful, func(w *lab.World) lab.Verdict {
	return overlap(w, func() { w.LoseLock(1, "a replica that never received the lock takes over") })
}, had("A"), answered("B"))

var restartForgets = lab.Try("restart-forgets-lock", needsForgetful, func(w *lab.World) lab.Verdict {
	n := w.Majority()
	return overlap(w, func() { w.LoseLock(n, "%s restarted, empty", w.ServerNames(n)) })
}, had("A"), answered("B"))

// overlap lets B ask for the lock after A has taken it and the fault has hit the servers.
func overlap(w *lab.World, fault func()) lab.Verdict {
	a, b := w.Start("A").Holder(), w.Start("B").Holder()
	a.MustLock()
	w.Sleep(w.TTL / 20)
	fault()
	_ = b.Try()
	w.Sleep(w.TTL / 20)
	b.Done()
	a.Done()
	return w.Exclusive()
}

var clockMinority = setsClocks(lab.Try("clock-jump-minority", needsMinority, func(w *lab.World) lab.Verdict {
	return overlap(w, func() { w.JumpClocks(w.Servers() - w.Majority()) })
}, had("A"), answered("B")))

var clockMajority = setsClocks(lab.Try("clock-jump-majority", needsWallClock, func(w *lab.World) lab.Verdict {
	return overlap(w, func() { w.JumpClocks(w.Majority()) })
}, had("A"), answered("B")))

func setsClocks(s lab.Scenario) lab.Scenario {
	s.Clocks = true
	return s
}

func needsMinority(c lab.Subject) string {
	why := needsWallClock(c)
	if why == "" && c.Needs != catalog.NeedsNodes {
		return "one server keeps it, and one server has no minority"
	}
	return why
}
