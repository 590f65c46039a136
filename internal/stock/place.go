package stock

import (
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"
	"gorm.io/gorm"
)

// Keeper is who keeps the stock of a sale.
type Keeper string

// The keepers. Orders are always in the database.
const (
	InRedis    Keeper = "redis"
	InDatabase Keeper = "database"
)

func (k Keeper) check() error {
	if k != InRedis && k != InDatabase {
		return fmt.Errorf("%w: stock is kept in %q, and must be in %s or %s", ErrInvalid, k, InRedis, InDatabase)
	}
	return nil
}

// Place is where the stock of one sale is kept.
type Place struct {
	Key         string // in Redis; "": in the database, where the item is
	SKU, SaleID string
	Generation  string // of the stock
}

// Keepers are the backends of a Guard that can work with either. The zero value
// of one that is not needed will do.
type Keepers struct {
	Redis    redis.UniversalClient
	DB       *gorm.DB
	Unfenced bool // the stock does not look at fencing tokens

	// Strategy is whose tokens are compared with each other.
	Strategy string
}

// ErrPlace means that a strategy cannot work with the stock where it is kept.
var ErrPlace = errors.New("the stock is not where this strategy needs it")

func inRedis(at Place) error {
	if at.Key == "" {
		return fmt.Errorf("%w: it takes from Redis, and the item's stock is in the database; put the item on sale with keeper %s", ErrPlace, InRedis)
	}
	return nil
}

func inDatabase(at Place) error {
	if at.Key != "" {
		return fmt.Errorf("%w: it takes from the database, and the item's stock is in Redis; put the item on sale with keeper %s", ErrPlace, InDatabase)
	}
	return nil
}
