//go:build !js

package anomalies

import (
	"errors"
	"time"

	"oversell/internal/holds"
	"oversell/internal/lab"
)

var doubleRelease = try("double-release", 1, func(s *sale) {
	a, d := s.shop("A"), s.shop("D")
	h := a.take("A")
	a.midway(func() error { return a.release(h) }, func() { _ = d.release(h) })
}, did(hasHold, "A"), did(wasTold, "A", "D"))

var cancelledTwice = try("cancelled-twice", 1, func(s *sale) {
	a, c, d := s.shop("A"), s.shop("C"), s.shop("D")
	h := a.take("A")
	_ = a.pay(h)
	c.midway(func() error { return c.cancel(h) }, func() { _ = d.cancel(h) })
}, did(hasHold, "A"), did(hasOrder, "A"), did(wasTold, "C", "D"), did(hasRefund, "D"))

var twoSweepers = try("two-sweepers", 1, func(s *sale) {
	a, c, d := s.shop("A"), s.shop("C"), s.shop("D")
	s.expire(a.take("A"))
	c.midway(c.sweep, func() { _ = d.sweep() })
}, did(hasHold, "A"), did(wasTold, "C", "D"))

var compensation = try("compensation-clobbers-next-holder", 1, func(s *sale) {
	a, b, c := s.shop("A"), s.shop("B"), s.shop("C")
	h := a.take("A")
	var next = h
	a.midway(func() error { return a.release(h) }, func() {
		s.expire(h)
		_ = c.sweep()
		next = b.take("B")
	})
	_ = b.pay(next)
}, did(hasHold, "A", "B"), did(wasTold, "A", "C"), did(hasOrder, "B"))

var clockDiffers = lab.Try("clock-differs", needsHolds, func(w *lab.World) lab.Verdict {
	s := open(w, 1)
	a, b := s.shop("A"), s.shop("B")
	c := s.shop("C", func(on *holds.Backends) {
		on.Now = func() time.Time { return time.Now().Add(2 * w.TTL) }
	})
	h := a.take("A")
	_ = c.sweep()
	next, err := b.ask("B", 0)
	lab.Need(err == nil || errors.Is(err, holds.ErrSoldOut), "B got no hold: %v", err)
	if paid := a.pay(h); paid != nil {
		return w.Broke("A", "A pays in time, and is refused: %s", told(w, paid))
	}
	if err == nil {
		_ = b.pay(next)
	}
	return s.verdict()
}, did(hasHold, "A"), did(wasTold, "A", "B", "C"))

var sweepWithoutTraffic = lab.Try("sweep-only-with-traffic", needsHolds, func(w *lab.World) lab.Verdict {
	s := open(w, 1)
	till := s.holds(s.db, s.audit.Stage, s.client, w.TTL/4)
	s.newID("A") // for forget, because till chooses the id itself
	_, err := till.Hold(w.Context(), w.Subject.Name, holds.Request{SKU: s.item.SKU, Buyer: "A", Quantity: 1})
	lab.Need(err == nil, "A got no hold: %v", err)
	w.Record(hasHold, "A")
	w.Note("A", "has a hold")
	w.Sleep(3 * w.TTL)
	units, err := s.audit.Units(w.Context(), s.item.SKU, s.item.SaleID)
	lab.Need(err == nil, "the units could not be counted: %v", err)
	w.Note("", "%d of %d units are on sale", units.Left, s.units)
	if units.Left < s.units {
		return w.Broke("", "%d of %d units are on sale, and no hold is left", units.Left, s.units)
	}
	return s.verdict()
}, did(hasHold, "A"))

var expiredWaits = lab.Try("expired-waits-for-sweep", needsHolds, func(w *lab.World) lab.Verdict {
	s := open(w, 1)
	a, b := s.shop("A"), s.shop("B")
	s.expire(a.take("A"))
	h, err := b.ask("B", 0)
	lab.Need(err == nil || errors.Is(err, holds.ErrSoldOut), "%s got no hold: %v", b.Name, err)
	if err != nil {
		return w.Broke("B", "%s is told that the item is sold out, but one unit is left", b.Name)
	}
	_ = b.pay(h)
	return s.verdict()
}, did(hasHold, "A"), did(wasTold, "B"))
