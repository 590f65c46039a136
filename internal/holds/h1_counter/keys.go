package hold

import (
	"encoding/json"
	"fmt"

	"oversell/internal/holds"
)

// The keys in Redis: the units left of a sale, what a buyer has, the hold of an idempotency
// key, the holds of an item by expiry, and a hold.
func leftKey(sku, saleID string) string { return "oversell:h1:" + sku + ":" + saleID + ":left" }
func hasKey(sku, saleID, who string) string {
	return "oversell:h1:" + sku + ":" + saleID + ":has:" + who
}
func firstKey(sku, saleID, k string) string { return "oversell:h1:" + sku + ":" + saleID + ":key:" + k }
func expiryKey(sku string) string           { return "oversell:h1:" + sku + ":expiry" }
func holdKey(id string) string              { return "oversell:h1:hold:" + id }

// text is a hold as Redis keeps it, at its own key and in the sorted set, because its key is
// gone when the sweep comes. The JSON of a hold leaves its sale out.
func text(h holds.Hold) string {
	b, err := json.Marshal([]any{h.SaleID, h})
	if err != nil {
		panic("a hold is not JSON: " + err.Error()) // it has strings, numbers and times
	}
	return string(b)
}

// parse reads a text.
func parse(text string) (h holds.Hold, err error) {
	var saleID string
	if err := json.Unmarshal([]byte(text), &[]any{&saleID, &h}); err != nil {
		return holds.Hold{}, fmt.Errorf("reading a hold: %w", err)
	}
	h.SaleID = saleID
	return h, nil
}
