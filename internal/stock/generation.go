package stock

import (
	"strings"

	"github.com/google/uuid"
)

// generation names one stock of one sale in Redis. The item's row in the database
// says which generation is current, and an order is written only while the
// generation that its units were taken from still is.
//
// A stock that Redis has lost is rebuilt from the orders in the database, as a new
// generation. An order that was on its way at that moment can no longer be
// written, and so its unit cannot be sold twice.
type generation struct {
	saleID string
	id     string // unique among all generations of all items
	family string // of the strategies at work, "" before the first of them
}

func newGeneration(saleID, family string) generation {
	return generation{saleID, uuid.NewString(), family}
}

// generation is the one that the item's row says is current.
func (i Item) generation() generation { return generation{i.SaleID, i.Generation, i.Family} }

// String is what the sale's key in Redis holds. The generation's id alone would
// do; the rest saves a look at the database.
func (g generation) String() string { return g.saleID + ":" + g.id + ":" + g.family }

// sameStock reports whether g and other are one generation, whoever is at work.
func (g generation) sameStock(other generation) bool {
	return g.saleID == other.saleID && g.id == other.id
}

// parseGeneration reads what String returned. What it cannot read, such as the
// key of an earlier version of the shop, is not current at any item.
func parseGeneration(text string) generation {
	parts := strings.SplitN(text, ":", 3)
	if len(parts) < 3 {
		return generation{}
	}
	return generation{parts[0], parts[1], parts[2]}
}
