package stock

import (
	"context"
	"fmt"

	"gorm.io/gorm"

	"oversell/internal/locks"
)

// maxConditional bounds the buyers in a section at once in this process that keeps
// nobody out.
const maxConditional = 16

// Conditional returns the Guard that keeps nobody out, and leaves the check to the
// statement that takes the units: UPDATE … SET remaining = remaining - n WHERE
// remaining >= n. The database lets one such statement at a time have the row.
func Conditional(db *gorm.DB) Guard {
	return newRepeated(make(attempts, maxConditional), inDatabase, func(ctx context.Context, at Place, _ locks.Entry, section Section) error {
		return section(context.WithoutCancel(ctx), conditional{ledger{store: store{db}, at: at}})
	})
}

// conditional takes units whatever was read: that is only a first look.
type conditional struct{ ledger }

func (c conditional) sell(ctx context.Context, _ int64, order *Order) error {
	return c.commit(ctx, order, func(tx *gorm.DB) error {
		enough := func(tx *gorm.DB) *gorm.DB { return tx.Where("remaining >= ?", order.Quantity) }
		tooFew := func(now Item) error { return tooFewError{now.Remaining} }
		return c.update(tx, map[string]any{"remaining": gorm.Expr("remaining - ?", order.Quantity)}, tooFew, enough)
	})
}

// tooFewError is an ErrSoldOut that knows how many units are left.
type tooFewError struct{ left int64 }

func (e tooFewError) Error() string { return fmt.Sprintf("%v: %d left", ErrSoldOut, e.left) }
func (e tooFewError) Unwrap() error { return ErrSoldOut }

// Versioned returns the Guard that keeps nobody out: each write counts a version
// on, and is refused if the version is no longer the one that was read (compare
// and swap). The loser sleeps and does everything again.
func Versioned(db *gorm.DB) Guard {
	return newRepeated(make(attempts, maxAttempts), inDatabase, func(ctx context.Context, at Place, _ locks.Entry, section Section) error {
		return section(context.WithoutCancel(ctx), &versioned{ledger: ledger{store: store{db}, at: at}})
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

// needsMySQL returns an error for a database that has no such thing.
func needsMySQL(db *gorm.DB, what string) error {
	if db.Name() == "mysql" {
		return nil
	}
	return fmt.Errorf("%w: %s has no %s: it takes MySQL or MariaDB", ErrPlace, db.Name(), what)
}
