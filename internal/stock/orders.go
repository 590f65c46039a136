package stock

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"time"
)

// MaxOrders is the most orders on a page.
const MaxOrders = 5_000

var orderIDForm = regexp.MustCompile(`^[\x21-\x7e]{1,36}$`)

// Orders is a page of the orders of an item's current sale.
type Orders struct {
	SKU    string        `json:"sku"`
	SaleID string        `json:"sale_id"`
	Orders []ListedOrder `json:"orders"` // sorted by id
	Next   string        `json:"next"`   // the id after which the next page begins; "": this is the last page
}

// ListedOrder is an order in a list. It has a hash of the idempotency key, because the key
// itself is a secret of the buyer: the shop gives the order to whoever sends it with
// the same quantity and buyer.
type ListedOrder struct {
	ID        string    `json:"order_id"`
	Quantity  int64     `json:"quantity"`
	Strategy  string    `json:"strategy"`
	CreatedAt time.Time `json:"created_at"`
	KeyHash   string    `json:"key_hash,omitempty"` // see KeyHash; "": the order has no key
}

// KeyHash returns the SHA-256 of an idempotency key in hexadecimal digits, or "" for no
// key. A buyer that knows a key can find its order by the hash.
func KeyHash(key string) string {
	if key == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:])
}

// Orders lists at most limit orders of an item's current sale, those with ids larger than
// after. During a sale a page may lack orders that are written at the same time or later.
// It returns ErrUnknownItem, and ErrInvalid for a limit that is not 1 to MaxOrders or an
// id that no order can have.
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

// orders reads orders of a sale with ids larger than after, sorted by id.
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
