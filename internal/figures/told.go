package figures

import (
	"maps"
	"slices"
)

// Answer is a reply that confirms an order.
type Answer struct {
	Order    string // id in the reply; "": none
	Quantity int64  // units in the reply
	Asked    int64  // units that the buyer asked for
	Key      string // the buyer's idempotency key, in the form of the orders; "": none
	Accepted bool   // the reply said that the order was accepted, not yet written: it could still be lost
}

// Written is an order in the database.
type Written struct {
	Order    string
	Quantity int64
	Key      string // "": none
}

// Told is the result of comparing the replies of a sale with its orders. All figures are 0
// if the shop tells the truth.
type Told struct {
	// AcknowledgedMissing is the number of replies that do not match an order in the database: the
	// order does not exist, or it has another quantity or idempotency key, or it belongs to another
	// buyer.
	AcknowledgedMissing int64
	// Unreported is the number of orders that no buyer was told of, not counting those of buyers who
	// were cut off.
	Unreported int64
	// AcceptedLost is the number of orders that were reported to buyers as accepted but are not in the
	// database.
	AcceptedLost int64
	// Duplicates is the number of orders beyond the first for one idempotency key.
	Duplicates int64
}

// Any reports whether any figure is not 0.
func (t Told) Any() bool { return t != Told{} }

// Comparison compares the replies of a sale with its orders. Add all replies and all buyers
// who were cut off first, then each order once. The zero Comparison is ready for use.
type Comparison struct {
	told  map[string][]Answer // by the order's id
	cut   map[string]int64    // buyers who were cut off, by their keys
	keys  map[string]bool     // of the orders
	found Told

	untrue, doubled []string // ids of a few orders that do not match, and of a few duplicates
}

// Answer adds a reply. Several replies may name the same order if all have its idempotency key,
// because a buyer may retry.
func (c *Comparison) Answer(a Answer) {
	if a.Order == "" {
		c.found.AcknowledgedMissing++
		return
	}
	if c.told == nil {
		c.told = make(map[string][]Answer)
	}
	c.told[a.Order] = append(c.told[a.Order], a)
}

// CutOff adds a buyer who does not know the outcome, and who may have an order.
func (c *Comparison) CutOff(key string) {
	if c.cut == nil {
		c.cut = make(map[string]int64)
	}
	c.cut[key]++
}

// Order adds an order.
func (c *Comparison) Order(o Written) {
	if c.keys == nil {
		c.keys = make(map[string]bool)
	}
	if o.Key != "" && c.keys[o.Key] {
		c.found.Duplicates++
		few(&c.doubled, o.Order)
	}
	c.keys[o.Key] = true
	told, found := c.told[o.Order]
	switch {
	case found:
		delete(c.told, o.Order)
		if n := untrue(told, o); n > 0 {
			c.found.AcknowledgedMissing += n
			few(&c.untrue, o.Order)
		}
	case c.cut[o.Key] > 0:
		c.cut[o.Key]--
	default:
		c.found.Unreported++
	}
}

// untrue returns the number of replies that do not match the order, or do not say what the buyer
// asked for. An order without a key matches only one reply.
func untrue(told []Answer, o Written) (n int64) {
	matched := false
	for _, a := range told {
		matches := a.Key == o.Key && a.Quantity == o.Quantity && a.Quantity == a.Asked
		if !matches || matched && o.Key == "" {
			n++
		}
		matched = matched || matches
	}
	return n
}

// Told returns the result. Call it after everything was added.
func (c *Comparison) Told() Told {
	found := c.found
	for _, told := range c.told {
		durable := int64(0) // replies that said that the order is in the database
		for _, a := range told {
			if !a.Accepted {
				durable++
			}
		}
		found.AcknowledgedMissing += durable
		if durable == 0 {
			found.AcceptedLost++
		}
	}
	return found
}

// maxNamed is the maximum number of orders of each kind that Named returns.
const maxNamed = 10

func few(ids *[]string, id string) {
	if len(*ids) < maxNamed {
		*ids = append(*ids, id)
	}
}

// Named returns the ids of a few orders that are acknowledged and missing, and of a few duplicates.
func (c *Comparison) Named() (missing, duplicates []string) {
	missing = slices.Clone(c.untrue)
	for _, id := range slices.Sorted(maps.Keys(c.told)) {
		if slices.ContainsFunc(c.told[id], func(a Answer) bool { return !a.Accepted }) {
			few(&missing, id)
		}
	}
	return missing, c.doubled
}
