//go:build !js

package anomalies

import (
	"slices"
	"strings"

	"oversell/internal/fault"
	"oversell/internal/lab"
)

var repairInFlight = tryBehind("repair-with-units-in-flight", lacksRepair, 1, func(b *behind) {
	one, other, c := b.start("A"), b.start("B"), b.start("C")
	stop, bought := b.inFlight(one)
	c.repairs()
	_ = other.buys()
	stop.Release()
	b.w.Must(bought, "the end of A")
}, did(wasTold, "A", "B", "C"))

var repairAfterCrash = tryBehind("repair-after-a-crash", lacksRepair, 2, func(b *behind) {
	a, other, c := b.start("A"), b.start("B"), b.start("C")
	if streams(b.w.Subject) {
		stop := lab.NewPause()
		a.Inject(accepts, 1, "is killed before the reply arrives", stop.After)
		a.killedIn(a.buys, stop)
	} else {
		a.killedAt(a.buys, writesOrder)
	}
	c.repairs()
	_ = other.buys()
}, did(wasTold, "A", "C"), did(hasOrder, "B"))

func accepts(cmd fault.Command) bool {
	return cmd.Script() && slices.ContainsFunc(cmd.Args[2:],
		func(arg string) bool { return strings.HasSuffix(arg, ":stream") })
}

var absoluteSave = tryBehind("absolute-save", func(c lab.Subject) string {
	if lacksRepair(c) != "" {
		return "it would save as " + overwrite + " does"
	}
	return ""
}, 2, func(b *behind) {
	a, other, c := b.start("A"), b.start("B"), b.start("C")
	save := c.opensForm()
	_ = a.buys()
	b.units++
	c.saves(save)
	_ = other.buys()
}, did(hasOrder, "A"), did(wasTold, "C"))

// opensForm opens the admin's form, which reads the number of units left.
func (p *writer) opensForm() (save func() error) {
	p.w.Sleep(tick)
	save, err := p.form(p.w.Context())
	lab.Need(err == nil, "the form could not be opened: %v", err)
	p.w.Note(p.Name, "opens the form with the stock")
	return save
}

// saves saves the form with one more unit.
func (p *writer) saves(save func() error) {
	p.w.Sleep(tick)
	p.w.Note(p.Name, "saves one more unit")
	p.say(wasTold, save(), "has saved it")
}

var stockKeyEvicted = lab.Try("stock-key-evicted", nil, func(w *lab.World) lab.Verdict {
	b := openBehind(w, 2)
	a, other, c := b.start("A"), b.start("B"), b.start("C")
	if streams(w.Subject) {
		b.start("D").writes()
	}
	_ = a.buys()
	w.Sleep(2 * b.claimAfter())
	key := "oversell:{" + b.item.SKU + "}:stock:" + b.item.SaleID + ":" + b.item.Generation
	if n, ok := b.audit.(naiveSeller); ok {
		key = n.Keys()[0]
	}
	b.evict(key)
	told := other.buys()
	if !soldOut(told) {
		return b.verdict()
	}
	v := w.Broke("B", "B is told that the item is sold out, but one unit is left")
	c.repairs()
	lab.Need(other.buys() == nil, "the repair did not help")
	return v
}, did(hasOrder, "A", "B"))

func lacksRepair(c lab.Subject) string {
	if _, ok := naively[c.Name]; ok && c.Name != overwrite {
		return "its repair would be that of " + overwrite
	}
	return ""
}

// inFlight lets A buy a unit, and delays the write of the order. If orders are written
// asynchronously, process D writes the order, and A gets its answer at once.
func (b *behind) inFlight(a *writer) (stop *lab.Pause, bought <-chan struct{}) {
	if !streams(b.w.Subject) {
		stop = a.Park(writesOrder)
		bought = a.begin(a.buys)
		a.mustPark(stop, bought)
		return stop, bought
	}
	done := make(chan struct{})
	close(done)
	d := b.start("D")
	_ = a.buys()
	stop = d.Park(beginsToWrite)
	d.mustPark(stop, d.writes())
	return stop, done
}

func writesOrder(cmd fault.Command) bool {
	return strings.HasPrefix(lab.SQL(cmd), "INSERT INTO `oversell_orders`")
}

// beginsToWrite matches the first statement of a consumer's write. In SQLite a transaction locks
// the database for writing when it begins.
func beginsToWrite(cmd fault.Command) bool {
	return lab.SQL(cmd) == fault.Begin || writesOrder(cmd)
}
