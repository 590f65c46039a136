// Package naive is a flash sale with the mistakes that package stock does not make. It exists to be
// broken: the lab runs it beside the real one, and shows what each mistake costs. Do not copy it.
//
// The stock is a counter in Redis. An order is written by the request that has taken the unit
// (Buy), or it is accepted into a stream and written by a Consumer (Accept). Each mistake is marked
// WRONG.
package naive

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"gorm.io/gorm"

	"oversell/internal/stock"
)

// ErrSoldOut means that, according to the counter, no unit is left.
var ErrSoldOut = errors.New("sold out")

var (
	//go:embed take.lua
	takeSource string
	takeScript = redis.NewScript(takeSource)

	//go:embed accept.lua
	acceptSource string
	acceptScript = redis.NewScript(acceptSource)
)

// Sale is the sale of an item, as one process sees it.
type Sale struct {
	Redis    redis.Cmdable
	DB       *gorm.DB
	Item     stock.Item // has a row in the database
	Strategy string     // the name of the strategy in the orders
}

func (s Sale) left() string   { return "oversell:{" + s.Item.SKU + "}:naive:left" }
func (s Sale) stream() string { return "oversell:{" + s.Item.SKU + "}:naive:stream" }

// group is the consumer group of the stream.
const group = "writers"

// Keys returns the keys of the sale in Redis.
func (s Sale) Keys() []string { return []string{s.left(), s.stream()} }

// Open puts all units on sale.
func (s Sale) Open(ctx context.Context) error { return s.Save(ctx, s.Item.Initial) }

// Left reads the counter, to show it in an admin's form.
func (s Sale) Left(ctx context.Context) (int64, error) {
	left, err := s.Redis.Get(ctx, s.left()).Int64()
	if err != nil {
		return 0, fmt.Errorf("reading the stock of %s: %w", s.Item.SKU, err)
	}
	return left, nil
}

// Save sets the counter to the number that an admin has entered.
//
// WRONG: units that were sold since the admin read the counter go on sale a second time.
func (s Sale) Save(ctx context.Context, left int64) error {
	if err := s.Redis.Set(ctx, s.left(), left, 0).Err(); err != nil {
		return fmt.Errorf("setting the stock of %s: %w", s.Item.SKU, err)
	}
	return nil
}

// Buy takes one unit and writes the order. It returns ErrSoldOut if no unit is left.
func (s Sale) Buy(ctx context.Context) error {
	if err := s.took(takeScript.Run(ctx, s.Redis, []string{s.left()}).Int64()); err != nil {
		return err
	}
	err := s.write(ctx, uuid.NewString())
	if err != nil {
		// WRONG: an order whose reply was lost may have been written. Then its unit is sold, and also on
		// sale again.
		err = errors.Join(err, s.Redis.Incr(context.WithoutCancel(ctx), s.left()).Err())
	}
	return err
}

// Accept takes one unit and appends the order to the stream. It returns ErrSoldOut if no unit is
// left.
func (s Sale) Accept(ctx context.Context) error {
	return s.took(acceptScript.Run(ctx, s.Redis, []string{s.left(), s.stream()}, uuid.NewString()).Int64())
}

// took interprets the answer of the scripts.
func (s Sale) took(left int64, err error) error {
	switch {
	case err != nil:
		return fmt.Errorf("taking a unit of %s: %w", s.Item.SKU, err)
	case left < 0:
		return ErrSoldOut
	}
	return nil
}

// write writes an order.
//
// WRONG: nothing checks the order against the database: neither whether the sale from which the
// unit was taken is still on, nor whether the item's row has a unit left.
func (s Sale) write(ctx context.Context, id string) error {
	order := stock.Order{ID: id, SKU: s.Item.SKU, SaleID: s.Item.SaleID, Quantity: 1, Strategy: s.Strategy,
		CreatedAt: time.Now().UTC()}
	if err := s.DB.WithContext(ctx).Create(&order).Error; err != nil {
		return fmt.Errorf("writing order %s: %w", id, err)
	}
	return nil
}

// Overwrite is the naive repair: it sets the counter to the initial units minus those in orders.
//
// WRONG: a unit that is taken but whose order is not written yet goes on sale a second time.
func (s Sale) Overwrite(ctx context.Context) error {
	var sold int64
	err := s.DB.WithContext(ctx).Model(&stock.Order{}).Where("sku = ? AND sale_id = ?", s.Item.SKU, s.Item.SaleID).
		Select("COALESCE(SUM(quantity), 0)").Scan(&sold).Error
	if err != nil {
		return fmt.Errorf("counting the orders of %s: %w", s.Item.SKU, err)
	}
	return s.Save(ctx, s.Item.Initial-sold)
}
