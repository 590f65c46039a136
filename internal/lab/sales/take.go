package sales

import (
	h1 "oversell/internal/holds/h1_counter"
	"oversell/internal/lab"
)

func takeScenarios() []lab.Scenario {
	return []lab.Scenario{limitOutside(), evicted()}
}

func limitOutside() lab.Scenario {
	return lab.Scenario{
		Anomaly: lab.Anomaly{
			Name:     "limit-outside-the-step",
			Sentence: "The limit of a buyer is checked before the step that takes the unit. Two requests at once both pass the check, and the buyer gets more than the limit.",
			Sequence: "Two units, one for each buyer. A asks for a hold: the limit allows it, and the write is delayed. The same buyer asks at process D, and gets a hold. A's write goes on. Both holds are paid.",
			Source:   "the per-customer limit of many shops, which is checked when the cart is; medusajs/medusa#16502: two lines of one cart are checked against the same count",
		},
		Breaks:   readFirst,
		Requires: []lab.Claim{had(hasHold, "D"), had(hasOrder, "D"), had(wasTold, "A")},
		Run: func(w *lab.World) lab.Verdict {
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
		},
	}
}

func evicted() lab.Scenario {
	return lab.Scenario{
		Anomaly: lab.Anomaly{
			Name:     "evicted-stock-key",
			Sentence: "Redis evicts the key with the stock, or loses it. What does a shop take a missing stock for?",
			Sequence: "Two units. A buys one. The keys of the stock are evicted. B buys what it can get.",
			Source:   "maxmemory-policy allkeys-lru, which evicts the counter of a sale as any other key",
		},
		Breaks:        lab.Only(h1.Name),
		NotApplicable: needsRedis,
		Requires:      []lab.Claim{had(hasOrder, "A"), had(wasTold, "B")},
		Run: func(w *lab.World) lab.Verdict {
			s := open(w, 2)
			a, b := s.shop("A"), s.shop("B")
			_ = a.pay(a.take("A"))
			s.evict()
			if h, err := b.ask("B", 0); err == nil {
				_ = b.pay(h)
			}
			return s.verdict()
		},
	}
}

// needsRedis is for questions about what is kept in Redis.
func needsRedis(c lab.Subject) string {
	if c.Name != h1.Name {
		return "it keeps nothing in Redis"
	}
	return ""
}

// evict removes the counter of the sale from Redis.
func (s *sale) evict() {
	n, err := s.w.Side.Del(s.w.Context(), s.leftKey()).Result()
	lab.Need(err == nil && n == 1, "the counter could not be evicted: %v", err)
	s.w.Trace("", lab.Fault, "Redis evicts h1:left")
}
