package holds

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"gorm.io/gorm"

	"oversell/internal/payment"
	"oversell/internal/stock"
)

// Listing lists the holds and orders of an item's current sale, except those that the sale's stage
// has forgotten.
type Listing struct {
	SKU    string    `json:"sku"`
	SaleID string    `json:"sale_id"`
	Stage  string    `json:"strategy"` // "": no hold was requested yet
	Now    time.Time `json:"now"`      // by the database's clock, like ExpiresAt
	Holds  []Listed  `json:"holds"`    // the newest first
}

// Listed is a hold with its order and its payments. If the stage has forgotten the hold, its buyer
// and its expiry are unknown. The fencing token is left out, because only the buyer may know it.
type Listed struct {
	ID        string          `json:"id"`
	Buyer     string          `json:"buyer,omitempty"`
	Quantity  int64           `json:"quantity,omitempty"`
	Status    Status          `json:"status"`
	ExpiresAt time.Time       `json:"expires_at,omitzero"`
	CreatedAt time.Time       `json:"created_at"`
	Order     *Order          `json:"order,omitempty"`
	Payments  []ListedPayment `json:"payments,omitempty"` // List does not set it
}

// ListedPayment is a payment of a Listed hold.
type ListedPayment struct {
	ID       string         `json:"id"`
	Amount   int64          `json:"amount"`
	Currency string         `json:"currency"`
	Status   payment.Status `json:"status"`
}

// MaxListed is the maximum number of holds in a Listing.
const MaxListed = 100

// List returns the newest holds of the item's current sale. It does not read everything at the same
// moment, so a hold and its order may disagree.
func (s *Service) List(ctx context.Context, sku string) (Listing, error) {
	if err := stock.CheckSKU(sku); err != nil {
		return Listing{}, err
	}
	item, err := s.heldItem(ctx, sku)
	if err != nil {
		return Listing{}, err
	}
	l := Listing{SKU: sku, SaleID: item.SaleID, Holds: []Listed{}}
	if l.Stage, err = s.saleStage(ctx, item.SaleID, ""); err != nil {
		return Listing{}, err
	}
	if l.Now, err = s.clock(ctx); err != nil {
		return Listing{}, err
	}
	stage, ok := s.cfg.Stages[l.Stage]
	if !ok {
		return l, nil
	}
	all, err := stage.List(ctx, sku, item.SaleID, MaxListed)
	if err != nil {
		return Listing{}, fmt.Errorf("listing the holds of %s: %w", sku, err)
	}
	var orders []stock.Order // an order has the id of its hold: these include all orders of the newest holds
	err = s.query(ctx, func(db *gorm.DB) *gorm.DB {
		return db.Where("sku = ? AND sale_id = ?", sku, item.SaleID).Order("id DESC").Limit(MaxListed).Find(&orders)
	}, "reading the orders of %s", sku)
	if err != nil {
		return Listing{}, err
	}
	l.Holds = joined(all, orders)
	return l, nil
}

// joined joins holds with their orders, and returns the newest MaxListed of them.
func joined(all []Hold, orders []stock.Order) []Listed {
	become := make(map[string]*Order, len(orders))
	for _, row := range orders {
		o := orderOf(row)
		become[o.ID] = &o
	}
	listed := make([]Listed, 0, len(all))
	for _, h := range all {
		listed = append(listed, Listed{ID: h.ID, Buyer: h.Buyer, Quantity: h.Quantity, Status: h.Status,
			ExpiresAt: h.ExpiresAt, CreatedAt: h.CreatedAt, Order: become[h.ID]})
		delete(become, h.ID)
	}
	for _, o := range become {
		listed = append(listed,
			Listed{ID: o.ID, Quantity: o.Quantity, Status: Paid, CreatedAt: o.CreatedAt, Order: o})
	}
	slices.SortFunc(listed, func(a, b Listed) int { return cmp.Compare(b.ID, a.ID) }) // ids begin with the time
	return listed[:min(len(listed), MaxListed)]
}

// clock reads the clock of the database.
func (s *Service) clock(ctx context.Context) (time.Time, error) {
	var ms int64
	err := s.query(ctx, func(db *gorm.DB) *gorm.DB {
		return db.Raw("SELECT " + s.sql.Clock).Scan(&ms)
	}, "reading the database's clock")
	return time.UnixMilli(ms).UTC(), err
}

// Payments counts the orders of a sale by payment, and returns the amount that each payment must
// have, for payment.AuditAmounts.
func (s *Service) Payments(
	ctx context.Context, sku, saleID string,
) (orders map[string]int, due map[string]payment.Money, err error) {
	var rows []stock.Order
	err = s.query(ctx, func(db *gorm.DB) *gorm.DB {
		return db.Select("idempotency_key", "quantity").
			Where("sku = ? AND sale_id = ? AND idempotency_key IS NOT NULL", sku, saleID).Find(&rows)
	}, "reading the payments of %s", sku)
	if err != nil {
		return nil, nil, err
	}
	orders, due = make(map[string]int, len(rows)), make(map[string]payment.Money, len(rows))
	for _, row := range rows {
		id := *row.IdempotencyKey
		orders[id]++
		if due[id], err = s.price(row.Quantity); err != nil { // an index allows a payment only one order
			return nil, nil, err
		}
	}
	return orders, due, nil
}
