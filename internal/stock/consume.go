package stock

import (
	"context"
	"errors"
	"maps"
	"time"

	"gorm.io/gorm"

	"oversell/internal/stock/stream"
)

// Consumer says how a process writes accepted orders, see package stream.
type Consumer = stream.Consumer

// The seams of a Consumer, and the default of its ClaimAfter.
const (
	SeamRead          = stream.SeamRead
	SeamWritten       = stream.SeamWritten
	DefaultClaimAfter = stream.DefaultClaimAfter
)

// EndAtSeam is the error for Consumer.Seam.
func EndAtSeam() error { return stream.EndAtSeam() }

// Consume writes accepted orders of all items until ctx ends. Several processes may consume
// at the same time. It returns when the transactions that have begun are finished.
func (s *Service) Consume(ctx context.Context, c Consumer) {
	s.streams.Consume(ctx, streamedSale{s}, s.log, c)
}

// consumeOnce writes or refuses what is in an item's stream, and reports whether that was all.
func (s *Service) consumeOnce(ctx context.Context, sku string) bool {
	ctx, cancel := context.WithTimeout(ctx, countTimeout)
	defer cancel()
	s.streams.ConsumeOnce(ctx, streamedSale{s}, s.log, sku)
	return ctx.Err() == nil
}

// streamedSale is a Service as its consumer sees it.
type streamedSale struct{ *Service }

func (s streamedSale) Items(ctx context.Context) ([]string, error) { return s.store.streamed(ctx) }
func (s streamedSale) Accepted() <-chan struct{}                   { return s.accepted.wake }
func (s streamedSale) TakeAccepted() map[string]bool               { return s.accepted.takeItems() }
func (s streamedSale) Away(err error) bool                         { return away(err) }
func (s streamedSale) FaultOfOrder(err error) bool                 { return faultOfOrder(err) }

// Write is store.writeAccepted. If one of the orders has been written before, all are looked up.
func (s streamedSale) Write(ctx context.Context, sku string, entries []stream.Entry, before bool) ([]stream.Fate, error) {
	fates, err := s.store.writeAccepted(ctx, sku, entries, before)
	if errors.Is(err, gorm.ErrDuplicatedKey) && !before {
		return s.store.writeAccepted(ctx, sku, entries, true)
	}
	return fates, err
}

func (s streamedSale) Doubt(e stream.Entry) {
	s.reconciliation.doubt(e.SKU, generation{saleID: e.SaleID, id: e.Generation})
}

func (s streamedSale) Settled(sku string, entries []stream.Entry, written bool) {
	s.accepted.settled(entries)
	if !written {
		return
	}
	ids := make(map[string]bool)
	for _, e := range entries {
		ids[e.ID] = true
	}
	s.accepted.unfollow(sku, maps.Keys(ids))
}

// orderOf is the order of an entry.
func orderOf(e stream.Entry) Order {
	order := Order{
		ID: e.ID, SKU: e.SKU, SaleID: e.SaleID, Quantity: e.Quantity,
		Buyer: &e.Buyer, Strategy: e.Strategy, CreatedAt: e.AcceptedAt,
	}
	if e.Key != "" {
		order.IdempotencyKey = &e.Key
	}
	return order
}

// checkEntry returns why an entry is not an order.
func checkEntry(e stream.Entry) error {
	if !orderIDForm.MatchString(e.ID) || e.Quantity < 1 || e.Quantity > MaxQuantity || len(e.Key) > MaxKey || len(e.Buyer) > MaxBuyer {
		return errors.New("it has no valid id, quantity, key or buyer")
	}
	return nil
}

// saleKeys are the keys of a sale that change together with its stream.
func saleKeys(sku, saleID, generationID string) stream.SaleKeys {
	k, g := keys{sku}, generation{saleID: saleID, id: generationID}
	return stream.SaleKeys{
		Sale: k.sale(), Stock: k.stock(g), Buyers: k.buyers(g), Claims: k.claimed(saleID, time.Now())[0],
	}
}
