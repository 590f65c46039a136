package holds

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"oversell/internal/message"
	"oversell/internal/stock"
)

func (s *Service) query(ctx context.Context, run func(db *gorm.DB) *gorm.DB, what string, args ...any) error {
	return stock.Query(ctx, s.cfg.DB, run, what, args...)
}

// join returns the item with its current sale. The first request decides the stage of the sale. If
// it is not the given stage, join returns ErrOtherStage.
func (s *Service) join(ctx context.Context, sku, stage string) (stock.Item, error) {
	item, err := s.heldItem(ctx, sku)
	if err != nil {
		return stock.Item{}, err
	}
	first, err := s.saleStage(ctx, item.SaleID, stage)
	if err == nil && first != stage {
		err = fmt.Errorf("%w: %s", ErrOtherStage, first)
	}
	return item, err
}

// heldItem reads the row of an item that is sold by holds.
func (s *Service) heldItem(ctx context.Context, sku string) (stock.Item, error) {
	item, err := s.item(ctx, sku)
	if err == nil && item.Keeper != stock.InHolds {
		err = fmt.Errorf("%w: it is not sold by holds; put the item on sale with keeper %s",
			stock.ErrLocation, stock.InHolds)
	}
	return item, err
}

func (s *Service) ttl(item stock.Item) time.Duration {
	if item.HoldSeconds > 0 {
		return time.Duration(item.HoldSeconds) * time.Second
	}
	return s.cfg.TTL
}

func (s *Service) item(ctx context.Context, sku string) (item stock.Item, err error) {
	err = s.query(ctx, func(db *gorm.DB) *gorm.DB {
		return db.Where("sku = ?", sku).Take(&item)
	}, "reading item %s", sku)
	if errors.Is(err, gorm.ErrRecordNotFound) {
		err = message.Errorf("%w: %s", stock.ErrUnknownItem, sku)
	}
	return item, err
}

// saleStage returns the stage of a sale. If the sale has none yet, it gets the given stage, unless
// that is "".
func (s *Service) saleStage(ctx context.Context, saleID, stage string) (string, error) {
	if known, ok := s.sales.Load(saleID); ok {
		return known.(string), nil
	}
	row := saleRow{SaleID: saleID, Stage: stage}
	if stage != "" {
		err := s.query(ctx, func(db *gorm.DB) *gorm.DB {
			return db.Clauses(clause.OnConflict{DoNothing: true}).Create(&row)
		}, "writing the stage of sale %s", saleID)
		if err != nil {
			return "", err
		}
	}
	err := s.query(ctx, func(db *gorm.DB) *gorm.DB {
		return db.Where("sale_id = ?", saleID).Take(&row)
	}, "reading the stage of sale %s", saleID)
	if errors.Is(err, gorm.ErrRecordNotFound) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	s.sales.Store(saleID, row.Stage)
	return row.Stage, nil
}

// Units counts the units of the item's sale that are not sold: those that can be held, and those in
// holds, including expired ones that no sweep has ended yet.
func (s *Service) Units(ctx context.Context, item stock.Item) (left, held int64, err error) {
	name, err := s.saleStage(ctx, item.SaleID, "")
	if err != nil {
		return 0, 0, err
	}
	u, err := s.units(ctx, item, name)
	return u.Left, u.Held + u.Due, err
}

func (s *Service) units(ctx context.Context, item stock.Item, name string) (Units, error) {
	stage, ok := s.cfg.Stages[name]
	if !ok { // no hold was requested yet
		return Units{Left: item.Remaining}, nil
	}
	u, err := stage.Units(ctx, item.SKU, item.SaleID)
	if err != nil {
		return Units{}, fmt.Errorf("counting the units of %s: %w", item.SKU, err)
	}
	return u, nil
}

// CheckRestock returns stock.ErrLocation for a sale whose stage has copied its units from the item's
// row into Redis.
func (s *Service) CheckRestock(ctx context.Context, item stock.Item) error {
	name, err := s.saleStage(ctx, item.SaleID, "")
	if err == nil && prefix(name) == "h1" {
		err = fmt.Errorf("%w: %s has copied it from the item's row into Redis; sell the item with another stage",
			stock.ErrLocation, name)
	}
	return err
}

