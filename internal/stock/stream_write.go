package stock

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"

	"github.com/go-sql-driver/mysql"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"oversell/internal/stock/stream"
)

// The reasons to refuse an order for good.
var (
	refusedEnded = stream.Refusal{Kind: stream.Refused, Reason: "the stock was counted again before the " +
		"order was written"}
	refusedTooFew = stream.Refusal{Kind: stream.Refused, Reason: "the database has too few units left: Redis " +
		"had lost sales", Doubt: true}
	refusedLimit = stream.Refusal{Kind: stream.Refused, Reason: "the buyer's limit is reached: Redis had " +
		"lost sales", Doubt: true}
	refusedKey = stream.Refusal{Kind: stream.Refused, Reason: "another order has the idempotency key",
		PutBack: true}
	refusedMalformed = stream.Refusal{Kind: stream.Refused, Reason: "the entry is not an order"}
)

// writeAccepted writes accepted orders of an item in one transaction, which also takes their units
// from the item's row. So there are never more units in orders than the sale has, even if Redis has
// lost sales and sold the units again, and no buyer gets more units than the item's limit. An order
// of another generation is refused.
//
// If before is true, the orders may have been written before, for example by a consumer that died,
// and are looked up first. Otherwise writeAccepted returns gorm.ErrDuplicatedKey if one of them
// exists.
func (s store) writeAccepted(
	ctx context.Context, sku string, entries []stream.Entry, before bool,
) (fates []stream.Fate, err error) {
	err = s.change(ctx, func(tx store) error {
		item, err := tx.locked(sku)
		if errors.Is(err, ErrUnknownItem) {
			item, err = Item{}, nil // no order can be current
		}
		if err != nil {
			return err
		}
		var accepted []*stream.Fate
		var bought map[string]int64
		if fates, accepted, bought, err = tx.judge(item, entries, before); err != nil {
			return err
		}
		return tx.writeJudged(item, accepted, bought)
	})
	return fates, err
}

// judge decides which of the orders are accepted: those that can be written and are not written
// yet. If the item has a limit, it also returns each buyer's units, including these orders. The
// caller must have locked the item's row.
func (s store) judge(
	item Item, entries []stream.Entry, before bool,
) (fates []stream.Fate, accepted []*stream.Fate, bought map[string]int64, err error) {
	for _, e := range entries {
		before = before || e.Generation != item.Generation // a count may have written it
	}
	written, used := make(map[string]bool), make(map[string]bool)
	if before {
		if written, used, err = s.known(item, entries); err != nil {
			return nil, nil, nil, err
		}
	}
	if bought, err = s.bought(item, entries); err != nil {
		return nil, nil, nil, err
	}
	left := item.Remaining
	fates = make([]stream.Fate, len(entries))
	for i, e := range entries {
		f := &fates[i]
		f.Entry = e
		switch {
		case e.Malformed != nil:
			f.Refusal = refusedMalformed
		case written[e.ID]:
			f.Written = true
		case e.Generation != item.Generation || e.SaleID != item.SaleID:
			f.Refusal = refusedEnded
		case e.Key != "" && used[e.Key]:
			f.Refusal = refusedKey
		case e.Quantity > left:
			f.Refusal = refusedTooFew
		case item.Limit > 0 && (e.Buyer == "" || bought[e.Buyer]+e.Quantity > item.Limit):
			f.Refusal = refusedLimit
		default:
			accepted = append(accepted, f)
			left -= e.Quantity
			bought[e.Buyer] += e.Quantity
			written[e.ID] = true // an order may have two entries
			used[e.Key] = true
		}
	}
	return fates, accepted, bought, nil
}

// bought returns the units that the buyers of the entries have in the written orders of the
// item's sale, if the item has a limit.
func (s store) bought(item Item, entries []stream.Entry) (map[string]int64, error) {
	units := make(map[string]int64)
	if item.Limit == 0 {
		return units, nil
	}
	names := make(map[string]bool)
	for _, e := range entries {
		names[e.Buyer] = true
	}
	for page := range slices.Chunk(slices.Collect(maps.Keys(names)), pageSize) {
		var found []purchased
		at := s.db.Where("sku = ? AND sale_id = ? AND buyer IN ?", item.SKU, item.SaleID, page)
		if err := at.Find(&found).Error; err != nil {
			return nil, fmt.Errorf("reading the units of %d buyers of %s: %w", len(page), item.SKU, err)
		}
		for _, b := range found {
			units[b.Buyer] = b.Units
		}
	}
	return units, nil
}

