package stock

import (
	"context"
	"crypto/sha256"
	"database/sql/driver"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/google/uuid"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"oversell/internal/stock/stream"
)

// newOrder returns an order for the buyer's units. Its id begins with the time: otherwise each
// insert would touch a different page of the database's index. It ends with the first digits of the
// sale's id, from which store.itemsOf finds the item.
func (p *purchase) newOrder(created time.Time) Order {
	id := uuid.Must(uuid.NewV7()).String()
	if sale := p.gen.saleID; len(sale) >= saleDigits {
		id = id[:len(id)-saleDigits] + sale[:saleDigits]
	}
	order := Order{
		ID: id, SaleID: p.gen.saleID, SKU: p.req.SKU,
		Quantity: p.req.Quantity, Strategy: p.req.Strategy, CreatedAt: created,
		Buyer: &p.req.Buyer,
	}
	if p.req.IdempotencyKey != "" {
		order.IdempotencyKey = &p.req.IdempotencyKey
	}
	return order
}

// saleDigits is the number of digits of the sale's id at the end of an order's id.
const saleDigits = 6

// itemsOf returns the items that an order with this id may belong to. It rarely returns more than
// one. It reads one range of an index.
func (s store) itemsOf(ctx context.Context, id string) (skus []string, err error) {
	if _, err := uuid.Parse(id); err != nil {
		return nil, nil
	}
	begin := id[len(id)-saleDigits:]
	err = s.query(ctx, func(db *gorm.DB) *gorm.DB {
		return db.Model(&Sale{}).Where("id >= ? AND id < ?", begin, begin+"g").Distinct().Pluck("sku", &skus)
	}, "looking up the item of order %s", id)
	return skus, err
}

func (p *purchase) doubt() { p.service.reconciliation.doubt(p.req.SKU, p.gen) }

// errRecounted means that an order was not written, and that its units are back in the stock, which
// was rebuilt.
var errRecounted = errors.New("the order was not written")

// writeOrders writes orders of one generation of one item, all or none, and returns an error for
// each: errOtherSale if the generation is no longer current, or errDuplicate. If the database does
// not confirm whether it wrote them, writeOrders ends the generation and looks them up. Only if
// that fails too does it return errUnsure: the units stay taken until the orders can be counted.
//
// The argument changes is the value of reconciliation.changes from before the generation was read.
// If Redis has been replaced since then, the units may come from an older stock of the same
// generation, and the orders are not written.
func (s *Service) writeOrders(ctx context.Context, g generation, changes uint64, orders []*Order) []error {
	if s.reconciliation.changes() != changes {
		s.reconciliation.doubt(orders[0].SKU, g)
		err := fmt.Errorf("writing an order: Redis was replaced by another one: %w", errOtherSale)
		return slices.Repeat([]error{err}, len(orders))
	}
	errs := make([]error, len(orders))
	tctx, cancel := context.WithTimeout(ctx, dbTimeout)
	defer cancel()
	// A count of the stock locks the row for a moment.
	err := retried(func() error { return s.store.create(tctx, g, orders) })
	if err == nil {
		return errs
	}
	var written map[string]bool
	if err = s.store.outcome(ctx, tctx, orders[0], err); errors.Is(err, errUnsure) {
		ids := make([]string, len(orders))
		for i, o := range orders {
			ids[i] = o.ID
		}
		var lookErr error
		if written, lookErr = s.findWritten(ctx, orders[0].SKU, g, ids); lookErr == nil {
			err = fmt.Errorf("%w: %v", errRecounted, err)
		} else {
			err = errors.Join(err, lookErr)
		}
	}
	for i, o := range orders {
		if !written[o.ID] {
			errs[i] = err
		}
	}
	return errs
}

