// Package sales is the catalogue of what can go wrong with a sale: with Holds, and with
// repairs and orders that are written behind the sale (Behind). It is to the stages of package
// holds, and to package stock, what package anomalies is to locks: each file is a family of
// anomalies, and each anomaly is a lab.Scenario that runs the real code, while statements to
// the database and commands to Redis are delayed or cut off from outside.
//
// The outcome is not what a stage returned. It is counted at the end: the orders in the
// database against the units that were there, and every captured payment against orders
// and refunds.
package sales

import (
	"slices"

	"oversell/internal/holds"
	h1 "oversell/internal/holds/h1_counter"
	h2 "oversell/internal/holds/h2_status"
	h3 "oversell/internal/holds/h3_claim"
	"oversell/internal/lab"
)

// Holds returns the table of holds. Pools are in it if they are named.
func Holds() lab.Table {
	all := slices.Concat(paymentScenarios(), releaseScenarios(), takeScenarios(), clockScenarios())
	for i := range all {
		all[i].NotApplicable = aboutHolds(all[i])
	}
	return lab.Table{Scenarios: all, Subjects: holders(), Others: pools()}
}

// Behind returns the table of repairs, and of orders that are written behind the sale.
func Behind() lab.Table {
	return lab.Table{Scenarios: slices.Concat(repairScenarios(), consumerScenarios()), Subjects: writers()}
}

func holders() []lab.Subject {
	return []lab.Subject{
		{Name: h1.Name, About: "a counter in Redis, and a hold with a ttl", Database: openDatabase},
		{Name: h2.Name, About: "a row with a status that is read, and then written", Database: openDatabase},
		{Name: h3.Name, About: "one conditional UPDATE, in a transaction with the order and the stock", Database: openDatabase},
	}
}

// stages makes a stage on its backends, by subject.
var stages = map[string]func(holds.Backends) holds.Stage{
	h1.Name: func(b holds.Backends) holds.Stage { return h1.New(b) },
	h2.Name: func(b holds.Backends) holds.Stage { return h2.New(b) },
	h3.Name: func(b holds.Backends) holds.Stage { return h3.New(b) },
}
