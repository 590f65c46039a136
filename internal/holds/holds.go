// Package holds sells in two steps. A buyer first gets a hold on some units and pays later. A hold
// that is paid in time becomes an order. Otherwise it expires, and its units can be sold to
// somebody else.
//
// A hold with an expiry is a lease, and a late payment is like the write of a paused holder whose
// lease has expired. So holds have stages, like the locks in internal/locks: h1_counter, h2_status
// and h3_claim, each in its own folder, to be read beside its neighbour. The first two can sell a
// unit twice, or lose one. Their package comments say how, and their tests and the lab show it. In
// production, use h3_claim.
//
// Service adds what a shop needs around a stage: it finds the current sale, handles payments, and
// runs a sweeper that ends expired holds even when no buyer comes.
package holds

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"oversell/internal/stock"
)

// Status is the state of a hold.
type Status string

// The statuses. A hold begins as held and changes once; a paid hold can still be cancelled.
const (
	Held      Status = "held"
	Paid      Status = "paid"
	Expired   Status = "expired"
	Released  Status = "released"
	Cancelled Status = "cancelled" // its order was removed
)

// Hold is a buyer's right to pay for some units until it expires.
type Hold struct {
	ID       string `json:"id"`
	SKU      string `json:"sku"`
	SaleID   string `json:"-"`
	Buyer    string `json:"buyer,omitzero"` // "" if the stage has forgotten it
	Quantity int64  `json:"quantity"`
	// Token is the fencing token: a later hold of the same sale has a larger one. It is 0 in stages
	// without tokens.
	Token  int64  `json:"token"`
	Status Status `json:"status"`
	// PaymentID is the id of the payment if the hold is paid.
	PaymentID string    `json:"-"`
	ExpiresAt time.Time `json:"expires_at,omitzero"` // zero if the stage has forgotten it
	CreatedAt time.Time `json:"created_at"`
}

// Order is the order of a paid hold. It has the id of its hold, and its row in the table of orders
// has the payment as its idempotency key. So the table's unique indexes allow at most one order for
// each hold and each payment.
type Order struct {
	ID        string    `json:"order_id"`
	SKU       string    `json:"sku"`
	SaleID    string    `json:"-"`
	Quantity  int64     `json:"quantity"`
	PaymentID string    `json:"payment_id"`
	CreatedAt time.Time `json:"created_at"`
}

// Extended returns when the hold would expire if it were extended now; see Stage.
func (h Hold) Extended(now time.Time, ttl, most time.Duration) (time.Time, error) {
	last := h.CreatedAt.Add(most)
	if !h.ExpiresAt.Before(last) {
		return h.ExpiresAt, ErrExtended
	}
	expires := now.UTC().Add(ttl).Truncate(time.Millisecond)
	switch {
	case expires.After(last):
		expires = last
	case expires.Before(h.ExpiresAt):
		expires = h.ExpiresAt
	}
	return expires, nil
}

// Order returns the order that the hold becomes when it is paid.
func (h Hold) Order(now time.Time) Order {
	return Order{h.ID, h.SKU, h.SaleID, h.Quantity, h.PaymentID, now.UTC().Truncate(time.Millisecond)}
}

// Request asks for a hold.
type Request struct {
	ID       string // a unique id for the new hold; the caller chooses it, to find the hold if the reply is lost
	SKU      string
	SaleID   string // the item's current sale, as the caller has read it
	Buyer    string
	Quantity int64
	Limit    int64         // maximum number of units that the buyer may have in this sale, held or paid; 0: no limit
	TTL      time.Duration // time until the hold expires
	Key      string        // idempotency key in the sale, or "": a second request with the key gets the first hold
}

// Units says where the unsold units of a sale are.
type Units struct {
	Left int64 // units that the next buyer can hold
	Held int64 // units in holds that have not expired
	Due  int64 // units in expired holds, which are not available until a sweep ends the holds
}

