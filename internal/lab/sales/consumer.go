package sales

import "oversell/internal/lab"

func consumerScenarios() []lab.Scenario {
	return []lab.Scenario{databaseReplyLost()}
}

func databaseReplyLost() lab.Scenario {
	return lab.Scenario{
		Anomaly: lab.Anomaly{
			Name:     "database-reply-lost",
			Sentence: "The database has written an order, and its reply is lost. Who takes that for a failure gives the unit back, or writes the order again.",
			Sequence: "Two units. A buys one. The order is written, and the connection to the database breaks before the reply arrives; if orders are written behind the sale, it is that of D, which writes them.",
			Source:   "vitessio/vitess#2085: a write is repeated after a lost connection, and nobody knows whether it was done",
		},
		Breaks:   lab.Only(overwrite),
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
			d.writes()
			w.Sleep(3 * b.claimAfter())
			return b.verdict()
		},
	}
}
