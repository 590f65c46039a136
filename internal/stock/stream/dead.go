package stream

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// The kinds of dead letters.
const (
	// Failed is the kind of an order that the database did not take. It still has its units,
	// and can be written until its generation ends.
	Failed = "failed"
	// Refused is the kind of an order that will not be written unless it is requeued. It has no units.
	Refused = "refused"
)

// ReasonFailed is the reason of the kind Failed.
const ReasonFailed = "the database did not take the order"

// Refusal says why an order is not written.
type Refusal struct {
	Kind, Reason string // the reason is shown to anybody
	Err          string // the database's error, for the operator
	Refusals     int64  // the number of times that the database refused it
	PutBack      bool   // its units are missing from the stock of its generation
	Doubt        bool   // the stock in Redis had too many units
}

// DeadLetter is an accepted order that could not be written.
type DeadLetter struct {
	ID string `json:"id"` // the id of the dead letter
	Entry
	KeyHash string `json:"key_hash,omitempty"` // a hash of its idempotency key; "": it has none
	// Kind is Failed or Refused. HasUnits says whether the order still has its units: a failed
	// order has them until the stock is counted again. The caller sets HasUnits.
	Kind       string    `json:"kind"`
	HasUnits   bool      `json:"has_units"`
	Reason     string    `json:"reason"`
	Error      string    `json:"error,omitempty"` // the error of the database
	Refusals   int64     `json:"refusals"`        // the number of times that the database refused its values
	Deliveries int64     `json:"deliveries"`      // the number of times that the order was delivered to a consumer
	DiedAt     time.Time `json:"died_at"`
}

func (s Streams) parseDead(sku string, m redis.XMessage) DeadLetter {
	text := func(name string) string {
		value, _ := m.Values[name].(string)
		return value
	}
	number := func(name string) int64 {
		n, _ := strconv.ParseInt(text(name), 10, 64) // 0 if it is not a number
		return n
	}
	return DeadLetter{
		ID: m.ID, Entry: s.parseEntry(sku, m), Kind: text("kind"), Reason: text("reason"), Error: text("error"),
		Refusals: number("refusals"), Deliveries: number("deliveries"), DiedAt: time.UnixMilli(number("died")).UTC(),
	}
}

// DeadLetters reads all dead letters of an item.
func (s Streams) DeadLetters(ctx context.Context, sku string) ([]DeadLetter, error) {
	found, err := s.pages(ctx, Keys{sku}.Dead(), "+")
	if err != nil {
		return nil, fmt.Errorf("reading the dead letters of %s: %w", sku, err)
	}
	letters := make([]DeadLetter, len(found))
	for i, m := range found {
		letters[i] = s.parseDead(sku, m)
	}
	return letters, nil
}

// RemoveDead removes a dead letter.
func (s Streams) RemoveDead(ctx context.Context, letter DeadLetter) error {
	k := Keys{letter.SKU}
	_, err := s.Redis.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.XDel(ctx, k.Dead(), letter.ID)
		p.HDel(ctx, k.Places(), letter.Entry.ID)
		return nil
	})
	if err != nil {
		return fmt.Errorf("removing dead letter %s: %w", letter.ID, err)
	}
	return nil
}

// Requeue moves a dead letter back to the stream, in the given generation of its sale. Current is
// the value of the sale's key, and limit is the limit per buyer. If the letter no longer has its
// units, they are taken from the stock. See requeue.lua for the answers.
func (s Streams) Requeue(ctx context.Context, letter DeadLetter, generation, current string, limit int64) (int, error) {
	e, k, take := letter.Entry, Keys{letter.SKU}, int64(0)
	if letter.Kind != Failed || e.Generation != generation {
		e.Generation, take = generation, e.Quantity
	}
	at := []string{k.Dead(), k.Stream(), k.Places(), k.Sale(), k.Stock(e.SaleID, generation), k.ByKey(e.SaleID),
		k.Buyers(e.SaleID, generation)}
	args := append([]any{letter.ID, e.ID, current, take, e.Key, limit, e.Buyer}, e.fields()...)
	answer, err := requeueScript.Run(ctx, s.Redis, at, args...).Int()
	if err != nil {
		return 0, fmt.Errorf("moving dead letter %s back to the stream: %w", letter.ID, err)
	}
	return answer, nil
}