// A Stage keeps the holds of sales. It is safe for concurrent use, and several processes may
// work on the same sale, all with the same stage.
//
// Any error that is not from this package means that a backend failed, and that it is unknown
// whether the call took effect.
type Stage interface {
	// Take takes units from the stock for a hold. If the request's key was used, it returns the first
	// hold, as it is now. It returns ErrSoldOut, ErrLimit, ErrKeyReused, or ErrSaleOver if the
	// request's sale is not current.
	Take(ctx context.Context, r Request) (Hold, error)

	// Look returns a hold as it is now, or ErrUnknownHold. A hold is Expired as soon as its time is
	// over, even before a sweep has found it; in h3_claim, also as soon as its sale is over.
	Look(ctx context.Context, id string) (Hold, error)

	// Claim turns a hold into an order. If it is repeated for the same payment, it returns the same
	// order. It returns ErrUnknownHold, ErrToken, or ErrNotHeld if the hold has ended in another
	// way: then the payment must be refunded. It returns ErrPaymentUsed if the payment has paid for
	// another hold.
	Claim(ctx context.Context, id string, token int64, paymentID string) (Order, error)

	// Extend makes a hold expire ttl from now, but no later than the duration most after it began.
	// It never makes a hold expire earlier. It returns ErrUnknownHold, ErrToken, ErrNotHeld if the
	// hold has already ended, or ErrExtended if it already has the longest duration. Repeated calls
	// do not add up.
	Extend(ctx context.Context, id string, token int64, ttl, most time.Duration) (Hold, error)

	// Release returns the units of a hold to the stock. It returns ErrUnknownHold, ErrToken, or
	// ErrNotHeld if the hold has ended already.
	Release(ctx context.Context, id string, token int64) error

	// Cancel removes the order of a paid hold and returns its units to the stock. It returns
	// ErrUnknownHold, ErrToken, or ErrNotHeld if the hold is not paid.
	Cancel(ctx context.Context, id string, token int64) error

	// Sweep ends at most limit expired holds of the item and returns their units to the stock. It
	// reports how many holds it ended.
	Sweep(ctx context.Context, sku string, limit int) (expired int, err error)

	// Units counts the units of a sale that are not sold.
	Units(ctx context.Context, sku, saleID string) (Units, error)

	// List returns at most limit holds of a sale as they are now, in any order: the newest ones. A stage
	// that forgets ended holds lists the newest of those that remain.
	List(ctx context.Context, sku, saleID string, limit int) ([]Hold, error)
}

// The errors of a Stage, wrapped.
var (
	ErrSoldOut     = stock.ErrSoldOut
	ErrLimit       = stock.ErrLimit
	ErrUnknownHold = errors.New("unknown hold")
	ErrNotHeld     = errors.New("the hold has ended") // see NotHeldError
	ErrToken       = errors.New("the token is not the hold's")
	ErrExtended    = errors.New("the hold cannot be extended any further")
	ErrKeyReused   = stock.ErrKeyReused
	ErrPaymentUsed = errors.New("the payment has paid for another hold")
	ErrSaleOver    = errors.New("another sale of the item has begun")
)

// NotHeldError is an ErrNotHeld that says how the hold ended.
type NotHeldError struct{ Status Status }

func (e NotHeldError) Error() string { return fmt.Sprintf("%v: it is %s", ErrNotHeld, e.Status) }

// Unwrap returns ErrNotHeld.
func (e NotHeldError) Unwrap() error { return ErrNotHeld }

// Backends are the backends of a stage. A client that the stage does not use may be nil.
type Backends struct {
	Redis redis.Cmdable
	DB    *sql.DB // with the tables of Migrate and stock.Migrate
	SQL   Dialect // of DB

	// Now is the clock of this process, which some stages use for expiry; nil: time.Now.
	Now func() time.Time
	// Isolation is the isolation level of transactions. The default is the database's own.
	Isolation sql.IsolationLevel
}

// Clock returns b.Now, or time.Now if that is nil.
func (b Backends) Clock() func() time.Time {
	if b.Now == nil {
		return time.Now
	}
	return b.Now
}