// undo puts the units back if the order could not be written; err says why. If the order may have
// been written, the units stay taken: an unsold unit is better than a unit sold twice. If the
// generation has ended, there is nothing to put back, because the next one was counted from the
// orders.
func (p *purchase) undo(ctx context.Context, order Order, err error) error {
	s := p.service
	switch {
	case errors.Is(err, errUnsure):
		p.doubt()
		s.log.Error("units may be taken with no order",
			"sku", p.req.SKU, "quantity", p.req.Quantity, "order", order.ID, "error", err)
		return err
	case errors.Is(err, errOtherSale), errors.Is(err, errRecounted):
	default:
		if backErr := s.redis.putBack(ctx, p.req.SKU, p.gen, p.req.Quantity); backErr != nil {
			p.doubt()
			s.log.Error("units are taken with no order", "sku", p.req.SKU, "quantity", p.req.Quantity, "error", backErr)
			return errors.Join(err, errNotReturned, backErr)
		}
		p.res.Left += p.req.Quantity
	}
	if errors.Is(err, errDuplicate) {
		return p.answerFirst(ctx)
	}
	return err
}

// errNotReturned means that units of an order that was not written are still taken.
var errNotReturned = errors.New("the units could not be put back")

// answerFirst answers with the order that another request with the same key has written first.
func (p *purchase) answerFirst(ctx context.Context) error {
	err := p.replay(ctx)
	if err == nil && !p.res.Replayed {
		err = fmt.Errorf("%w, but was not found", errDuplicate)
	}
	return err
}

// errDuplicate means that an order with the same idempotency key exists.
var errDuplicate = errors.New("an order with this idempotency key exists")

// errUnsure means that the order may or may not have been written: the database did not confirm it,
// and either it cannot be asked or it may still write the order.
var errUnsure = errors.New("it is not known whether the order was written")

// outcome finds out whether a statement or transaction that ended with err wrote the order, perhaps
// among others. The statement ran with tctx, and ctx is the context of the caller. If the order is
// nil, there is nothing to look up.
func (s store) outcome(ctx, tctx context.Context, order *Order, err error) error {
	switch {
	case err == nil:
		return nil
	case refused(err):
		return err
	case errors.Is(err, gorm.ErrDuplicatedKey):
		return errDuplicate
	case Retryable(err):
		return fmt.Errorf("%w: %w", errConflict, err)
	case order == nil:
		return fmt.Errorf("writing the stock: %w", err)
	case neverSent(err):
		return fmt.Errorf("writing order %s: %w", order.ID, err)
	}
	late := tctx.Err() != nil || s.mayStillRun(err)
	err = fmt.Errorf("writing order %s: %w", order.ID, err)
	written, lookErr := s.written(ctx, order.ID)
	switch {
	case written[order.ID]:
		return nil
	case late || lookErr != nil:
		return errors.Join(errUnsure, err, lookErr)
	}
	return err
}

// create writes orders if their generation is current, which it checks in the same statement or
// transaction. It takes a shared lock on the item's row, which blocks a change of sale but no other
// order.
func (s store) create(ctx context.Context, g generation, orders []*Order) error {
	db := s.db.WithContext(ctx)
	if len(orders) == 1 {
		o, statement := orders[0], "INSERT INTO `oversell_orders` (id, sku, sale_id, quantity, idempotency_key, "+
			"buyer, strategy, created_at) SELECT ?, ?, ?, ?, ?, ?, ?, ? "+
			"FROM oversell_items WHERE sku = ? AND generation = ?"
		if s.db.Name() == "mysql" {
			statement += " LOCK IN SHARE MODE"
		}
		done := db.Exec(statement, o.ID, o.SKU, o.SaleID, o.Quantity, o.IdempotencyKey, o.Buyer, o.Strategy,
			o.CreatedAt, o.SKU, g.id)
		if done.Error == nil && done.RowsAffected == 0 {
			return errOtherSale
		}
		return done.Error
	}
	return db.Transaction(func(tx *gorm.DB) error {
		current := tx.Model(&Item{}).Select("1").Where("sku = ? AND generation = ?", orders[0].SKU, g.id)
		var one int
		if err := current.Clauses(locking(tx, clause.LockingStrengthShare)...).Take(&one).Error; err != nil {
			if errors.Is(err, gorm.ErrRecordNotFound) {
				return errOtherSale
			}
			return fmt.Errorf("checking the sale: %w", err)
		}
		return tx.Create(orders).Error
	})
}

