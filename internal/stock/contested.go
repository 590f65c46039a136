package stock

import (
	"context"
	"fmt"

	"gorm.io/gorm"
)

// maxConditional bounds the concurrent sections of Conditional in this process.
const maxConditional = 16

// Conditional isolates without a lock, by checking in the statement that takes the units:
// UPDATE … SET remaining = remaining - n WHERE remaining >= n. The database lets one
// such statement at a time have the row.
func Conditional(db *gorm.DB) Isolation {
	return newRepeated(make(Slots, maxConditional), inDatabase, func(ctx, _ context.Context, at Location, section Section) error {
		return section(ctx, conditional{ledger{store: store{db}, at: at}})
	})
}

// conditional takes units whatever Get has read.
type conditional struct{ ledger }

func (c conditional) sell(ctx context.Context, _ int64, order *Order) error {
	return c.commit(ctx, order, func(tx *gorm.DB) error {
		enough := func(tx *gorm.DB) *gorm.DB { return tx.Where("remaining >= ?", order.Quantity) }
		tooFew := func(now Item) error { return tooFewError{now.Remaining} }
		return c.update(tx, map[string]any{"remaining": gorm.Expr("remaining - ?", order.Quantity)}, tooFew, enough)
	})
}

// tooFewError is an ErrSoldOut with the number of units left.
type tooFewError struct{ left int64 }

func (e tooFewError) Error() string { return fmt.Sprintf("%v: %d left", ErrSoldOut, e.left) }
func (e tooFewError) Unwrap() error { return ErrSoldOut }

// Versioned isolates without a lock, by compare and swap: each write increments a
// version, and is refused if the version is no longer the one that was read. The loser
// sleeps and does everything again.
func Versioned(db *gorm.DB) Isolation {
	return newRepeated(make(Slots, maxAttempts), inDatabase, func(ctx, _ context.Context, at Location, section Section) error {
		return section(ctx, &versioned{ledger: ledger{store: store{db}, at: at}})
	})
}

type versioned struct {
	ledger
	read int64 // the version that Get found
}

func (v *versioned) Get(ctx context.Context) (int64, error) {
	item, err := v.current(ctx)
	v.read = item.Version
	return item.Remaining, err
}

func (v *versioned) sell(ctx context.Context, left int64, order *Order) error {
	return v.commit(ctx, order, func(tx *gorm.DB) error {
		unchanged := func(tx *gorm.DB) *gorm.DB { return tx.Where("version = ?", v.read) }
		return v.update(tx, map[string]any{"remaining": left}, nil, unchanged)
	})
}

// needsMySQL returns an error for a database other than MySQL and MariaDB.
func needsMySQL(db *gorm.DB, what string) error {
	if db.Name() == "mysql" {
		return nil
	}
	return fmt.Errorf("%w: %s has no %s; use MySQL or MariaDB", ErrLocation, db.Name(), what)
}