// buyers returns up to limit buyers of the item's sale, in order of name, after the given name.
func (s store) buyers(item Item, after string, limit int) (found []purchased, err error) {
	err = s.db.Where("sku = ? AND sale_id = ? AND buyer > ?", item.SKU, item.SaleID, after).
		Order("buyer").Limit(limit).Find(&found).Error
	return found, err
}

// setBought writes the units that the buyers of these orders have now, if the item has a limit. The
// caller must have locked the item's row.
func (s store) setBought(item Item, written []*stream.Fate, bought map[string]int64) error {
	if item.Limit == 0 {
		return nil
	}
	rows := make(map[string]purchased) // by buyer
	for _, f := range written {
		rows[f.Buyer] = purchased{item.SKU, item.SaleID, f.Buyer, bought[f.Buyer]}
	}
	for page := range slices.Chunk(slices.Collect(maps.Values(rows)), maxBatch) {
		if err := s.db.Clauses(clause.OnConflict{UpdateAll: true}).Create(page).Error; err != nil {
			return fmt.Errorf("writing the units of %d buyers of %s: %w", len(page), item.SKU, err)
		}
	}
	return nil
}

// known returns which of the orders are written, and which of their idempotency keys are used by
// written orders of the item's sale.
func (s store) known(item Item, entries []stream.Entry) (written, used map[string]bool, err error) {
	var ids, all []string
	for _, e := range entries {
		ids = append(ids, e.ID)
		if e.Key != "" {
			all = append(all, e.Key)
		}
	}
	if written, err = s.written(s.db.Statement.Context, ids...); err != nil {
		return nil, nil, err
	}
	used = make(map[string]bool)
	for page := range slices.Chunk(all, pageSize) {
		var found []string
		err := s.db.Model(&Order{}).
			Where("sku = ? AND sale_id = ? AND idempotency_key IN ?", item.SKU, item.SaleID, page).
			Pluck("idempotency_key", &found).Error
		if err != nil {
			return nil, nil, fmt.Errorf("looking up %d idempotency keys: %w", len(page), err)
		}
		for _, key := range found {
			used[key] = true
		}
	}
	return written, used, nil
}

// writeJudged writes the orders that can be written, and takes their units from the item's
// row.
func (s store) writeJudged(item Item, accepted []*stream.Fate, bought map[string]int64) error {
	if len(accepted) == 0 {
		return nil
	}
	var units int64
	for _, f := range accepted {
		f.Written = true
		units += f.Quantity
	}
	err := s.db.Model(&Item{}).Where("sku = ?", item.SKU).
		UpdateColumns(map[string]any{"remaining": gorm.Expr("remaining - ?", units),
			"version": gorm.Expr("version + 1")}).Error
	if err != nil {
		return fmt.Errorf("taking %d units from the row of %s: %w", units, item.SKU, err)
	}
	for page := range slices.Chunk(accepted, maxBatch) {
		if err := s.createMany(page); err != nil {
			return err
		}
	}
	return s.setBought(item, accepted, bought)
}

// writeLast writes the accepted orders of a generation that is about to end, as many as there are
// units for. It leaves out an order whose values the database refuses: it cannot be written once
// the generation has ended. After any other error the generation must not end. The caller must have
// locked the item's row, and made sure that nobody can accept another order in this generation.
func (s store) writeLast(item Item, entries []stream.Entry) error {
	var err error
	if item.Remaining, err = s.leftByOrders(item); err != nil {
		return err
	}
	_, accepted, bought, err := s.judge(item, entries, true)
	if err != nil {
		return err
	}
	for page := range slices.Chunk(accepted, maxBatch) {
		err := s.createMany(page)
		if err == nil {
			continue
		}
		if !errors.As(err, new(stream.ValuesError)) {
			return fmt.Errorf("writing %d accepted orders of %s: %w", len(page), item.SKU, err)
		}
		for _, f := range page { // none of the page was written
			err := s.createMany([]*stream.Fate{f})
			if err != nil && !errors.As(err, new(stream.ValuesError)) {
				return fmt.Errorf("writing accepted order %s: %w", f.ID, err)
			}
			if err != nil {
				bought[f.Buyer] -= f.Quantity
			}
		}
	}
	return s.setBought(item, accepted, bought)
}

// createMany writes the orders of a page of fates in one statement, within a transaction. It
// returns a stream.ValuesError if the database refuses the values of an order.
func (s store) createMany(page []*stream.Fate) error {
	orders := make([]*Order, len(page))
	for i, f := range page {
		order := orderOf(f.Entry)
		orders[i] = &order
	}
	err := s.db.Create(orders).Error
	if refusesValues(err) {
		return stream.ValuesError{Err: err}
	}
	return err
}

