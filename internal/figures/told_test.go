package figures

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestRepliesAreComparedWithOrders(t *testing.T) {
	// Each argument is an order's id, or an id and a key: "a" or "a/k".
	answers := func(of ...string) (all []Answer) {
		for _, one := range of {
			order, key, _ := strings.Cut(one, "/")
			all = append(all, Answer{Order: order, Quantity: 1, Asked: 1, Key: key})
		}
		return all
	}
	orders := func(of ...string) (all []Written) {
		for _, one := range of {
			order, key, _ := strings.Cut(one, "/")
			all = append(all, Written{Order: order, Quantity: 1, Key: key})
		}
		return all
	}
	accepted := Answer{Order: "a", Quantity: 1, Asked: 1, Key: "k", Accepted: true}
	two := []Answer{{Order: "a", Quantity: 2, Asked: 1}}
	missing := Told{AcknowledgedMissing: 1}
	for _, tt := range []struct {
		name    string
		answers []Answer
		cut     []string
		orders  []Written
		want    Told
	}{
		{"nobody bought", nil, nil, nil, Told{}},
		{"the truth", answers("a", "b"), nil, orders("b", "a"), Told{}},
		{"the truth about two with one key", answers("a/k", "a/k"), nil, orders("a/k"), Told{}},
		{"a reply and no order", answers("a", "b"), nil, orders("a"), missing},
		{"two replies of one key and no order", answers("a/k", "a/k"), nil, nil, Told{AcknowledgedMissing: 2}},
		{"a reply that names no order", answers(""), nil, orders("a"), Told{AcknowledgedMissing: 1, Unreported: 1}},
		{
			"an accepted order that was written",
			[]Answer{{Order: "a", Quantity: 1, Asked: 1, Accepted: true}}, nil, orders("a"), Told{},
		},
		{"an accepted order that was lost", []Answer{accepted, accepted}, nil, nil, Told{AcceptedLost: 1}},
		{"a lost order that a later reply called written", []Answer{accepted, answers("a/k")[0]}, nil, nil, missing},
		{"an order and no reply", answers("a"), nil, orders("a", "b"), Told{Unreported: 1}},
		{"an order of a buyer who was cut off", nil, []string{""}, orders("a"), Told{}},
		{"two orders, and one buyer was cut off", nil, []string{""}, orders("a", "b"), Told{Unreported: 1}},
		{"a buyer who was cut off bought nothing", nil, []string{"", "k"}, nil, Told{}},
		{"an order with the key of one who was cut off", nil, []string{"k"}, orders("a/k"), Told{}},
		{"an order, and a buyer with another key was cut off", nil, []string{"k"}, orders("a/l"), Told{Unreported: 1}},
		{"one order for two buyers without a key", answers("a", "a"), nil, orders("a"), missing},
		{"one order for two keys", answers("a/k", "a/l"), nil, orders("a/k"), missing},
		{"an order with another key than the buyer's", answers("a/k"), nil, orders("a/l"), missing},
		{"two orders with one key", answers("a/k", "b/k"), nil, orders("a/k", "b/k"), Told{Duplicates: 1}},
		{"another quantity than was asked for", two, nil, []Written{{Order: "a", Quantity: 2}}, missing},
		{"another quantity than was told", answers("a"), nil, []Written{{Order: "a", Quantity: 2}}, missing},
		{"another quantity in every place", two, nil, []Written{{Order: "a", Quantity: 3}}, missing},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var c Comparison
			for _, a := range tt.answers {
				c.Answer(a)
			}
			for _, key := range tt.cut {
				c.CutOff(key)
			}
			for _, o := range tt.orders {
				c.Order(o)
			}
			if got := c.Told(); got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

// The problem names only a few of the missing orders, and a few of the duplicates.
func TestFewOrdersAreNamed(t *testing.T) {
	var c Comparison
	for i := range 100 {
		c.Answer(Answer{Order: fmt.Sprintf("order-%02d", i), Quantity: 1, Asked: 1, Key: "k"})
	}
	c.Order(Written{"order-00", 1, "k"})
	c.Order(Written{"again", 1, "k"})
	missing, duplicates := c.Named()
	if len(missing) != maxNamed || missing[0] != "order-01" || !slices.Equal(duplicates, []string{"again"}) {
		t.Errorf("missing: %q, duplicates: %q", missing, duplicates)
	}
}
