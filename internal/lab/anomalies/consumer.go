//go:build !js

package anomalies

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

var diesAfterReading = tryBehind("consumer-dies-after-reading", lacksConsumer, 1, func(b *behind) {
	a, c, d := b.start("A"), b.start("C"), b.start("D")
	_ = a.buys()
	c.killedAt(c.writesAlone, beginsToWrite)
	d.takesOver()
}, did(hasOrder, "A"))

var diesBeforeAcknowledging = tryBehind("consumer-dies-before-acknowledging", func(c lab.Subject) string {
	if c.Name == ackFirst {
		return "it acknowledges before it writes"
	}
	return lacksConsumer(c)
}, 2, func(b *behind) {
	a, c, d := b.start("A"), b.start("C"), b.start("D")
	_ = a.buys()
	c.killedAt(c.writesAlone, func(cmd fault.Command) bool { return cmd.Is("XACK") || cmd.Script() })
	lab.Need(b.sold() == 1, "the order is not written")
	d.takesOver()
}, did(hasOrder, "A"))

var diesBetweenTwoOrders = tryBehind("consumer-dies-between-two-orders", lacksConsumer, 3, func(b *behind) {
	one, two, c, d := b.start("A"), b.start("B"), b.start("C"), b.start("D")
	_, _ = one.buys(), two.buys()
	halfway := second(writesOrder)
	if b.w.Subject.Name == luaStream {
		halfway = writesOrder // it takes the units before it writes both orders in one statement
	}
	c.killedAt(c.writesAlone, halfway)
	d.takesOver()
}, did(hasOrder, "A", "B"))

var databaseReplyLost = tryBehind("database-reply-lost", nil, 2, func(b *behind) {
	a := b.start("A")
	if !streams(b.w.Subject) {
		a.LoseReply(writesOrder)
		_ = a.buys()
		return
	}
	d := b.start("D")
	if b.w.Subject.Name == luaStream {
		d.LoseReply(commitOf("INSERT INTO `oversell_orders`"))
	} else {
		d.LoseReply(writesOrder)
	}
	_ = a.buys()
	d.takesOver()
}, did(wasTold, "A"))

var twoConsumers = tryBehind("two-consumers-at-once", lacksConsumer, 2, func(b *behind) {
	a, c, d := b.start("A"), b.start("C"), b.start("D")
	_ = a.buys()
	stop := c.Park(beginsToWrite)
	c.mustPark(stop, c.writes())
	d.writes()
	b.w.Sleep(3 * b.claimAfter())
	stop.Release()
	b.w.Sleep(b.claimAfter())
}, did(hasOrder, "A"))

var redisLosesAccepted = tryBehind("redis-loses-accepted-orders", lacksConsumer, 2, func(b *behind) {
	one, two, c, d := b.start("A"), b.start("B"), b.start("C"), b.start("D")
	_ = one.buys()
	stop := c.Park(beginsToWrite)
	c.mustPark(stop, c.writes())
	b.w.LoseKeys("Redis loses everything about the item")
	if b.w.Subject.Name != luaStream {
		d.repairs() // package stock recounts on the next request
	}
	_ = two.buys()
	d.writes()
	b.w.Sleep(2 * b.claimAfter())
	if b.w.Subject.Name == luaStream {
		b.ask() // package naive does not know the state of an order
	}
	stop.Release()
	b.w.Sleep(b.claimAfter())
}, did(hasOrder, "A", "B"))

// writesAlone writes accepted orders until the process is killed.
func (p *writer) writesAlone() error {
	p.w.Sleep(tick)
	p.consume(p.Life(), p.Name)
	return nil
}

// takesOver writes in the background, and waits until the orders that another consumer has left
// are taken over.
func (p *writer) takesOver() {
	p.writes()
	p.w.Sleep(3 * p.b.claimAfter())
}