// away reports whether the database did not answer, or rolled the transaction back because of a
// conflict. Then the same orders are tried again together.
func away(err error) bool {
	if Retryable(err) {
		return true
	}
	var sqlite interface{ Code() int }
	if errors.As(err, &sqlite) {
		return sqliteBusy[sqlite.Code()&0xff] // the rest is the extended code
	}
	var network net.Error
	if errors.As(err, &network) {
		return true
	}
	return isAny(err, context.DeadlineExceeded, context.Canceled, driver.ErrBadConn, mysql.ErrInvalidConn,
		sql.ErrConnDone, sql.ErrTxDone)
}

// sqliteBusy holds the codes that SQLite returns while another connection writes: SQLITE_BUSY and
// SQLITE_LOCKED.
var sqliteBusy = map[int]bool{5: true, 6: true}

// refusesValues reports whether the database refused to insert a row because of its values. Only
// then does an order become a dead letter: a missing table or column, a revoked privilege, a server
// that is read-only or full, and any unknown error say nothing about the order.
func refusesValues(err error) bool {
	if isAny(err, gorm.ErrDuplicatedKey, gorm.ErrForeignKeyViolated, gorm.ErrCheckConstraintViolated) {
		return true
	}
	var serverErr *mysql.MySQLError
	if errors.As(err, &serverErr) {
		// a SIGNAL that sets its own error number
		return mysqlValues[serverErr.Number] || string(serverErr.SQLState[:2]) == "45"
	}
	var sqlite interface{ Code() int }
	return errors.As(err, &sqlite) && sqliteValues[sqlite.Code()&0xff]
}

// mysqlValues holds the error codes of MySQL and MariaDB about the values of a row.
var mysqlValues = map[uint16]bool{
	1048: true,                         // NULL in a column that is NOT NULL
	1062: true, 1169: true, 1586: true, // a unique index
	1216: true, 1452: true, // a foreign key
	1264: true, 1406: true, 1690: true, // out of range, too long
	1265: true, 1292: true, 1366: true, 1367: true, 3140: true, // not a valid value of the type
	1644: true,             // SIGNAL in a trigger
	3819: true, 4025: true, // a check
}

// sqliteValues holds the corresponding codes of SQLite: SQLITE_TOOBIG, SQLITE_CONSTRAINT (also for
// a RAISE in a trigger) and SQLITE_MISMATCH.
var sqliteValues = map[int]bool{18: true, 19: true, 20: true}

// Consume writes accepted orders of all items until ctx ends. Several processes may consume
// at the same time. It returns when the transactions that have begun are finished.
func (s *Service) Consume(ctx context.Context, c stream.Consumer) {
	s.streams.Consume(ctx, streamedSale{s}, s.log, c)
}

// streamedSale implements stream.Sale for a Service.
type streamedSale struct{ *Service }

func (s streamedSale) Items(ctx context.Context) ([]string, error) {
	return s.store.skus(ctx, "family = ?", StreamFamily)
}
func (s streamedSale) Accepted() <-chan struct{} { return s.accepted.wake }
func (s streamedSale) TakeAccepted() []string    { return s.accepted.takeFresh() }

// Write calls store.writeAccepted. If one of the orders turns out to be written already, it tries
// again and looks all of them up.
func (s streamedSale) Write(
	ctx context.Context, sku string, entries []stream.Entry, before bool,
) ([]stream.Fate, error) {
	fates, err := s.store.writeAccepted(ctx, sku, entries, before)
	if errors.Is(err, gorm.ErrDuplicatedKey) && !before {
		fates, err = s.store.writeAccepted(ctx, sku, entries, true)
	}
	if err != nil && away(err) {
		err = fmt.Errorf("%w: %w", stream.ErrAway, err)
	}
	return fates, err
}

func (s streamedSale) Settled(fates []stream.Fate) {
	for _, f := range fates {
		if f.Written {
			s.accepted.unfollowOrders(f.SKU, f.ID)
		}
		if f.Doubt {
			s.reconciliation.doubt(f.SKU, generation{saleID: f.SaleID, id: f.Generation})
		}
	}
}

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

func checkEntry(e stream.Entry) error {
	if !printable(e.ID, maxOrderID) || e.Quantity < 1 || e.Quantity > MaxQuantity || len(e.Key) > MaxKey ||
		len(e.Buyer) > MaxBuyer {
		return errors.New("it has no valid id, quantity, key or buyer")
	}
	return nil
}
