package chaos

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"oversell/internal/bench/report"
)

// What buyers were told and what is in the database are compared by the ids of orders.
func TestCompare(t *testing.T) {
	type told map[string]string // order by key; "": the reply was cut off, "-": refused
	row := func(id, key string) Order { return Order{ID: id, SaleID: "s", IdempotencyKey: key, Quantity: 1} }
	for name, tt := range map[string]struct {
		told      told
		rows      []Order
		units     int64
		remaining int64
		want      report.Chaos
	}{
		"all is well": {told{"a": "1", "b": "2"}, []Order{row("1", "a"), row("2", "b")}, 2, 0,
			report.Chaos{Acknowledged: 2, Sold: 2}},
		"an order is missing": {told{"a": "1", "b": "2"}, []Order{row("1", "a")}, 2, 0,
			report.Chaos{Acknowledged: 2, Sold: 1, Missing: 1, Stranded: 1}},
		"an order of another buyer": {told{"a": "1", "b": "1"}, []Order{row("1", "a")}, 1, 0,
			report.Chaos{Acknowledged: 2, Sold: 1, Missing: 1}},
		"a key bought twice": {told{"a": "1"}, []Order{row("1", "a"), row("2", "a")}, 2, 0,
			report.Chaos{Acknowledged: 1, Sold: 2, Duplicates: 1, Unreported: 1}},
		"a buyer was told nothing": {told{"a": ""}, []Order{row("1", "a")}, 1, 0, report.Chaos{Sold: 1}},
		"a buyer was refused": {told{"a": "-"}, []Order{row("1", "a")}, 1, 0,
			report.Chaos{Sold: 1, Unreported: 1}},
		"an order of no buyer": {told{}, []Order{row("1", "x")}, 1, 0, report.Chaos{Sold: 1, Unreported: 1}},
		"more than there was": {told{"a": "1", "b": "2"}, []Order{row("1", "a"), row("2", "b")}, 1, 0,
			report.Chaos{Acknowledged: 2, Sold: 2, Oversold: 1}},
		"units are stranded": {told{"a": "1"}, []Order{row("1", "a")}, 5, 1,
			report.Chaos{Acknowledged: 1, Sold: 1, Remaining: 1, Stranded: 3}},
		"an order of another sale": {told{}, []Order{{ID: "1", SaleID: "old", Quantity: 2}}, 1, 1,
			report.Chaos{Foreign: 2, Remaining: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSales()
			for key, order := range tt.told {
				switch order {
				case "":
					s.cutOff(key)
				case "-":
				default:
					s.acknowledge(key, order, time.Now())
				}
			}
			got := report.Chaos{Remaining: tt.remaining}
			compare(tt.rows, "s", tt.units, s, &got)
			got.MissingIDs, got.DuplicateIDs = nil, nil
			if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", tt.want) {
				t.Errorf("got  %+v\nwant %+v", got, tt.want)
			}
		})
	}
}

func TestFewOrdersAreNamed(t *testing.T) {
	s, r := newSales(), report.Chaos{}
	for i := range 100 {
		s.acknowledge(fmt.Sprint(i), fmt.Sprintf("order-%d", i), time.Now())
	}
	compare(nil, "s", 100, s, &r)
	if r.Missing != 100 || len(r.MissingIDs) != sample || slices.Contains(r.MissingIDs, "") {
		t.Errorf("%d are missing, of which are named: %q", r.Missing, r.MissingIDs)
	}
}

// Only an order that was made after the fault says that the item is sold again.
func TestNextIsAnOrderThatWasMadeLater(t *testing.T) {
	s := newSales()
	from := time.Now()
	again := s.next(from)
	s.acknowledge("a", "1", from.Add(-time.Second))
	select {
	case <-again:
		t.Fatal("an order of before counts")
	default:
	}
	s.acknowledge("b", "2", from.Add(time.Millisecond))
	s.acknowledge("c", "3", from.Add(time.Second)) // nobody waits any more
	select {
	case <-again:
	default:
		t.Fatal("an order of after does not count")
	}
}
