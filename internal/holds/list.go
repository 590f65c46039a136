package holds

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"gorm.io/gorm"

	"oversell/internal/payment"
	"oversell/internal/stock"
)

// Listing lists the holds of an item's current sale. If the sale's stage has forgotten a hold, only
// its order and its payments are known.
type Listing struct {
	SKU    string    `json:"sku"`
	SaleID string    `json:"sale_id"`
	Stage  string    `json:"strategy"` // "": no hold was requested yet
	Now    time.Time `json:"now"`      // by the database's clock, like ExpiresAt
	Holds  []Listed  `json:"holds"`    // the newest first

	// Books is the audit of the sale's payments. It is nil without Config.Entries, or if the sale has
	// too many payments.
	Books *payment.Books `json:"books,omitempty"`
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
	Payments  []ListedPayment `json:"payments,omitempty"` // none if Listing.Books is nil
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

// forgotten is the status of a hold if only its payments are known.
const forgotten Status = "forgotten"

// maxAudited is the maximum number of ledger entries that one call to List audits.
const maxAudited = 5_000

// List returns the newest holds of the item's current sale. It does not read everything at the same
// moment, so a hold, its order and its payments may disagree.
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
	entries, err := s.audit(ctx, &l)
	if err != nil {
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
	l.Holds = joined(all, orders, entries)
	return l, nil
}

// joined joins holds with their orders and payments, and returns the newest MaxListed of them.
func joined(all []Hold, orders []stock.Order, entries []payment.Entry) []Listed {
	listed := make([]Listed, 0, len(all))
	at := make(map[string]int, len(all)) // the index of a hold, by its id
	// find returns the listed hold with the id of h. If there is none, it lists h.
	find := func(h Listed) *Listed {
		i, known := at[h.ID]
		if !known {
			i = len(listed)
			at[h.ID], listed = i, append(listed, h)
		}
		return &listed[i]
	}
	for _, h := range all {
		find(Listed{ID: h.ID, Buyer: h.Buyer, Quantity: h.Quantity, Status: h.Status, ExpiresAt: h.ExpiresAt,
			CreatedAt: h.CreatedAt})
	}
	for _, row := range orders {
		o := orderOf(row)
		find(Listed{ID: o.ID, Quantity: o.Quantity, Status: Paid, CreatedAt: o.CreatedAt}).Order = &o
	}
	for _, e := range entries {
		id, _, _ := strings.Cut(e.Reference, "/")
		find(Listed{ID: id, Status: forgotten, CreatedAt: e.Time}).enter(e)
	}
	slices.SortFunc(listed, func(a, b Listed) int { return cmp.Compare(b.ID, a.ID) }) // ids begin with the time
	return listed[:min(len(listed), MaxListed)]
}

// enter adds an entry of the ledger to a hold: a payment, or its next status.
func (l *Listed) enter(e payment.Entry) {
	i := slices.IndexFunc(l.Payments, func(p ListedPayment) bool { return p.ID == e.PaymentID })
	if i < 0 {
		i = len(l.Payments)
		l.Payments = append(l.Payments, ListedPayment{ID: e.PaymentID, Amount: e.Amount, Currency: e.Currency})
	}
	l.Payments[i].Status = e.Status
}

// clock reads the clock of the database.
func (s *Service) clock(ctx context.Context) (time.Time, error) {
	var ms int64
	err := s.query(ctx, func(db *gorm.DB) *gorm.DB {
		return db.Raw("SELECT " + s.sql.Clock).Scan(&ms)
	}, "reading the database's clock")
	return time.UnixMilli(ms).UTC(), err
}

// audit reads the ledger of a sale, and compares its payments with the orders and their prices.
func (s *Service) audit(ctx context.Context, l *Listing) ([]payment.Entry, error) {
	if s.cfg.Entries == nil {
		return nil, nil
	}
	entries, number := s.cfg.Entries(l.SaleID, maxAudited)
	if number > maxAudited {
		return nil, nil
	}
	var rows []stock.Order
	err := s.query(ctx, func(db *gorm.DB) *gorm.DB {
		return db.Select("idempotency_key", "quantity").
			Where("sku = ? AND sale_id = ? AND idempotency_key IS NOT NULL", l.SKU, l.SaleID).Find(&rows)
	}, "reading the payments of %s", l.SKU)
	if err != nil {
		return nil, err
	}
	orders, due := make(map[string]int, len(rows)), make(map[string]payment.Money, len(rows))
	for _, row := range rows {
		id := *row.IdempotencyKey
		orders[id]++
		if due[id], err = s.price(row.Quantity); err != nil { // an index allows a payment only one order
			return nil, err
		}
	}
	books := payment.AuditAmounts(entries, orders, due)
	l.Books = &books
	return entries, nil
}
