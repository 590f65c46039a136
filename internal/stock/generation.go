package stock

import (
	"strings"

	"github.com/google/uuid"
)

// generation identifies one stock of one sale in Redis. The item's row in the database
// has the current generation, and an order is written only while the generation that its
// units were taken from is current.
//
// A stock that Redis has lost is rebuilt from the orders in the database, as a new
// generation. An order that had not been written by then is refused, so its units cannot
// be sold twice.
type generation struct {
	saleID string
	id     string // unique among all generations of all items
	family string // of the strategies at work, "" before the first buyer
}

func newGeneration(saleID, family string) generation {
	return generation{saleID, uuid.NewString(), family}
}

// generation is the item's current generation.
func (i Item) generation() generation { return generation{i.SaleID, i.Generation, i.Family} }

// String is the value of the sale's key in Redis. The id alone would be enough; the rest
// saves reading the database.
func (g generation) String() string { return g.saleID + ":" + g.id + ":" + g.family }

// sameStock reports whether g and other are one generation, perhaps with another family.
func (g generation) sameStock(other generation) bool {
	return g.saleID == other.saleID && g.id == other.id
}

// parseGeneration parses a result of String. For anything else, such as the value of an
// earlier version of the shop, it returns the zero generation, which is never current.
func parseGeneration(text string) generation {
	parts := strings.SplitN(text, ":", 3)
	if len(parts) < 3 {
		return generation{}
	}
	return generation{parts[0], parts[1], parts[2]}
}