// maxTxAttempts is how many times a transaction is tried if it conflicts with others.
const maxTxAttempts = 5

// retried runs the transaction f, and repeats it if it conflicts with another one.
func retried(f func() error) (err error) {
	for range maxTxAttempts {
		if err = f(); !Retryable(err) && !errors.Is(err, errAppeared) {
			break
		}
	}
	return err
}

// The errors of MySQL and MariaDB after which a transaction may be tried again: it conflicted with
// another one, and was rolled back.
const (
	erLockWaitTimeout = 1205
	erLockDeadlock    = 1213
	erCheckread       = 1020 // MariaDB: the row has changed since the transaction began
)

// Retryable reports whether the database rolled a transaction back because of a conflict.
func Retryable(err error) bool { return IsMySQL(err, erLockWaitTimeout, erLockDeadlock, erCheckread) }

// IsMySQL reports whether err is an error of MySQL or MariaDB with one of these numbers.
func IsMySQL(err error, numbers ...uint16) bool {
	var serverErr *mysql.MySQLError
	return errors.As(err, &serverErr) && slices.Contains(numbers, serverErr.Number)
}

// mayStillRun reports whether the server may still execute a statement that failed. A server
// finishes a statement even if the connection breaks in the middle; only an error that the server
// itself has sent is final. SQLite runs in this process, so its statement is over when it has
// returned.
func (s store) mayStillRun(err error) bool {
	var serverErr *mysql.MySQLError
	return s.db.Name() == "mysql" && !errors.As(err, &serverErr)
}

// neverSent reports whether a statement failed because there was no connection, so that
// the server has never seen it.
func neverSent(err error) bool {
	var op *net.OpError
	return errors.Is(err, driver.ErrBadConn) || errors.As(err, &op) && op.Op == "dial"
}

// The states of an order.
const (
	StateAccepted    = "accepted"     // its units are taken; it is in the stream or a "failed" dead letter
	StateWritten     = "written"      // it is in the database
	StateNotAccepted = "not_accepted" // it was refused after it was accepted, and has no units
)

// ErrNotAccepted means that an order was refused after it was accepted.
var ErrNotAccepted = errors.New("the order is not accepted")

// ErrUnknownOrder means that no order has the id, and none ever will.
var ErrUnknownOrder = errors.New("unknown order")

// OrderState is an order and its state.
type OrderState struct {
	Order
	State  string `json:"state"`
	Reason string `json:"reason,omitempty"` // why it is not accepted, or is a dead letter that waits for a retry
}

// Err returns ErrNotAccepted with the reason if the order is not accepted.
func (o OrderState) Err() error {
	if o.State != StateNotAccepted {
		return nil
	}
	return fmt.Errorf("%w: %s", ErrNotAccepted, o.Reason)
}

// The reasons that a buyer gets if the database did not take the order. The error itself is only in
// the dead letter: it is not for buyers.
const (
	reasonWaits = stream.ReasonFailed + ", and it waits for a retry of the dead letters"
	reasonEnded = stream.ReasonFailed + ", and the stock was counted again before a retry"
)

// OrderState returns the state of an order. If sku is "", the id says where to look; see newOrder.
// It returns ErrUnknownOrder if there is no such order, and ErrInvalid for an id that no order can
// have.
func (s *Service) OrderState(ctx context.Context, sku, id string) (OrderState, error) {
	if !printable(id, maxOrderID) {
		return OrderState{}, fmt.Errorf("%w: that is not the id of an order", ErrInvalid)
	}
	if sku != "" {
		if err := CheckSKU(sku); err != nil {
			return OrderState{}, err
		}
	}
	if found, err := s.writtenState(ctx, id); err == nil || !errors.Is(err, ErrUnknownOrder) {
		return found, err
	}
	skus := []string{sku}
	if sku == "" {
		var err error
		if skus, err = s.store.itemsOf(ctx, id); err != nil {
			return OrderState{}, err
		}
	}
	for _, sku := range skus {
		found, ok, err := s.streams.Find(ctx, sku, id)
		if err != nil {
			return OrderState{}, err
		}
		if ok {
			return s.stateOf(ctx, found)
		}
	}
	if lost, ok, err := find[lostOrder](ctx, s.store, id); ok || err != nil {
		order := Order{ID: id, SKU: lost.SKU, SaleID: lost.SaleID, Strategy: StreamFamily}
		return OrderState{Order: order, State: StateNotAccepted, Reason: reasonLost}, err
	}
	// It may have been written, and removed from the stream, since the first look-up.
	return s.writtenState(ctx, id)
}

