package sales

import (
	"strings"

	"oversell/internal/lab"
	"oversell/internal/lab/sqlgate"
	"oversell/internal/lab/wire"
)

func repairScenarios() []lab.Scenario {
	return []lab.Scenario{repairInFlight()}
}

func repairInFlight() lab.Scenario {
	return lab.Scenario{
		Anomaly: lab.Anomaly{
			Name:     "repair-with-units-in-flight",
			Sentence: "A repair sets the counter to what the orders leave. A unit that is taken, and whose order is not written yet, is in no order: it goes on sale a second time.",
			Sequence: "One unit. A buys it, and the write of the order is delayed. C repairs the stock. B buys what there is. The write goes on.",
			Source:   "Starktail/woocommerce_fusion#170: a nightly job sets the stock to what it was, because the units that are sold are not delivered yet",
		},
		Breaks:        lab.Only(overwrite),
		NotApplicable: lacksRepair,
		Requires:      []lab.Claim{had(wasTold, "A", "B", "C")},
		Run: func(w *lab.World) lab.Verdict {
			b := openBehind(w, 1)
			one, other, c := b.start("A"), b.start("B"), b.start("C")
			stop, bought := b.inFlight(one)
			c.repairs()
			_ = other.buys()
			stop.Release()
			w.Must(bought, "the end of A")
			return b.verdict()
		},
	}
}

// lacksRepair is for questions about repairs.
func lacksRepair(c lab.Subject) string {
	if streams(c) && c.Name != luaStream {
		return "its repair would be that of " + overwrite
	}
	return ""
}

// inFlight has A buy a unit, and delays the write of the order. If orders are written behind
// the sale, D writes them, and A is told at once.
func (b *behind) inFlight(a *writer) (stop *lab.Pause, bought <-chan struct{}) {
	if !streams(b.w.Subject) {
		stop = a.ParkSQL(writesOrder)
		bought = a.begin(a.buys)
		a.mustPark(stop, bought)
		return stop, bought
	}
	done := make(chan struct{})
	close(done)
	d := b.start("D")
	_ = a.buys()
	stop = d.ParkSQL(beginsToWrite)
	d.mustPark(stop, d.writes())
	return stop, done
}

// writesOrder matches the statement that writes orders.
func writesOrder(cmd wire.Command) bool {
	return strings.HasPrefix(cmd.Args[1], "INSERT INTO `oversell_orders`")
}

// beginsToWrite matches what a consumer begins to write with. SQLite gives the lock for writing
// to whoever begins.
func beginsToWrite(cmd wire.Command) bool {
	return cmd.Args[1] == sqlgate.Begin || writesOrder(cmd)
}
