package sales

import (
	"oversell/internal/lab"
	"oversell/internal/lab/wire"
)

func consumerScenarios() []lab.Scenario {
	return []lab.Scenario{
		diesAfterReading, diesBeforeAcknowledging, diesBetweenTwoOrders,
		databaseReplyLost, twoConsumers, redisLosesAccepted,
	}
}

// lacksConsumer is for questions about consumers.
func lacksConsumer(c lab.Subject) string {
	if !streams(c) {
		return "it writes the order in the request that takes the unit"
	}
	return ""
}

var diesAfterReading = lab.Scenario{
	Anomaly: lab.Anomaly{
		Name:     "consumer-dies-after-reading",
		Loss:     lab.Stuck,
		Sentence: "A consumer is killed when it has read an order and has not written it. Redis counts the order as delivered, and hands it to nobody by itself.",
		Sequence: "One unit. A's order is accepted. C reads it, and is killed before it writes. D consumes.",
		Source:   "openlinker-project/openlinker#2164: a worker that is killed between read and ACK loses the message for good; svix/svix-webhooks#569: what was acknowledged first is lost in a crash",
	},
	NotApplicable: lacksConsumer,
	Requires:      []lab.Claim{had(hasOrder, "A")},
	Run: func(w *lab.World) lab.Verdict {
		b := openBehind(w, 1)
		a, c, d := b.start("A"), b.start("C"), b.start("D")
		_ = a.buys()
		c.killedAt(c.writesAlone, beginsToWrite, nil)
		return b.takenOverBy(d)
	},
}

var diesBeforeAcknowledging = lab.Scenario{
	Anomaly: lab.Anomaly{
		Name:     "consumer-dies-before-acknowledging",
		Loss:     lab.SellsTwice,
		Sentence: "A consumer is killed when it has written an order and has not acknowledged it. Another one reads the order again, and must notice that it is written.",
		Sequence: "Two units. A's order is accepted. C reads it and writes it, and is killed before it acknowledges. D consumes.",
		Source:   "Devlaner/devlane#374: what fails between the work and the acknowledgement is done twice, because nothing tells that it was done",
	},
	NotApplicable: func(c lab.Subject) string {
		if c.Name == ackFirst {
			return "it acknowledges before it writes"
		}
		return lacksConsumer(c)
	},
	Requires: []lab.Claim{had(hasOrder, "A")},
	Run: func(w *lab.World) lab.Verdict {
		b := openBehind(w, 2)
		a, c, d := b.start("A"), b.start("C"), b.start("D")
		_ = a.buys()
		c.killedAt(c.writesAlone, nil, func(cmd wire.Command) bool { return cmd.Is("XACK") || cmd.Script() })
		lab.Need(b.sold() == 1, "the order is not written")
		return b.takenOverBy(d)
	},
}

var diesBetweenTwoOrders = lab.Scenario{
	Anomaly: lab.Anomaly{
		Name:     "consumer-dies-between-two-orders",
		Loss:     lab.SellsTwice,
		Sentence: "A consumer has read two orders, and is killed when it has done a part of the work. Another one must write the rest, and nothing twice.",
		Sequence: "Three units. The orders of A and B are accepted. C reads both, and is killed when it has written one of them; or, if they are written in one transaction, when it has taken the units in it and has not written the orders. D consumes.",
		Source:   "dotCMS/core#37300: a batch that has created 30 of 50 files begins again from the start, and creates 30 of them twice",
	},
	NotApplicable: lacksConsumer,
	Requires:      []lab.Claim{had(hasOrder, "A", "B")},
	Run: func(w *lab.World) lab.Verdict {
		b := openBehind(w, 3)
		one, two, c, d := b.start("A"), b.start("B"), b.start("C"), b.start("D")
		_, _ = one.buys(), two.buys()
		c.killedAt(c.writesAlone, halfway(w.Subject), nil)
		return b.takenOverBy(d)
	},
}

// halfway matches the statement that a consumer sends when it has done half of the work on two
// orders.
func halfway(c lab.Subject) lab.Match {
	written := c.Name == luaStream // it takes the units first, and one statement writes both orders
	return func(cmd wire.Command) bool {
		if !writesOrder(cmd) {
			return false
		}
		half := written
		written = true
		return half
	}
}