func (s *Service) writtenState(ctx context.Context, id string) (OrderState, error) {
	order, ok, err := find[Order](ctx, s.store, id)
	if err == nil && !ok {
		err = fmt.Errorf("%w: %s: it was never accepted, or Redis lost it before it was written", ErrUnknownOrder, id)
	}
	return OrderState{Order: order, State: StateWritten}, err
}

// stateOf returns the state of an order that is in the stream or is a dead letter.
func (s *Service) stateOf(ctx context.Context, found stream.DeadLetter) (OrderState, error) {
	state := OrderState{Order: orderOf(found.Entry), State: StateAccepted, Reason: found.Reason}
	if found.Kind == "" {
		return state, nil
	}
	item, err := s.store.item(ctx, found.SKU)
	if err != nil && !errors.Is(err, ErrUnknownItem) {
		return OrderState{}, err
	}
	switch {
	case found.Kind != stream.Failed:
		state.State = StateNotAccepted
	case found.Generation != item.Generation:
		state.State, state.Reason = StateNotAccepted, reasonEnded
	default:
		state.Reason = reasonWaits
	}
	return state, nil
}

// MaxOrders is the maximum number of orders on a page.
const MaxOrders = 5_000

// maxOrderID is the maximum number of bytes of an order's id: a UUID has as many.
const maxOrderID = 36

// Orders is a page of the orders of an item's current sale.
type Orders struct {
	SKU    string        `json:"sku"`
	SaleID string        `json:"sale_id"`
	Orders []ListedOrder `json:"orders"` // sorted by id
	Next   string        `json:"next"`   // the id after which the next page begins; "": this is the last page
}

// ListedOrder is an order in a list. It has a hash of the idempotency key, because the key is the
// buyer's secret: anyone who sends it, with the same quantity and buyer, gets the order.
type ListedOrder struct {
	ID        string    `json:"order_id"`
	Quantity  int64     `json:"quantity"`
	Strategy  string    `json:"strategy"`
	CreatedAt time.Time `json:"created_at"`
	KeyHash   string    `json:"key_hash,omitempty"` // see KeyHash; "": the order has no key
}

// KeyHash returns the SHA-256 of an idempotency key in hexadecimal digits, or "" for no key. A
// buyer who knows the key can find the order by the hash.
func KeyHash(key string) string {
	if key == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:])
}

// Orders lists the orders of an item's current sale whose ids are larger than after, up to limit of
// them. During a sale a page may lack orders that are written at the same time or later. It returns
// ErrUnknownItem if there is no such item, and ErrInvalid for a limit that is not 1 to MaxOrders or
// an id that no order can have.
func (s *Service) Orders(ctx context.Context, sku, after string, limit int) (Orders, error) {
	if limit < 1 || limit > MaxOrders {
		return Orders{}, fmt.Errorf("%w: limit is %d; it must be 1 to %d", ErrInvalid, limit, MaxOrders)
	}
	if after != "" && !printable(after, maxOrderID) {
		return Orders{}, fmt.Errorf("%w: after must be the id of an order", ErrInvalid)
	}
	item, err := s.Item(ctx, sku)
	if err != nil {
		return Orders{}, err
	}
	page := Orders{SKU: sku, SaleID: item.SaleID, Orders: []ListedOrder{}}
	var rows []Order
	err = s.store.query(ctx, func(db *gorm.DB) *gorm.DB {
		return db.Select("id", "quantity", "strategy", "created_at", "idempotency_key").
			Where("sku = ? AND sale_id = ? AND id > ?", sku, item.SaleID, after).
			Order("id").Limit(limit + 1).Find(&rows)
	}, "reading the orders of sale %s", item.SaleID)
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
