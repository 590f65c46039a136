package stock

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
	"gorm.io/gorm"
)

// Backend is who keeps the stock of a sale.
type Backend string

// The stock backends. Orders are always in the database.
const (
	InRedis    Backend = "redis"
	InDatabase Backend = "database"
	// InHolds is the stock of a sale by holds, see package holds. It is in the item's row
	// or where the stage of the sale keeps it. No strategy of a Service can deduct from it.
	InHolds Backend = "holds"
)

// Holds is what a Service asks about items that are sold by holds. Package holds has it.
type Holds interface {
	// Units counts the units of the item's current sale that are not sold: those that can
	// be held, and those in holds, also if their units are not given back yet.
	Units(ctx context.Context, item Item) (left, held int64, err error)
	// PaymentAlarms counts the payments for the item that need somebody to look at them.
	PaymentAlarms(ctx context.Context, sku string) (int64, error)
	// Forget removes the item's holds, in a transaction that has locked the item's row. It
	// returns ErrHoldsOpen while one of them can still be paid.
	Forget(tx *gorm.DB, item Item) error
}

// noHolds is the Holds of a Service without holds.
type noHolds struct{}

func (noHolds) Units(_ context.Context, item Item) (left, held int64, err error) {
	return item.Remaining, 0, nil
}
func (noHolds) PaymentAlarms(context.Context, string) (int64, error) { return 0, nil }
func (noHolds) Forget(*gorm.DB, Item) error                          { return nil }

// inRedis reports whether the stock is a number in Redis.
func (b Backend) inRedis() bool { return b != InDatabase && b != InHolds }

func (b Backend) check() error {
	if b != InRedis && b != InDatabase && b != InHolds {
		return fmt.Errorf("%w: stock is kept in %q, and must be in %s, %s or %s", ErrInvalid, b, InRedis, InDatabase, InHolds)
	}
	return nil
}

// Location is where the stock of one sale is.
type Location struct {
	Key         string // of the stock in Redis; "": it is in the database
	SKU, SaleID string
	Generation  string // of the stock
}

// Backends are those of a Guard that can work with either. One that is not used may
// be nil.
type Backends struct {
	Redis    redis.UniversalClient
	DB       *gorm.DB
	Unfenced bool   // the stock does not check fencing tokens
	Strategy string // only tokens of the same strategy are compared
}

// ErrLocation means that a strategy cannot work with the stock where it is kept.
var ErrLocation = errors.New("the stock is not where this strategy needs it")

// ErrNoRepair means that an item is sold by holds, so that there is nothing to repair.
var ErrNoRepair = errors.New("repair is for stock in Redis or in the database; the sweep returns the units of holds that have expired")

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
	limit  int64  // most units that one buyer may have in the sale; 0: no limit
}

// generation is the item's current generation.
func (i Item) generation() generation { return generation{i.SaleID, i.Generation, i.Family, i.Limit} }

// String is the value of the sale's key in Redis. The id alone would be enough; the rest
// saves reading the database.
func (g generation) String() string {
	text := g.saleID + ":" + g.id + ":" + g.family
	if g.limit > 0 {
		text += ":" + strconv.FormatInt(g.limit, 10)
	}
	return text
}

// sameStock reports whether g and other are one generation, perhaps with another family.
func (g generation) sameStock(other generation) bool {
	return g.saleID == other.saleID && g.id == other.id
}

// parseGeneration parses a result of String. For anything else, such as the value of an
// earlier version of the shop, it returns the zero generation, which is never current.
func parseGeneration(text string) generation {
	parts := strings.SplitN(text, ":", 4)
	if len(parts) < 3 {
		return generation{}
	}
	g := generation{saleID: parts[0], id: parts[1], family: parts[2]}
	if len(parts) == 4 {
		limit, err := strconv.ParseInt(parts[3], 10, 64)
		if err != nil || limit < 1 {
			return generation{}
		}
		g.limit = limit
	}
	return g
}