var databaseReplyLost = lab.Scenario{
	Anomaly: lab.Anomaly{
		Name:     "database-reply-lost",
		Loss:     lab.SellsTwice,
		Sentence: "The database has written an order, and its reply is lost. Who takes that for a failure gives the unit back, or writes the order again.",
		Sequence: "Two units. A buys one. The order is written, and the connection to the database breaks before the reply arrives; if orders are written behind the sale, it is that of D, which writes them.",
		Source:   "vitessio/vitess#2085: a write is repeated after a lost connection, and nobody knows whether it was done",
	},
	Requires: []lab.Claim{had(wasTold, "A")},
	Run: func(w *lab.World) lab.Verdict {
		b := openBehind(w, 2)
		a := b.start("A")
		if !streams(w.Subject) {
			a.LoseSQLReply(writesOrder)
			_ = a.buys()
			return b.verdict()
		}
		d := b.start("D")
		if w.Subject.Name == luaStream {
			d.LoseSQLReply(commitOf("INSERT INTO `oversell_orders`"))
		} else {
			d.LoseSQLReply(writesOrder)
		}
		_ = a.buys()
		return b.takenOverBy(d)
	},
}

var twoConsumers = lab.Scenario{
	Anomaly: lab.Anomaly{
		Name:     "two-consumers-at-once",
		Loss:     lab.SellsTwice,
		Sentence: "A consumer is slow, and another one takes its order over. Both write it.",
		Sequence: "Two units. A's order is accepted. C reads it, and its write is delayed for longer than an order is left to a consumer. D consumes. C's write goes on.",
		Source:   "dotnetcore/CAP#1144: a second node takes a message that the first is still working on",
	},
	NotApplicable: lacksConsumer,
	Requires:      []lab.Claim{had(hasOrder, "A")},
	Run: func(w *lab.World) lab.Verdict {
		b := openBehind(w, 2)
		a, c, d := b.start("A"), b.start("C"), b.start("D")
		_ = a.buys()
		stop := c.ParkSQL(beginsToWrite)
		c.mustPark(stop, c.writes())
		d.writes()
		w.Sleep(3 * b.claimAfter())
		stop.Release()
		w.Sleep(b.claimAfter())
		return b.verdict()
	},
}

var redisLosesAccepted = lab.Scenario{
	Anomaly: lab.Anomaly{
		Name:     "redis-loses-accepted-orders",
		Loss:     lab.SellsTwice,
		Sentence: "Redis loses the orders that it has accepted, and with them the stock. The stock is counted again, without them. A consumer that has read such an order must not write it any more.",
		Sequence: "Two units. A's order is accepted. C reads it, and its write is delayed. Redis loses everything about the item, and the naive stock is repaired. B's order is accepted, and D writes it. A asks what has become of the order. C's write goes on.",
		Source:   "redis/redis#6062: a failover loses what was acknowledged",
	},
	NotApplicable: lacksConsumer,
	Requires:      []lab.Claim{had(hasOrder, "A", "B")},
	Run: func(w *lab.World) lab.Verdict {
		b := openBehind(w, 2)
		one, two, c, d := b.start("A"), b.start("B"), b.start("C"), b.start("D")
		_ = one.buys()
		stop := c.ParkSQL(beginsToWrite)
		c.mustPark(stop, c.writes())
		w.LoseKeys("Redis loses everything about the item")
		if w.Subject.Name != luaStream {
			d.repairs() // the real stock is counted by the next request
		}
		_ = two.buys()
		d.writes()
		w.Sleep(2 * b.claimAfter())
		if w.Subject.Name == luaStream {
			b.ask() // the naive ways could not tell
		}
		stop.Release()
		w.Sleep(b.claimAfter())
		return b.verdict()
	},
}

// writesAlone writes accepted orders until the process is killed.
func (p *writer) writesAlone() error {
	p.w.Sleep(tick)
	p.consume(p.Life(), p.name)
	return nil
}

// takenOverBy has a consumer go on with what another has left, and counts.
func (b *behind) takenOverBy(d *writer) lab.Verdict {
	d.writes()
	b.w.Sleep(3 * b.claimAfter())
	return b.verdict()
}
