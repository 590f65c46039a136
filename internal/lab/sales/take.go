package sales

import (
	"database/sql"
	"strings"

	"oversell/internal/fault"
	h1 "oversell/internal/holds/h1_counter"
	h3 "oversell/internal/holds/h3_claim"
	"oversell/internal/lab"
	"oversell/internal/lab/wire"
)

func takeScenarios() []lab.Scenario {
	return []lab.Scenario{lastUnit, limitOutside, killedWithUnits, replyLostAfterTake, snapshot, evicted}
}

var lastUnit = lab.Scenario{
	Anomaly: lab.Anomaly{
		Name:     "last-unit-raced",
		Loss:     lab.SellsTwice,
		Sentence: "Two buyers ask for the last unit at the same time. Both have read that it is there.",
		Sequence: "One unit. A asks for a hold: the unit is there, and the write is delayed. B gets the unit and pays. A's write goes on.",
		Source:   "saleor/saleor#543: concurrent checkouts allocate more stock than there is",
	},
	Requires: []lab.Claim{had(hasHold, "B"), had(hasOrder, "B"), had(wasTold, "A")},
	Run: func(w *lab.World) lab.Verdict {
		s := open(w, 1)
		a, b := s.shop("A"), s.shop("B")
		buy := func() error {
			h, err := a.ask("A", 0)
			if err == nil {
				err = a.pay(h)
			}
			return err
		}
		// The counter of h1_counter is set by who reads it first.
		_, err := s.audit.Units(w.Context(), s.item.SKU, s.item.SaleID)
		lab.Need(err == nil, "the units could not be counted: %v", err)
		a.midway(buy, func() { _ = b.pay(b.take("B")) })
		return s.verdict()
	},
}

