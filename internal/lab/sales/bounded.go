package sales

import (
	"oversell/internal/catalog"
	"oversell/internal/lab"
	"oversell/internal/lab/wire"
)

// Bounded returns what sells without a script, by INCREX. These subjects need Redis 8.8 or
// Valkey 9.2, or the embedded server, and are tried only if they are named.
func Bounded() []lab.Subject {
	return []lab.Subject{
		{Name: increxBare, About: "naive: INCREX takes the unit, is asked again if its reply is lost, and a key is claimed before it", Needs: catalog.NeedsIncrex, Database: openDatabase},
		{Name: increx, About: "INCREX takes the units in one transaction with a look at the stock's key; no script is sent", Needs: catalog.NeedsIncrex, Database: openDatabase},
	}
}

func boundedScenarios() []lab.Scenario {
	return []lab.Scenario{lostReplyTakesTwice(), twoKeysTwoSteps()}
}

func lostReplyTakesTwice() lab.Scenario {
	return lab.Scenario{
		Anomaly: lab.Anomaly{
			Name:     "lost-reply-takes-twice",
			Loss:     lab.Stuck,
			Sentence: "Redis has taken the unit, and its reply is lost. Whoever asks again takes a second unit for the same order.",
			Sequence: "Two units. A buys one. The unit is taken, and the connection to Redis breaks before the reply arrives.",
			Source:   "redis/redis-py#261: a client sends INCR again after a timeout, and it counts twice",
		},
		Breaks:        lab.Only(increxBare),
		NotApplicable: otherMistake,
		Requires:      []lab.Claim{had(wasTold, "A")},
		Run: func(w *lab.World) lab.Verdict {
			b := openBehind(w, 2)
			a := b.start("A")
			a.LoseReply(takes(w.Subject))
			_ = a.buys()
			return b.verdict()
		},
	}
}

func twoKeysTwoSteps() lab.Scenario {
	return lab.Scenario{
		Anomaly: lab.Anomaly{
			Name:     "two-keys-two-steps",
			Loss:     lab.Stuck,
			Sentence: "A claim on the buyer's idempotency key is written, and then the unit is taken. Without a script these are two steps, and a process that is killed between them leaves a claim without a unit.",
			Sequence: "One unit. A buys it with an idempotency key, and its process is killed before the command that takes the unit arrives. The buyer's client asks again, at B, with the same key.",
			Source:   "VilledeMontreal/express-idempotency#32: a crash after the key is claimed refuses every later request with it",
		},
		Breaks:        lab.Only(increxBare),
		NotApplicable: otherMistake,
		Requires:      []lab.Claim{had(hasOrder, "B")},
		Run: func(w *lab.World) lab.Verdict {
			const key = "click"
			b := openBehind(w, 1)
			a, other := b.start("A"), b.start("B")
			a.killedAt(func() error { return a.buysWith(key) }, nil, asksToTake)
			told := other.buysWith(key)
			if v := b.verdict(); v.Outcome == lab.Breaks || told == nil {
				return v
			}
			lab.Need(b.keyed(key) == 0, "the buyer is refused, and has an order")
			return w.Broke("B", "the buyer is refused because of its own key, which no order has, and the unit goes to somebody else")
		},
	}
}

// otherMistake is for questions about who takes units.
func otherMistake(c lab.Subject) string {
	if naively[c.Name] != nil && c.Name != increxBare {
		return "it is there for another mistake"
	}
	return ""
}

// takes matches the command that takes a unit: of the real INCREX that is the end of its
// transaction.
func takes(c lab.Subject) lab.Match {
	return func(cmd wire.Command) bool {
		return cmd.Script() || cmd.Is("INCREX") && c.Name == increxBare || cmd.Is("EXEC") && c.Name == increx
	}
}

// asksToTake matches the first that a process sends about a unit.
func asksToTake(cmd wire.Command) bool { return cmd.Script() || cmd.Is("INCREX") }

// keyed counts the orders with an idempotency key.
func (b *behind) keyed(key string) (orders int64) {
	err := b.db.WithContext(b.w.Context()).Raw("SELECT COUNT(*) FROM oversell_orders WHERE sku = ? AND idempotency_key = ?", b.item.SKU, key).Scan(&orders).Error
	lab.Need(err == nil, "the orders could not be counted: %v", err)
	return orders
}
