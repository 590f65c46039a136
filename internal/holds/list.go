package holds

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"oversell/internal/payment"
	"oversell/internal/stock"
)

// Listing lists the holds and orders of an item's current sale, except those that the sale's stage
// has forgotten.
type Listing struct {
	SKU    string
	SaleID string
	Stage  string    // "": no hold was requested yet
	Now    time.Time // by the database's clock
	Holds  []Listed  // the newest first
}

// Listed is a hold, and the order that it has become. If the stage has forgotten the hold, its
// buyer and its expiry are unknown.
type Listed struct {
	Hold
	Order *Order
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
	l := Listing{SKU: sku, SaleID: item.SaleID}
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
	orders, err := s.orders(ctx, item)
	if err != nil {
		return Listing{}, err
	}
	l.Holds = joined(all, orders)
	return l, nil
}

// joined joins holds with their orders, and returns the newest MaxListed of them.
func joined(all []Hold, orders []Order) []Listed {
	become := make(map[string]*Order, len(orders))
	for i := range orders {
		become[orders[i].ID] = &orders[i]
	}
	listed := make([]Listed, 0, len(all))
	for _, h := range all {
		listed = append(listed, Listed{h, become[h.ID]})
		delete(become, h.ID)
	}
	for _, o := range become {
		listed = append(listed, Listed{Hold{
			ID: o.ID, SKU: o.SKU, SaleID: o.SaleID, Quantity: o.Quantity, Status: Paid, PaymentID: o.PaymentID,
			CreatedAt: o.CreatedAt,
		}, o})
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

// orders reads the newest orders of the item's sale. An order has the id of its hold, so these
// include all orders of the newest holds.
func (s *Service) orders(ctx context.Context, item stock.Item) ([]Order, error) {
	var rows []stock.Order
	err := s.query(ctx, func(db *gorm.DB) *gorm.DB {
		return db.Where("sku = ? AND sale_id = ?", item.SKU, item.SaleID).Order("id DESC").Limit(MaxListed).Find(&rows)
	}, "reading the orders of %s", item.SKU)
	orders := make([]Order, len(rows))
	for i, row := range rows {
		orders[i] = orderOf(row)
	}
	return orders, err
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