var limitOutside = lab.Scenario{
	Anomaly: lab.Anomaly{
		Name:     "limit-outside-the-step",
		Loss:     lab.SellsTwice,
		Sentence: "The limit of a buyer is checked before the step that takes the unit. Two requests at once both pass the check, and the buyer gets more than the limit.",
		Sequence: "Two units, one for each buyer. A asks for a hold: the limit allows it, and the write is delayed. The same buyer asks at process D, and gets a hold. A's write goes on. Both holds are paid.",
		Source:   "be-BOP-io-SA/be-BOP#2778: two simultaneous orders can both pass the same stock or per-person limit",
	},
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

var evicted = lab.Scenario{
	Anomaly: lab.Anomaly{
		Name:     "evicted-stock-key-reads-sold-out",
		Loss:     lab.SellsTwice,
		Sentence: "Redis evicts the key with the stock, or loses it. What does a shop take a missing stock for?",
		Sequence: "Two units. A buys one. The keys of the stock are evicted. B buys what it can get.",
		Source:   "sidekiq/sidekiq#2883: allkeys-lru evicts what was no cache",
	},
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

var killedWithUnits = lab.Scenario{
	Anomaly: lab.Anomaly{
		Name:     "killed-with-units",
		Loss:     lab.Stuck,
		Sentence: "A process is killed when it has taken a unit and has not yet written the hold. Nobody has the unit, and nobody can buy it.",
		Sequence: "One unit. A asks for a hold: the unit is taken. Its process is killed before the hold is written. B asks.",
		Source:   "mozilla-ai/otari#767: a process that dies between two writes leaks what it has reserved for ever",
	},
	Requires: []lab.Claim{had(wasTold, "A", "B")},
	Run: func(w *lab.World) lab.Verdict {
		s := open(w, 1)
		a, b := s.shop("A"), s.shop("B")
		take := func() error { _, err := a.ask("A", 0); return err }
		if w.Subject.Name == h1.Name {
			a.killedAt(take, nil, func(cmd wire.Command) bool {
				return cmd.Is("SET") && strings.HasPrefix(cmd.Args[1], "oversell:h1:hold:")
			})
		} else {
			a.killedAt(take, lab.Sends("INSERT INTO oversell_holds "), nil)
		}
		if h, err := b.ask("B", 0); err == nil {
			_ = b.pay(h)
		}
		return s.verdict()
	},
}

var replyLostAfterTake = lab.Scenario{
	Anomaly: lab.Anomaly{
		Name:     "reply-lost-after-take",
		Loss:     lab.Stuck,
		Sentence: "The unit is taken, and the reply is lost: the shop does not know whether it has the unit. Does somebody find out?",
		Sequence: "One unit. A asks for a hold. The step that takes the unit is done, and its connection breaks before the reply arrives. If A has the hold, it pays. B asks.",
		Source:   "LerianStudio/midaz#2279: a retried reserve holds capacity twice, without a row; ShipfoxHQ/shipfox#392: what is reserved for a client whose connection breaks counts until its ttl",
	},
	Requires: []lab.Claim{had(wasTold, "A", "B")},
	Run: func(w *lab.World) lab.Verdict {
		s := open(w, 1)
		a, b := s.shop("A"), s.shop("B")
		switch w.Subject.Name {
		case h1.Name:
			a.LoseReply(func(cmd wire.Command) bool { return cmd.Is("DECRBY") })
		case h3.Name:
			a.LoseSQLReply(commitOf("INSERT INTO oversell_holds "))
		default:
			a.LoseSQLReply(lab.Sends("UPDATE oversell_items "))
		}
		if h, err := a.ask("A", 0); err == nil {
			_ = a.pay(h)
		}
		if h, err := b.ask("B", 0); err == nil {
			_ = b.pay(h)
		}
		return s.verdict()
	},
}

// commitOf matches the COMMIT of the transaction with a statement.
func commitOf(text string) lab.Match {
	sent := false // statements of one process, one at a time
	return func(cmd wire.Command) bool {
		if strings.HasPrefix(cmd.Args[1], text) {
			sent = true
		}
		return sent && cmd.Args[1] == fault.Commit
	}
}

const snapshotBeforeLock = "snapshot-before-lock"

var snapshot = lab.Scenario{
	Anomaly: lab.Anomaly{
		Name:     snapshotBeforeLock,
		Loss:     lab.SellsTwice,
		Sentence: "Under REPEATABLE READ a transaction reads from a snapshot, also after it has waited for a lock. A stock that is read from it may be sold by then.",
		Sequence: "One unit, in MySQL or MariaDB, with transactions that are REPEATABLE READ. A asks for a hold: its transaction has begun and has written the buyer's row; the statement that takes the unit is delayed. B gets the unit and pays. A's statement goes on. Of what sells from a pool without holds, A looks for a free unit, and the statement that locks is delayed.",
		Source:   "ury-erp/ury#366: a plain read after a lock is served from the snapshot of the transaction; shopperlabs/shopper#591: two checkouts read that the last unit is there, and both orders are created",
	},
	MySQL: true,
	NotApplicable: func(c lab.Subject) string {
		if c.Name != h3.Name && !isPool(c) {
			return "it has no transaction, and so no snapshot"
		}
		return ""
	},
	Requires: []lab.Claim{had(hasOrder, "B"), had(wasTold, "A")},
	Run: func(w *lab.World) lab.Verdict {
		if isPool(w.Subject) {
			return lastUnitOfPool(w)
		}
		s := open(w, 1)
		a, b := s.shopWith("A", shopConfig{isolation: sql.LevelRepeatableRead}), s.shopWith("B", shopConfig{isolation: sql.LevelRepeatableRead})
		stop := a.ParkSQL(lab.Sends("UPDATE oversell_items "))
		done := a.begin(func() error {
			h, err := a.ask("A", 0)
			if err == nil {
				err = a.pay(h)
			}
			return err
		})
		a.mustPark(stop, done)
		_ = b.pay(b.take("B"))
		stop.Release()
		w.Must(done, "the end of A")
		return s.verdict()
	},
}
