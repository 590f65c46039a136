package sales

import (
	"oversell/internal/fault"
	"oversell/internal/lab"
)

func lacksConsumer(c lab.Subject) string {
	if !streams(c) {
		return "it writes the order in the request that takes the unit"
	}
	return ""
}

var diesAfterReading = lab.Try("consumer-dies-after-reading", lacksConsumer, func(w *lab.World) lab.Verdict {
	b := openBehind(w, 1)
	a, c, d := b.start("A"), b.start("C"), b.start("D")
	_ = a.buys()
	c.killedAt(c.writesAlone, beginsToWrite)
	return b.takenOverBy(d)
}, had(hasOrder, "A"))

var diesBeforeAcknowledging = lab.Try("consumer-dies-before-acknowledging", func(c lab.Subject) string {
	if c.Name == ackFirst {
		return "it acknowledges before it writes"
	}
	return lacksConsumer(c)
}, func(w *lab.World) lab.Verdict {
	b := openBehind(w, 2)
	a, c, d := b.start("A"), b.start("C"), b.start("D")
	_ = a.buys()
	c.killedAt(c.writesAlone, func(cmd fault.Command) bool { return cmd.Is("XACK") || cmd.Script() })
	lab.Need(b.sold() == 1, "the order is not written")
	return b.takenOverBy(d)
}, had(hasOrder, "A"))

var diesBetweenTwoOrders = lab.Try("consumer-dies-between-two-orders", lacksConsumer, func(w *lab.World) lab.Verdict {
	b := openBehind(w, 3)
	one, two, c, d := b.start("A"), b.start("B"), b.start("C"), b.start("D")
	_, _ = one.buys(), two.buys()
	c.killedAt(c.writesAlone, halfway(w.Subject))
	return b.takenOverBy(d)
}, had(hasOrder, "A", "B"))

// halfway returns a Match for the statement that a consumer sends halfway through its work on two
// orders.
func halfway(c lab.Subject) lab.Match {
	written := c.Name == luaStream // it takes the units before it writes both orders in one statement
	return func(cmd fault.Command) bool {
		if !writesOrder(cmd) {
			return false
		}
		half := written
		written = true
		return half
	}
}

var databaseReplyLost = lab.Try("database-reply-lost", nil, func(w *lab.World) lab.Verdict {
	b := openBehind(w, 2)
	a := b.start("A")
	if !streams(w.Subject) {
		a.LoseReply(writesOrder)
		_ = a.buys()
		return b.verdict()
	}
	d := b.start("D")
	if w.Subject.Name == luaStream {
		d.LoseReply(commitOf("INSERT INTO `oversell_orders`"))
	} else {
		d.LoseReply(writesOrder)
	}
	_ = a.buys()
	return b.takenOverBy(d)
}, had(wasTold, "A"))

var twoConsumers = lab.Try("two-consumers-at-once", lacksConsumer, func(w *lab.World) lab.Verdict {
	b := openBehind(w, 2)
	a, c, d := b.start("A"), b.start("C"), b.start("D")
	_ = a.buys()
	stop := c.Park(beginsToWrite)
	c.mustPark(stop, c.writes())
	d.writes()
	w.Sleep(3 * b.claimAfter())
	stop.Release()
	w.Sleep(b.claimAfter())
	return b.verdict()
}, had(hasOrder, "A"))

var redisLosesAccepted = lab.Try("redis-loses-accepted-orders", lacksConsumer, func(w *lab.World) lab.Verdict {
	b := openBehind(w, 2)
	one, two, c, d := b.start("A"), b.start("B"), b.start("C"), b.start("D")
	_ = one.buys()
	stop := c.Park(beginsToWrite)
	c.mustPark(stop, c.writes())
	w.LoseKeys("Redis loses everything about the item")
	if w.Subject.Name != luaStream {
		d.repairs() // package stock recounts on the next request
	}
	_ = two.buys()
	d.writes()
	w.Sleep(2 * b.claimAfter())
	if w.Subject.Name == luaStream {
		b.ask() // package naive does not know the state of an order
	}
	stop.Release()
	w.Sleep(b.claimAfter())
	return b.verdict()
}, had(hasOrder, "A", "B"))

// writesAlone writes accepted orders until the process is killed.
func (p *writer) writesAlone() error {
	p.w.Sleep(tick)
	p.consume(p.Life(), p.name)
	return nil
}

// takenOverBy starts a consumer that takes over the orders that another consumer has left, and
// returns the verdict.
func (b *behind) takenOverBy(d *writer) lab.Verdict {
	d.writes()
	b.w.Sleep(3 * b.claimAfter())
	return b.verdict()
}
