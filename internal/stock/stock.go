// Package stock is the flash sale without its transport. Items and orders are in the database; an
// item's stock is in Redis or in the database. The package deducts stock under a guard that the
// caller chooses, and afterwards audits what was sold.
//
// The stock of an item is a plain number. A purchase reads it, checks it, does its work and writes
// it back: four steps, so it needs a lock. A ScriptSeller needs no lock, because Redis checks the
// stock and takes the units in one step.
package stock

import (
	"cmp"
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"
	"time"

	"gorm.io/gorm"

	"oversell/internal/figures"
	"oversell/internal/message"
)

// The errors that Service returns, wrapped. Any other error means that the
// database or Redis failed.
var (
	ErrInvalid         = errors.New("invalid request")
	ErrUnknownItem     = errors.New("unknown item")
	ErrUnknownStrategy = errors.New("unknown strategy")
	ErrSoldOut         = errors.New("sold out")
	ErrLimit           = errors.New("the buyer's limit is reached")
	ErrBusy            = errors.New("the lock was not acquired in time")
	ErrLost            = errors.New("the lock was lost before anything was sold")
	ErrClosing         = errors.New("the shop is closing")

	// ErrOtherStrategy means that the turn of another family of strategies lasted until the
	// wait ended. Strategies of different families do not exclude
	// each other, so they must not sell an item at the same time.
	ErrOtherStrategy = errors.New("another strategy is selling this item")

	// ErrHoldsOpen means that an item cannot be deleted yet.
	ErrHoldsOpen = errors.New("the item has holds that can still be paid")

	// ErrUnlimited means that the item has a limit per buyer that the strategy does not check.
	ErrUnlimited = errors.New("the strategy does not check the item's limit per buyer")

	// ErrKeyReused means that an earlier request with the same idempotency key asked for
	// something else.
	ErrKeyReused = errors.New("the idempotency key was used with another quantity or buyer")
)

// The limits of a request.
const (
	MaxQuantity = 1_000         // units in one order
	MaxStock    = 1_000_000_000 // units an item may have
	MaxKey      = 128           // bytes of an idempotency key
	MaxBuyer    = 64            // bytes of a buyer's name
	MaxName     = 200           // bytes of an item's name

	MaxHoldSeconds = 86_400 // the longest hold that an item may set
)

var skuForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// printable reports whether text has 1 to most characters, all of them printable ASCII.
func printable(text string, most int) bool {
	other := func(r rune) bool { return r < '!' || r > '~' }
	return text != "" && len(text) <= most && !strings.ContainsFunc(text, other)
}

// now returns the current time, truncated to milliseconds: every database keeps that precision. So
// a replayed order has the same time as in the first answer.
func now() time.Time { return time.Now().UTC().Truncate(time.Millisecond) }

// CheckSKU returns ErrInvalid if sku is not a valid SKU.
func CheckSKU(sku string) error {
	if !skuForm.MatchString(sku) {
		return message.Errorf("%w: sku must be 1 to 64 letters, digits, dots, dashes or underscores, and begin with "+
			"a letter or digit", ErrInvalid)
	}
	return nil
}

// CheckKey returns ErrInvalid if key is neither "" nor a valid idempotency key.
func CheckKey(key string) error {
	if key != "" && !printable(key, MaxKey) {
		return message.Errorf("%w: an idempotency key must be 1 to %d printable ASCII characters without spaces",
			ErrInvalid, MaxKey)
	}
	return nil
}

// CheckBuyer returns ErrInvalid if buyer is not a valid name of a buyer.
func CheckBuyer(buyer string) error {
	if !printable(buyer, MaxBuyer) {
		return message.Errorf("%w: buyer must be 1 to %d printable ASCII characters without spaces", ErrInvalid,
			MaxBuyer)
	}
	return nil
}

