package chaos

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"oversell/internal/bench/report"
	"oversell/internal/figures"
	"oversell/internal/guard"
)

const (
	// lastBuyers is the number of concurrent buyers of the final sell-out.
	lastBuyers = 32
	// lastTime is how long it may take.
	lastTime = 90 * time.Second
	// grace is how long units that are neither sold nor on sale may take to come back.
	grace = 5 * time.Second
)

// sellOut sells what is left: only then it is known whether more was sold than there was,
// and whether units are stranded.
func (cfg Config) sellOut(ctx context.Context, c *crowd, r *report.Chaos) error {
	ctx, cancel := context.WithTimeoutCause(ctx, lastTime, errLast)
	defer cancel()
	var bought atomic.Int64
	var next atomic.Int64
	next.Store(r.Planned)
	round := func() {
		var last sync.WaitGroup
		var over atomic.Bool
		for range lastBuyers {
			last.Go(func() {
				for !over.Load() && ctx.Err() == nil {
					n := int(next.Add(1))
					o := c.buy(ctx, n, keyOf(n))
					switch {
					case o.Sold():
						bought.Add(1)
					case o.Code == codeSoldOut:
						over.Store(true)
					}
				}
			})
		}
		last.Wait()
		r.SoldOut = over.Load()
	}
	for end := time.Now().Add(grace); ; {
		round()
		r.BoughtAtEnd = bought.Load()
		if !r.SoldOut || c.sales.acknowledged() >= cfg.Units || time.Now().After(end) {
			break
		}
		// Missing units may still come back.
		if guard.Sleep(ctx, grace/10) != nil {
			break
		}
	}
	if ctx.Err() != nil && context.Cause(ctx) != errLast {
		return context.Cause(ctx)
	}
	return nil
}

var errLast = fmt.Errorf("the rest could not be sold within %v", lastTime)

// audit compares the orders with what the buyers were told.
func (cfg Config) audit(ctx context.Context, s *sales, r *report.Chaos) error {
	rows, err := cfg.Servers.Orders(ctx, cfg.SKU)
	if err != nil {
		return err
	}
	if r.Remaining, err = cfg.Remaining(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	compare(rows, cfg.SaleID, cfg.Units, s, r)
	return nil
}

// compare computes the figures. The caller has locked s.
func compare(rows []Order, saleID string, units int64, s *sales, r *report.Chaos) {
	r.Acknowledged = int64(len(s.acked))
	var c figures.Comparison
	for key, id := range s.acked {
		c.Answer(figures.Answer{Order: id, Quantity: 1, Asked: 1, Key: key})
	}
	for key := range s.cut {
		c.CutOff(key)
	}
	written := make(map[string]string, len(rows)) // key by id
	keys := make(map[string]bool, len(rows))
	for _, row := range rows {
		if row.SaleID != saleID {
			r.Foreign += row.Quantity
			continue
		}
		c.Order(figures.Written{Order: row.ID, Quantity: row.Quantity, Key: row.IdempotencyKey})
		written[row.ID] = row.IdempotencyKey
		r.Sold += row.Quantity
		if keys[row.IdempotencyKey] {
			r.DuplicateIDs = few(r.DuplicateIDs, row.ID)
		}
		keys[row.IdempotencyKey] = true
	}
	for key, id := range s.acked {
		if of, found := written[id]; !found || of != key {
			r.MissingIDs = few(r.MissingIDs, id)
		}
	}
	told := c.Told()
	r.Missing, r.Duplicates, r.Unreported = told.AcknowledgedMissing, told.Duplicates, told.Unreported
	r.Oversold = max(0, r.Sold-units)
	r.Stranded = max(0, units-r.Sold-max(0, r.Remaining))
}

// few keeps the first few ids.
func few(ids []string, id string) []string {
	if len(ids) < sample {
		ids = append(ids, id)
	}
	return ids
}