// Forget removes the holds of an item. It returns stock.ErrHoldsOpen while one of them is open, or
// while a payment for one is not settled: a buyer may have been charged. A payment that could not
// be settled for a long time has an alarm and does not count. It stays on record, and can be
// settled without the item.
func (s *Service) Forget(tx *gorm.DB, item stock.Item) error {
	sku := item.SKU
	open, err := s.openUnits(tx, item)
	if err != nil {
		return err
	}
	var payments, elsewhere int64
	unsettled := tx.Model(&begunRow{}).
		Where("sku = ? AND times_unknown < ? AND refunds_failed < ? AND due_at < ?", sku, maxFailures, maxRefunds,
			int64(neverDue))
	err = errors.Join(unsettled.Session(&gorm.Session{}).Count(&payments).Error,
		unsettled.Session(&gorm.Session{}).Where("ledger NOT IN (?)", []string{"", s.cfg.Ledger}).
			Count(&elsewhere).Error)
	if err != nil {
		return fmt.Errorf("counting the payments under way for %s: %w", sku, err)
	}
	if open > 0 || payments > 0 {
		why := fmt.Sprintf("units held: %d, payments under way: %d", open, payments)
		if elsewhere > 0 {
			why += fmt.Sprintf(" (%d at another provider)", elsewhere)
		}
		return fmt.Errorf("%w: %s; delete it when they have ended", stock.ErrHoldsOpen, why)
	}
	sales := tx.Model(&stock.Sale{}).Select("id").Where("sku = ?", sku) // a sale may have no row of a hold
	for _, rows := range []any{&buyerRow{}, &saleRow{}} {
		if err := tx.Where("sale_id IN (?)", sales).Delete(rows).Error; err != nil {
			return fmt.Errorf("deleting the holds of %s: %w", sku, err)
		}
	}
	if err := tx.Where("sku = ?", sku).Delete(&row{}).Error; err != nil {
		return fmt.Errorf("deleting the holds of %s: %w", sku, err)
	}
	return nil
}

// openUnits counts the units in holds of the item's sale that have not expired. Holds of earlier
// sales do not count. The caller must have locked the item's row in tx.
func (s *Service) openUnits(tx *gorm.DB, item stock.Item) (units int64, err error) {
	err = tx.Model(&row{}).Select("COALESCE(SUM(quantity), 0)").
		Where("sku = ? AND sale_id = ? AND status = ? AND expires_at > "+s.sql.Clock, item.SKU, item.SaleID, Held).
		Scan(&units).Error
	if err != nil {
		return 0, fmt.Errorf("counting the open holds of %s: %w", item.SKU, err)
	}
	if units > 0 || item.SaleID == "" {
		return units, nil
	}
	name, err := s.saleStage(tx.Statement.Context, item.SaleID, "")
	if err != nil {
		return 0, err
	}
	u, err := s.units(tx.Statement.Context, item, name) // a stage may keep its holds elsewhere
	return u.Held, err
}

// Order returns the order that a hold has become, or ErrUnknownOrder.
func (s *Service) Order(ctx context.Context, id string) (Order, error) {
	if _, err := s.stageOf(id); err != nil {
		return Order{}, fmt.Errorf("%w: %s", ErrUnknownOrder, id)
	}
	var o stock.Order
	err := s.query(ctx, func(db *gorm.DB) *gorm.DB { return db.Where("id = ?", id).Take(&o) }, "reading order %s", id)
	if errors.Is(err, gorm.ErrRecordNotFound) {
		err = fmt.Errorf("%w: %s", ErrUnknownOrder, id)
	}
	return orderOf(o), err
}

// orderOf converts a row, which has the payment as its idempotency key.
func orderOf(row stock.Order) Order {
	o := Order{ID: row.ID, SKU: row.SKU, SaleID: row.SaleID, Quantity: row.Quantity, CreatedAt: row.CreatedAt.UTC()}
	if row.IdempotencyKey != nil {
		o.PaymentID = *row.IdempotencyKey
	}
	return o
}
