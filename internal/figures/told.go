package figures

// Answer is a reply that says that an order was taken.
type Answer struct {
	Order    string // id that the reply names; "": none that can be read
	Quantity int64  // units that the reply names
	Asked    int64  // units that the buyer asked for
	Key      string // the buyer's idempotency key, in the form in which orders have it; "": none
}

// Written is an order in the database.
type Written struct {
	Order    string
	Quantity int64
	Key      string // "": none
}

// Told is what comes out when the replies of a sale are compared with its orders.
// All are 0 in a shop that tells the truth.
type Told struct {
	// AcknowledgedMissing is how many replies named an order that is not in the
	// database as it was told: not at all, with another quantity, with another
	// idempotency key, or as the order of another buyer.
	AcknowledgedMissing int64
	// Unreported is how many orders nobody was told of, other than those of
	// buyers who were cut off.
	Unreported int64
	// Duplicates is how many orders are beyond the first for one idempotency key.
	Duplicates int64
}

// Any reports whether anything was not as it was told.
func (t Told) Any() bool { return t != Told{} }

// Comparison compares the replies of a sale with its orders. First it is given all
// replies and all buyers who were cut off, then all orders, each once. The zero
// Comparison is ready for use.
type Comparison struct {
	told  map[string][]acknowledged // by the order's id
	cut   map[string]int64          // buyers who were cut off, by their keys
	keys  map[string]bool           // of the orders
	found Told
}

// acknowledged is an order as buyers with one key were told of it. Where that is not
// what they asked for it does not count as told.
type acknowledged struct {
	key      string
	quantity int64
	asked    int64
	replies  int64
}

// Answer adds a reply. Several replies may name one order where all have its
// idempotency key: a buyer has asked again.
func (c *Comparison) Answer(a Answer) {
	if a.Order == "" {
		c.found.AcknowledgedMissing++
		return
	}
	if c.told == nil {
		c.told = make(map[string][]acknowledged)
	}
	all := c.told[a.Order]
	for i, t := range all {
		if t.key == a.Key && t.quantity == a.Quantity && t.asked == a.Asked {
			all[i].replies++
			return
		}
	}
	c.told[a.Order] = append(all, acknowledged{a.Key, a.Quantity, a.Asked, 1})
}

// CutOff adds a buyer who does not know what became of the request. An order may be
// theirs.
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
	}
	c.keys[o.Key] = true
	told, found := c.told[o.Order]
	switch {
	case found:
		delete(c.told, o.Order)
		c.found.AcknowledgedMissing += untrue(told, o)
	case c.cut[o.Key] > 0:
		c.cut[o.Key]--
	default:
		c.found.Unreported++
	}
}

// untrue is how many replies named an order as what it is not. Without a key it is
// that of one buyer.
func untrue(told []acknowledged, o Written) (n int64) {
	for _, t := range told {
		n += t.replies
		switch {
		case t.key != o.Key || t.quantity != o.Quantity || t.quantity != t.asked:
		case o.Key == "":
			n--
		default:
			n -= t.replies
		}
	}
	return n
}

// Told is what came out, once all were added.
func (c *Comparison) Told() Told {
	found := c.found
	for _, told := range c.told {
		for _, t := range told {
			found.AcknowledgedMissing += t.replies
		}
	}
	return found
}
