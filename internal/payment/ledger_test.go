package payment

import (
	"slices"
	"testing"
)

// entries is a ledger in which the payments reach the statuses one after the other.
func entries(payment string, statuses ...Status) []Entry {
	var all []Entry
	for _, s := range statuses {
		all = append(all, Entry{PaymentID: payment, Reference: "of-" + payment, Status: s})
	}
	return all
}

// Each capture must end in exactly one order or exactly one refund.
func TestAuditFindsEachWayToLoseMoney(t *testing.T) {
	for name, c := range map[string]struct {
		ledger  []Entry
		orders  int
		charged int
		given   int // orders without a charge
	}{
		"bought":                       {entries("p", Authorised, Captured), 1, 0, 0},
		"paid too late and refunded":   {entries("p", Authorised, Captured, Refunded), 0, 0, 0},
		"given up":                     {entries("p", Authorised, Cancelled), 0, 0, 0},
		"declined":                     {entries("p", Declined), 0, 0, 0},
		"only authorised":              {entries("p", Authorised), 0, 0, 0},
		"paid for nothing":             {entries("p", Authorised, Captured), 0, 1, 0},
		"one payment, two orders":      {entries("p", Authorised, Captured), 2, 1, 0},
		"goods and money":              {entries("p", Authorised, Captured, Refunded), 1, 1, 0},
		"refunded twice":               {entries("p", Authorised, Captured, Refunded, Refunded), 0, 1, 0},
		"captured twice, one order":    {entries("p", Authorised, Captured, Captured), 1, 1, 0},
		"captured twice for nothing":   {entries("p", Authorised, Captured, Captured), 0, 2, 0},
		"captured twice, one refunded": {entries("p", Authorised, Captured, Captured, Refunded), 1, 0, 0},
		"goods for nothing":            {entries("p", Authorised), 1, 0, 1},
		"goods after it was given up":  {entries("p", Authorised, Cancelled), 1, 0, 1},
		"goods for an unknown payment": {nil, 1, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			ledger := slices.Concat(entries("fine", Authorised, Captured), c.ledger)
			orders := map[string]int{"fine": 1}
			if c.orders > 0 {
				orders["p"] = c.orders
			}
			got := Audit(ledger, orders)
			if got.ChargedWithoutOrder != c.charged || got.OrdersWithoutCharge != c.given {
				t.Errorf("got %+v", got)
			}
			if wrong := c.charged+c.given > 0; wrong != (len(got.Wrong) == 1) || wrong && (got.Wrong[0].PaymentID != "p" || got.Wrong[0].Orders != c.orders) {
				t.Errorf("the wrong payments are %+v", got.Wrong)
			}
		})
	}
}

func TestAuditCountsWhatPaymentsReached(t *testing.T) {
	got := Audit(slices.Concat(
		entries("a", Authorised, Captured, Refunded), entries("b", Authorised, Cancelled), entries("c", Declined), entries("d", Authorised, Captured),
	), map[string]int{"d": 1})
	if got.Authorised != 3 || got.Captured != 2 || got.Refunded != 1 || got.Cancelled != 1 || got.Declined != 1 || got.Wrong != nil {
		t.Errorf("got %+v", got)
	}
}
