//go:build !js

package anomalies

import (
	"database/sql"
	"strings"

	"oversell/internal/fault"
	"oversell/internal/holds"
	h1 "oversell/internal/holds/h1_counter"
	h3 "oversell/internal/holds/h3_claim"
	"oversell/internal/lab"
)

var lastHold = try("last-unit-raced", 1, func(s *sale) {
	a, b := s.shop("A"), s.shop("B")
	// The first read initializes the counter of h1_counter.
	_, err := s.audit.Units(s.w.Context(), s.item.SKU, s.item.SaleID)
	lab.Need(err == nil, "the units could not be counted: %v", err)
	a.midway(a.buy, func() { _ = b.pay(b.take("B")) })
}, did(hasHold, "B"), did(hasOrder, "B"), did(wasTold, "A"))

var limitOutside = lab.Try("limit-outside-the-step", needsHolds, func(w *lab.World) lab.Verdict {
	s := open(w, 2)
	a, d := s.shop("A"), s.shop("D")
	got := int64(0)
	take := func(p *shop) error {
		h, err := p.ask("buyer", 1)
		if err == nil {
			err = p.pay(h)
		}
		if err == nil {
			got++ // one at a time
		}
		return err
	}
	a.midway(func() error { return take(a) }, func() { _ = take(d) })
	if v := s.verdict(); v.Outcome != lab.Holds {
		return v
	}
	if got > 1 {
		return w.Broke("A", "one buyer has %d units, and the limit is 1", got)
	}
	return lab.Holds.Because("the buyer has %d unit, and the other is sold to somebody else", got)
}, did(hasHold, "D"), did(hasOrder, "D"), did(wasTold, "A"))

var evicted = lab.Try("evicted-stock-key-reads-sold-out", needsHoldsInRedis, func(w *lab.World) lab.Verdict {
	s := open(w, 2)
	a, b := s.shop("A"), s.shop("B")
	_ = a.pay(a.take("A"))
	s.evict("oversell:h1:" + s.item.SKU + ":" + s.item.SaleID + ":left")
	_ = b.buy()
	return s.verdict()
}, did(hasOrder, "A"), did(wasTold, "B"))

// evict removes the key of the stock from Redis.
func (o *onSale) evict(key string) {
	n, err := o.w.Side.Del(o.w.Context(), key).Result()
	lab.Need(err == nil && n == 1, "the stock could not be evicted: %v", err)
	o.w.Trace("", lab.Fault, "Redis evicts %s", o.w.Readable(key))
}

var killedWithUnits = try("killed-with-units", 1, func(s *sale) {
	a, b := s.shop("A"), s.shop("B")
	take := func() error { _, err := a.ask("A", 0); return err }
	if s.w.Subject.Name == h1.Name {
		a.killedAt(take, func(cmd fault.Command) bool {
			return cmd.Is("SET") && strings.HasPrefix(cmd.Args[1], "oversell:h1:hold:")
		})
	} else {
		a.killedAt(take, lab.Sends("INSERT INTO oversell_holds "))
	}
	_ = b.buy()
}, did(wasTold, "A", "B"))

var replyLostAfterTake = try("reply-lost-after-take", 1, func(s *sale) {
	a, b := s.shop("A"), s.shop("B")
	switch s.w.Subject.Name {
	case h1.Name:
		a.LoseReply(func(cmd fault.Command) bool { return cmd.Is("DECRBY") })
	case h3.Name:
		a.LoseReply(commitOf("INSERT INTO oversell_holds "))
	default:
		a.LoseReply(lab.Sends("UPDATE oversell_items "))
	}
	_ = a.buy()
	_ = b.buy()
}, did(wasTold, "A", "B"))

func commitOf(text string) lab.Match {
	sent := false // one process sends its statements one at a time
	return func(cmd fault.Command) bool {
		if strings.HasPrefix(lab.SQL(cmd), text) {
			sent = true
		}
		return sent && lab.SQL(cmd) == fault.Commit
	}
}

var snapshot = lab.Scenario{
	Anomaly: lab.AnomalyNamed("snapshot-before-lock"),
	MySQL:   true,
	NotApplicable: func(c lab.Subject) string {
		if c.Name != h3.Name && !isPool(c) {
			return "it has no transaction, so it has no snapshot"
		}
		return ""
	},
	Requires: []lab.Claim{did(hasOrder, "B"), did(wasTold, "A")},
	Run: func(w *lab.World) lab.Verdict {
		if isPool(w.Subject) {
			return lastUnitOfPool(w)
		}
		s := open(w, 1)
		repeatable := func(on *holds.Backends) { on.Isolation = sql.LevelRepeatableRead }
		a, b := s.shop("A", repeatable), s.shop("B", repeatable)
		a.parkedAt(lab.Sends("UPDATE oversell_items "), a.buy, func() { _ = b.pay(b.take("B")) })
		return s.verdict()
	},
}

// lastUnitOfPool lets A begin to claim the last unit, and lets B buy that unit before A has locked
// the row.
func lastUnitOfPool(w *lab.World) lab.Verdict {
	p := openBehind(w, 1)
	a, b := p.start("A"), p.start("B")
	a.parkedAt(lab.Sends("FOR UPDATE"), a.buys, func() { _ = b.buys() })
	return p.verdict()
}
