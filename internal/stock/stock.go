// Package stock is the flash sale without its transport: items and orders in
// the database, an item's stock in Redis or in the database too, the deduct under a
// guard that the caller chooses, and the audit that tells afterwards what was sold.
//
// The stock of an item is a plain number that is read, checked, worked upon
// and written back as four steps, which is what makes a guard necessary. A Taker
// does without: it has Redis check and take in one.
package stock

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"time"

	"oversell/internal/figures"
)

// The errors that Service returns, wrapped. Anything else means that the
// database or Redis did not do its part.
var (
	ErrInvalid         = errors.New("invalid request")
	ErrUnknownItem     = errors.New("unknown item")
	ErrUnknownStrategy = errors.New("unknown strategy")
	ErrSoldOut         = errors.New("sold out")
	ErrBusy            = errors.New("the lock was not had in time")
	ErrLost            = errors.New("the lock was lost before anything was sold")
	ErrClosing         = errors.New("the shop is closing")

	// ErrOtherStrategy means that strategies which do not keep those of the
	// request's family out were at work on the item until the wait ended.
	ErrOtherStrategy = errors.New("another strategy is at work on this item")
)

// Bounds of what a request may ask for.
const (
	MaxQuantity = 1_000         // units in one order
	MaxStock    = 1_000_000_000 // units an item may have
	MaxKey      = 128           // bytes of an idempotency key
	MaxName     = 200           // bytes of an item's name
)

var (
	skuForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)
	keyForm = regexp.MustCompile(`^[\x21-\x7e]{1,128}$`)
)

// now is the time as every database keeps it: what an order was first answered
// with is what it is answered with later.
func now() time.Time { return time.Now().UTC().Truncate(time.Millisecond) }

// CheckSKU returns ErrInvalid for a text that can be no item's SKU.
func CheckSKU(sku string) error {
	if !skuForm.MatchString(sku) {
		return fmt.Errorf("%w: sku must be 1 to 64 letters, digits, dots, dashes or underscores, and begin with a letter or digit", ErrInvalid)
	}
	return nil
}

// Item is what is on sale. A sale begins when the item is put, and every put
// begins a new one, so that nothing left over from the last can count for it.
type Item struct {
	SKU       string    `json:"sku" gorm:"primaryKey;size:64"`
	Name      string    `json:"name" gorm:"size:200;not null"`
	Category  string    `json:"category" gorm:"size:64;not null;index"`
	Initial   int64     `json:"initial" gorm:"not null"` // units the sale began with
	SaleID    string    `json:"sale_id" gorm:"size:36;not null"`
	UpdatedAt time.Time `json:"updated_at"`

	// Keeper is who keeps the stock; "" stands for InRedis. The rest is for a
	// stock that is kept here, in the database, and not part of what Put is given.
	Keeper    Keeper `json:"keeper" gorm:"size:16;not null;default:redis"`
	Remaining int64  `json:"-" gorm:"not null;default:0"`          // units left
	Version   int64  `json:"-" gorm:"not null;default:0"`          // how often Remaining was written
	Fence     int64  `json:"-" gorm:"not null;default:0"`          // the largest fencing token that was seen
	FenceOf   string `json:"-" gorm:"size:32;not null;default:''"` // the strategy whose token it is

	// Generation is the stock whose orders may be written, see generation.
	Generation string `json:"-" gorm:"size:36;not null;default:''"`
	// History is that of the Redis in which the generation's stock was counted, see
	// backend.RedisHistory. In any other the stock may be an older one.
	History string `json:"-" gorm:"size:64;not null;default:''"`
	// Family is that of the strategies at work. Put may be given that of those
	// that are expected first, which spares the first buyer a step.
	Family string `json:"-" gorm:"size:32;not null;default:''"`
}

// keeper is the item's Keeper by name.
func (i Item) keeper() Keeper { return cmp.Or(i.Keeper, InRedis) }

func (i Item) check() error {
	if err := CheckSKU(i.SKU); err != nil {
		return err
	}
	if i.Initial < 0 || i.Initial > MaxStock {
		return fmt.Errorf("%w: stock is %d, and must be 0 to %d", ErrInvalid, i.Initial, MaxStock)
	}
	if len(i.Name) > MaxName {
		return fmt.Errorf("%w: name has %d bytes, and may have %d", ErrInvalid, len(i.Name), MaxName)
	}
	if i.Keeper != "" && i.Keeper.check() != nil {
		return i.Keeper.check()
	}
	if i.Category != "" && CheckSKU(i.Category) != nil {
		return fmt.Errorf("%w: category must have the form of an sku", ErrInvalid)
	}
	return nil
}

// Sale is a sale that there was. An order of a sale that is not among them is
// foreign: another database said that the sale was on.
type Sale struct {
	ID      string    `gorm:"primaryKey;size:36"`
	SKU     string    `gorm:"size:64;not null;index"`
	Initial int64     `gorm:"not null"` // units it began with
	BegunAt time.Time `gorm:"not null"`
}

// Order is one sale's order. It is written once and never changed.
type Order struct {
	ID       string `json:"order_id" gorm:"primaryKey;size:36"`
	SKU      string `json:"sku" gorm:"size:64;not null;uniqueIndex:idx_orders_sku_sale_key,priority:1"`
	SaleID   string `json:"-" gorm:"size:36;not null;uniqueIndex:idx_orders_sku_sale_key,priority:2"`
	Quantity int64  `json:"quantity" gorm:"not null"`
	// IdempotencyKey is NULL for an order without one, and NULLs are not
	// equal: only orders with a key are held to be unique.
	IdempotencyKey *string   `json:"-" gorm:"size:128;uniqueIndex:idx_orders_sku_sale_key,priority:3"`
	Strategy       string    `json:"strategy" gorm:"size:32;not null"`
	CreatedAt      time.Time `json:"created_at"`
}

// Request is one buyer's wish.
type Request struct {
	SKU            string
	Quantity       int64
	Strategy       string
	IdempotencyKey string // may be empty
	Owner          string // who asks, unique among all instances
}

func (r Request) check() error {
	if err := CheckSKU(r.SKU); err != nil {
		return err
	}
	if r.Quantity < 1 || r.Quantity > MaxQuantity {
		return fmt.Errorf("%w: quantity is %d, and must be 1 to %d", ErrInvalid, r.Quantity, MaxQuantity)
	}
	if r.IdempotencyKey != "" && !keyForm.MatchString(r.IdempotencyKey) {
		return fmt.Errorf("%w: an idempotency key must be 1 to %d printable ASCII characters without spaces", ErrInvalid, MaxKey)
	}
	return nil
}

// Result is what became of a request. All but Order is filled in when the
// request failed, too.
type Result struct {
	Order    Order
	Replayed bool           // the order is an earlier request's, with the same key
	Left     int64          // units left as this buyer saw it
	Spans    []figures.Span // times spent inside the critical section
	Lock     LockStats
}

// Audit is what the database and Redis say about an item's current sale.
type Audit struct {
	SKU    string `json:"sku"`
	SaleID string `json:"sale_id"`
	figures.Stock
	Oversold    int64 `json:"oversold"`
	LostUpdates int64 `json:"lost_updates"`
	// Stranded are units that were taken and not sold. While buyers are on
	// their way to their orders, their units are among them.
	Stranded int64 `json:"stranded"`
	// Foreign are units in orders of sales that the database does not know.
	Foreign int64 `json:"foreign"`
}
