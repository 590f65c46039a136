package payment

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// entries returns a ledger in which a payment reaches these statuses one after the other.
func entries(payment string, statuses ...Status) []Entry {
	var all []Entry
	for _, s := range statuses {
		all = append(all, Entry{PaymentID: payment, Reference: "of-" + payment, Status: s})
	}
	return all
}

// The audit reports every capture that has neither exactly one order nor exactly one refund.
func TestAuditFindsEachWayToLoseMoney(t *testing.T) {
	for name, c := range map[string]struct {
		ledger  []Entry
		orders  int
		charged int
		given   int // number of orders that were not charged
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
			if wrong := c.charged+c.given > 0; wrong != (len(got.Wrong) == 1) || wrong &&
				(got.Wrong[0].PaymentID != "p" || got.Wrong[0].Orders != c.orders) {
				t.Errorf("the wrong payments are %+v", got.Wrong)
			}
		})
	}
}

// The audit reports orders that were paid with the wrong amount or currency.
func TestAuditFindsOrdersOfAWrongAmount(t *testing.T) {
	ledger := func(amount int64, currency string, statuses ...Status) []Entry {
		all := entries("p", statuses...)
		for i := range all {
			all[i].Amount, all[i].Currency = amount, currency
		}
		return all
	}
	due := map[string]Money{"p": {2000, "EUR"}}
	for name, c := range map[string]struct {
		ledger []Entry
		orders int
		due    map[string]Money
		wrong  int
	}{
		"the right amount":        {ledger(2000, "EUR", Authorised, Captured), 1, due, 0},
		"a cent":                  {ledger(1, "EUR", Authorised, Captured), 1, due, 1},
		"too much":                {ledger(2001, "EUR", Authorised, Captured), 1, due, 1},
		"another currency":        {ledger(2000, "JPY", Authorised, Captured), 1, due, 1},
		"a cent that is refunded": {ledger(1, "EUR", Authorised, Captured, Refunded), 0, due, 0},
		"nothing known of it":     {ledger(1, "EUR", Authorised, Captured), 1, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			got := AuditAmounts(c.ledger, map[string]int{"p": c.orders}, c.due)
			if got.OrdersWithWrongAmount != c.wrong || len(got.Wrong) != c.wrong || got.ChargedWithoutOrder != 0 {
				t.Errorf("got %+v, want %d orders of a wrong amount", got, c.wrong)
			}
		})
	}
}

func TestAuditCountsWhatPaymentsReached(t *testing.T) {
	got := Audit(slices.Concat(
		entries("a", Authorised, Captured, Refunded), entries("b", Authorised, Cancelled), entries("c", Declined),
		entries("d", Authorised, Captured),
	), map[string]int{"d": 1})
	if got.Authorised != 3 || got.Captured != 2 || got.Refunded != 1 || got.Cancelled != 1 || got.Declined != 1 ||
		got.Wrong != nil {
		t.Errorf("got %+v", got)
	}
}

// The ledger entries of one group can be read, unless there are too many.
func TestGroupHasItsEntries(t *testing.T) {
	s := newServer(Config{})
	c := clientOf(t, s)
	ask := func(key, group string) Payment {
		r := request(key)
		r.Group = group
		return expect(t, c, authorise(r), Authorised, nil)
	}
	p := ask("a", "sale-1")
	ask("b", "sale-2")
	ask("c", "")
	expect(t, c, capture(p.ID, "d"), Captured, nil)
	for _, most := range []int{2, 1} {
		entries, number := s.Group("sale-1", most)
		if number != 2 || most == 1 && entries != nil || most == 2 &&
			(len(entries) != 2 || entries[0].Status != Authorised || entries[1].Status != Captured ||
				entries[1].PaymentID != p.ID) {
			t.Errorf("at most %d: %d, %+v", most, number, entries)
		}
	}
	if entries, number := s.Group("", 9); number != 0 || entries != nil {
		t.Errorf("payments without a group: %d, %+v", number, entries)
	}
	for _, group := range []string{"two words", strings.Repeat("x", maxReference+1)} {
		r := request("e")
		r.Group = group
		expect(t, c, authorise(r), "", ErrInvalid)
	}
	r := request("a")
	r.Group = "sale-2"
	expect(t, c, authorise(r), "", ErrKeyReused)
}

// A provider that is restarted on its journal still knows the groups of its payments.
func TestGroupsAreInTheJournal(t *testing.T) {
	name := filepath.Join(t.TempDir(), "ledger")
	r := request("a")
	r.Group = "sale-1"
	j := open(t, name)
	expect(t, clientOf(t, newServer(Config{Journal: j})), authorise(r), Authorised, nil)
	must(t, j.Close())
	if entries, number := newServer(Config{Journal: open(t, name)}).Group("sale-1", 1); number != 1 ||
		len(entries) != 1 || entries[0].Status != Authorised {
		t.Errorf("%d, %+v", number, entries)
	}
}