// Item is an item on sale. Each Put begins a new sale of it, so that nothing from the
// last sale counts in the new one.
type Item struct {
	SKU       string    `json:"sku" gorm:"primaryKey;size:64"`
	Name      string    `json:"name" gorm:"size:200;not null"`
	Category  string    `json:"category" gorm:"size:64;not null;index"`
	Initial   int64     `json:"initial" gorm:"not null"` // units of the sale; see Sale
	SaleID    string    `json:"sale_id" gorm:"size:36;not null"`
	UpdatedAt time.Time `json:"updated_at"`

	// Keeper is the backend of the stock; "" means InRedis. Put ignores the next four fields, and
	// sets them itself.
	Keeper Backend `json:"keeper" gorm:"size:16;not null;default:redis"`
	// Remaining counts the units left outside the pool. If the stock is in Redis, it counts the
	// units that accepted orders of the generation may take.
	Remaining int64  `json:"-" gorm:"not null;default:0"`
	Version   int64  `json:"-" gorm:"not null;default:0"`          // the number of writes to Remaining
	Fence     int64  `json:"-" gorm:"not null;default:0"`          // the largest fencing token seen
	FenceOf   string `json:"-" gorm:"size:32;not null;default:''"` // the strategy that the token belongs to

	// Pooled counts the units in the pool of the generation; see Pool. Only store.item sets it.
	Pooled int64 `json:"-" gorm:"->;-:migration"`

	// HoldSeconds is how long a hold of the sale lasts; 0: the shop's default. It applies only to
	// the keeper InHolds.
	HoldSeconds int64 `json:"hold_seconds,omitempty" gorm:"not null;default:0"`

	// Limit is the maximum number of units that one buyer may have in the sale; 0: no limit. It
	// applies to a stock in Redis, which then only StreamFamily can sell, and to the keeper
	// InHolds.
	Limit int64 `json:"limit,omitempty" gorm:"column:buyer_limit;not null;default:0"`

	// Generation is the id of the current generation: only its orders may be written.
	Generation string `json:"-" gorm:"size:36;not null;default:''"`
	// History is the id of the history that Redis had when the generation's stock was counted; see
	// Config.History. A Redis with another history may have an older stock.
	History string `json:"-" gorm:"size:64;not null;default:''"`
	// Unpublished means that the generation is not in Redis yet; see startGeneration.
	Unpublished bool `json:"-" gorm:"not null;default:false"`
	// Family is the family of the strategies that sell the item. A caller of Put may set it to the
	// family that will probably sell first, which saves the first buyer a step.
	Family string `json:"-" gorm:"size:32;not null;default:''"`
	// TurnBegan is when the family began to sell the item, in Unix milliseconds. TurnSold is how
	// many units of the sale were sold by then. See checkTurn.
	TurnBegan int64 `json:"-" gorm:"not null;default:0"`
	TurnSold  int64 `json:"-" gorm:"not null;default:0"`
}

func (i Item) backend() Backend { return cmp.Or(i.Keeper, InRedis) }

// left returns the units left of an item whose stock is in the database. The item must come from
// store.item, which sets Pooled.
func (i Item) left() int64 { return i.Remaining + i.Pooled }

func (i Item) pool() Pool { return Pool{SKU: i.SKU, Generation: i.Generation} }

func (i Item) check() error {
	if err := cmp.Or(CheckSKU(i.SKU), i.backend().check()); err != nil {
		return err
	}
	for _, rule := range []struct {
		broken bool
		says   message.Message
	}{
		{i.Initial < 0 || i.Initial > MaxStock, message.Newf("stock is %d; it must be 0 to %d", i.Initial, MaxStock)},
		{len(i.Name) > MaxName, message.Newf("name has %d bytes; at most %d are allowed", len(i.Name), MaxName)},
		{i.HoldSeconds != 0 && i.Keeper != InHolds, message.Newf("hold_seconds is for an item with the "+
			"keeper %s", InHolds)},
		{i.Limit < 0 || i.Limit > MaxStock, message.Newf("limit is %d; it must be 0 to %d", i.Limit, MaxStock)},
		{i.Limit > 0 && i.Keeper == InDatabase, message.Newf("limit is for an item with the keeper %s, which %s "+
			"sells, or %s", InRedis, StreamFamily, InHolds)},
		{i.HoldSeconds < 0 || i.HoldSeconds > MaxHoldSeconds, message.Newf("hold_seconds is %d; it must be 1 to %d, "+
			"or 0 for the shop's -hold-ttl", i.HoldSeconds, MaxHoldSeconds)},
		{i.Category != "" && CheckSKU(i.Category) != nil, message.Text("category must have the form of an sku")},
	} {
		if rule.broken {
			return message.Errorf("%w: %s", ErrInvalid, rule.says)
		}
	}
	return nil
}

// Sale records that a sale took place. An order whose sale has no record is foreign: it
// belongs to a sale that another database began.
type Sale struct {
	ID      string    `gorm:"primaryKey;size:36"`
	SKU     string    `gorm:"size:64;not null;index"`
	Initial int64     `gorm:"not null"` // units at the beginning, plus those that restocks have added
	BegunAt time.Time `gorm:"not null"`
}

// purchased counts a buyer's units in the written orders of a sale with a limit. It is written in
// the same transaction as the orders, while the item's row is locked.
type purchased struct {
	SKU    string `gorm:"primaryKey;size:64"`
	SaleID string `gorm:"primaryKey;size:36"`
	Buyer  string `gorm:"primaryKey;size:64"`
	Units  int64  `gorm:"not null"`
}

func (purchased) TableName() string { return "oversell_buyers" }

// lostOrder is an accepted order that Redis lost before it was written, and that will never be
// written.
type lostOrder struct {
	ID     string `gorm:"primaryKey;size:36"`
	SKU    string `gorm:"size:64;not null;index:idx_lost_sku_sale,priority:1"`
	SaleID string `gorm:"size:36;not null;index:idx_lost_sku_sale,priority:2"`
}

func (lostOrder) TableName() string { return "oversell_lost_orders" }

