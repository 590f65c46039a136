package stock

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"time"
)

// MaxOrders is how many orders a page of them has at most.
const MaxOrders = 5_000

var orderIDForm = regexp.MustCompile(`^[\x21-\x7e]{1,36}$`)

// Orders is a page of the orders of an item's current sale.
type Orders struct {
	SKU    string        `json:"sku"`
	SaleID string        `json:"sale_id"`
	Orders []ListedOrder `json:"orders"` // by their ids
	Next   string        `json:"next"`   // the id after which the next page begins; "": this is the last one
}

// ListedOrder is an order as it is listed. The idempotency key itself is the
// buyer's own: the shop answers with the order to every request that has it.
type ListedOrder struct {
	ID        string    `json:"order_id"`
	Quantity  int64     `json:"quantity"`
	Strategy  string    `json:"strategy"`
	CreatedAt time.Time `json:"created_at"`
	KeyHash   string    `json:"key_hash,omitempty"` // see KeyHash; "": the order has no key
}

// KeyHash is what a list of orders has instead of an idempotency key: its
// SHA-256 in hexadecimal digits, and "" for no key. Those who know a key find its
// order by it.
func KeyHash(key string) string {
	if key == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:])
}

// Orders lists the orders of an item's current sale whose ids come after the given
// one, limit at most. Of a sale under way a page may lack orders that are written
// while it is read, or after it was. It returns ErrUnknownItem, and ErrInvalid for
// a limit that is not 1 to MaxOrders or an id that no order has.
func (s *Service) Orders(ctx context.Context, sku, after string, limit int) (Orders, error) {
	if limit < 1 || limit > MaxOrders {
		return Orders{}, fmt.Errorf("%w: limit is %d, and must be 1 to %d", ErrInvalid, limit, MaxOrders)
	}
	if after != "" && !orderIDForm.MatchString(after) {
		return Orders{}, fmt.Errorf("%w: after must be the id of an order", ErrInvalid)
	}
	item, err := s.Item(ctx, sku)
	if err != nil {
		return Orders{}, err
	}
	page := Orders{SKU: sku, SaleID: item.SaleID, Orders: []ListedOrder{}}
	rows, err := s.store.orders(ctx, sku, item.SaleID, after, limit+1)
	if err != nil {
		return Orders{}, err
	}
	if len(rows) > limit {
		rows = rows[:limit]
		page.Next = rows[limit-1].ID
	}
	for _, o := range rows {
		listed := ListedOrder{ID: o.ID, Quantity: o.Quantity, Strategy: o.Strategy, CreatedAt: o.CreatedAt.UTC()}
		if o.IdempotencyKey != nil {
			listed.KeyHash = KeyHash(*o.IdempotencyKey)
		}
		page.Orders = append(page.Orders, listed)
	}
	return page, nil
}

// orders reads orders of a sale by their ids, from the first one after the given id.
func (s store) orders(ctx context.Context, sku, saleID, after string, limit int) ([]Order, error) {
	ctx, cancel := limited(ctx)
	defer cancel()
	var rows []Order
	err := s.db.WithContext(ctx).
		Select("id", "quantity", "strategy", "created_at", "idempotency_key").
		Where("sku = ? AND sale_id = ? AND id > ?", sku, saleID, after).
		Order("id").Limit(limit).Find(&rows).Error
	if err != nil {
		return nil, fmt.Errorf("reading the orders of sale %s: %w", saleID, err)
	}
	return rows, nil
}
