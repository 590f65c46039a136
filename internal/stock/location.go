package stock

import (
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"
	"gorm.io/gorm"
)

// Backend is where the stock of a sale is: in Redis or in the database.
type Backend string

// The stock backends. Orders are always in the database.
const (
	InRedis    Backend = "redis"
	InDatabase Backend = "database"
)

func (b Backend) check() error {
	if b != InRedis && b != InDatabase {
		return fmt.Errorf("%w: stock is kept in %q, and must be in %s or %s", ErrInvalid, b, InRedis, InDatabase)
	}
	return nil
}

// Location is where the stock of one sale is.
type Location struct {
	Key         string // of the stock in Redis; "": it is in the database
	SKU, SaleID string
	Generation  string // of the stock
}

// Backends are those of an Isolation that can work with either. One that is not used may
// be nil.
type Backends struct {
	Redis    redis.UniversalClient
	DB       *gorm.DB
	Unfenced bool   // the stock does not check fencing tokens
	Strategy string // only tokens of the same strategy are compared
}

// ErrLocation means that a strategy cannot work with the stock where it is kept.
var ErrLocation = errors.New("the stock is not where this strategy needs it")

func inRedis(at Location) error {
	if at.Key == "" {
		return fmt.Errorf("%w: it needs the stock in Redis, and the item's is in the database; put the item on sale with keeper %s", ErrLocation, InRedis)
	}
	return nil
}

func inDatabase(at Location) error {
	if at.Key != "" {
		return fmt.Errorf("%w: it needs the stock in the database, and the item's is in Redis; put the item on sale with keeper %s", ErrLocation, InDatabase)
	}
	return nil
}