// Order is an order of one sale. It is written once and never changed.
type Order struct {
	ID       string `json:"order_id" gorm:"primaryKey;size:36"`
	SKU      string `json:"sku" gorm:"size:64;not null;uniqueIndex:idx_orders_sku_sale_key,priority:1"`
	SaleID   string `json:"-" gorm:"size:36;not null;uniqueIndex:idx_orders_sku_sale_key,priority:2"`
	Quantity int64  `json:"quantity" gorm:"not null"`
	// IdempotencyKey is NULL for an order without a key. NULLs are not equal, so the
	// index applies only to orders with a key.
	IdempotencyKey *string `json:"-" gorm:"size:128;uniqueIndex:idx_orders_sku_sale_key,priority:3"`
	// Buyer is the buyer that the request named, or "" if it named none. It is NULL for an order older
	// than this column, and for the order of a hold: the hold names the buyer.
	Buyer     *string   `json:"-" gorm:"size:64"`
	Strategy  string    `json:"strategy" gorm:"size:32;not null"`
	CreatedAt time.Time `json:"created_at"`
}

// answers returns ErrKeyReused if the order is not what a request with its idempotency key asks
// for. The request's strategy may differ, because the shop may have switched strategies since.
func (o Order) answers(r Request) error {
	if o.Quantity != r.Quantity || o.Buyer != nil && *o.Buyer != r.Buyer {
		return ErrKeyReused
	}
	return nil
}

// Audit compares what the database and Redis say about an item's current sale.
type Audit struct {
	SKU    string `json:"sku"`
	SaleID string `json:"sale_id"`
	figures.Stock
	Oversold    int64 `json:"oversold"`
	LostUpdates int64 `json:"lost_updates"`
	// Stranded counts units that were taken, but are neither sold nor in flight: nobody can buy them
	// until the stock is repaired.
	Stranded int64 `json:"stranded"`
	// InFlight counts units that were taken and may still become orders or return to the stock:
	// those of purchases in progress, and of accepted orders that are not written yet. Two seconds
	// after a process was killed, its units count as stranded.
	InFlight int64 `json:"in_flight"`
	// Foreign counts units in orders of sales that the database does not know.
	Foreign int64 `json:"foreign"`
	// AcceptedLost counts orders that were refused after they were accepted, or that Redis lost before
	// they were written. DurableP99 is the time in milliseconds within which 99 of 100 accepted orders
	// were written. Both are 0 if orders are not written through a stream.
	AcceptedLost int64   `json:"accepted_lost"`
	DurableP99   float64 `json:"durable_p99_ms"`
	// PaymentAlarms counts payments for holds that an operator has to look at; see holds.Service.
	PaymentAlarms int64 `json:"payment_alarms,omitempty"`
	// OpenRefunds counts payments for holds that have a failed refund, and no final refund yet.
	OpenRefunds int64 `json:"open_refunds,omitempty"`
}

// Backend says where the stock of a sale is kept.
type Backend string

// The stock backends. Orders are always in the database.
const (
	InRedis    Backend = "redis"
	InDatabase Backend = "database"
	// InHolds is the stock of a sale by holds; see package holds. It is in the item's row or where
	// the stage of the sale keeps it. No strategy of a Service can deduct from it.
	InHolds Backend = "holds"
)

// Holds answers a Service's questions about items that are sold by holds. Package holds implements
// it.
type Holds interface {
	// Units counts the units of the item's current sale that are not sold: those that can be held, and
	// those in holds, including expired holds whose units have not been returned to the stock yet.
	Units(ctx context.Context, item Item) (left, held int64, err error)
	// OpenPayments counts the payments for the item that an operator has to look at, and those that
	// have a failed refund, and no final refund yet.
	OpenPayments(ctx context.Context, sku string) (alarms, refunds int64, err error)
	// CheckRestock returns ErrLocation if the units of the item's sale are not in its row.
	CheckRestock(ctx context.Context, item Item) error
	// Forget removes the item's holds, in a transaction that has locked the item's row. It
	// returns ErrHoldsOpen while one of them can still be paid.
	Forget(tx *gorm.DB, item Item) error
}

// noHolds is the Holds of a Service without holds.
type noHolds struct{}

func (noHolds) Units(_ context.Context, item Item) (left, held int64, err error) {
	return item.Remaining, 0, nil
}
func (noHolds) OpenPayments(context.Context, string) (alarms, refunds int64, err error) {
	return 0, 0, nil
}
func (noHolds) CheckRestock(context.Context, Item) error { return nil }
func (noHolds) Forget(*gorm.DB, Item) error              { return nil }

// inRedis reports whether the stock is a number in Redis.
func (b Backend) inRedis() bool { return b != InDatabase && b != InHolds }

func (b Backend) check() error {
	if b != InRedis && b != InDatabase && b != InHolds {
		return message.Errorf("%w: stock is kept in %q; it must be in %s, %s or %s",
			ErrInvalid, b, InRedis, InDatabase, InHolds)
	}
	return nil
}

// ErrLocation means that a strategy cannot work with the stock where it is kept.
var ErrLocation = errors.New("the stock is not where this strategy needs it")

// ErrNoRepair means that there is nothing to repair, because the item is sold by holds.
var ErrNoRepair = errors.New("repair is for stock in Redis or in the database; the sweep returns the units of " +
	"holds that have expired")

func isAny(err error, known ...error) bool {
	return slices.ContainsFunc(known, func(one error) bool { return errors.Is(err, one) })
}
