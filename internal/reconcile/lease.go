package reconcile

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"oversell/internal/guard"
)

// lease is the row that says which process does a job. It expires by the database's clock,
// so it does not matter whether the clocks of the shops agree.
type lease struct {
	Name   string `gorm:"primaryKey;size:64"`
	Holder string `gorm:"size:64;not null"`
	EndsAt int64  `gorm:"not null"` // in Unix milliseconds

	// Renewals counts the updates. MySQL does not count a row that is updated to the same
	// values as affected, as by two renewals in one millisecond.
	Renewals int64 `gorm:"not null;default:0"`
}

const (
	// statementTimeout bounds one statement.
	statementTimeout = 5 * time.Second
	// releaseTimeout bounds a release, which a shop that closes waits for.
	releaseTimeout = time.Second
)

// Migrate creates the table of leases. Several instances may call it at once.
func Migrate(ctx context.Context, db *gorm.DB) error {
	var err error
	for range 3 { // another instance may create it first
		if err = db.WithContext(ctx).AutoMigrate(&lease{}); err == nil {
			return nil
		}
	}
	return fmt.Errorf("migrating the table of leases: %w", err)
}

// claim is one process's claim to the lease of a job.
type claim struct {
	db     *gorm.DB
	name   string
	holder string // unique among all processes
	ttl    time.Duration
}

// clock is the database's time in Unix milliseconds, as SQL.
func (c claim) clock() string {
	if c.db.Name() == "mysql" {
		return "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000"
	}
	return "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)"
}

// take takes the lease if it is free, and renews it if this process has it. It reports
// whether this process has it now.
func (c claim) take(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	held, err := c.extend(ctx)
	if err != nil || held {
		return held, err
	}
	free := lease{Name: c.name}
	made := c.db.WithContext(ctx).Clauses(clause.OnConflict{DoNothing: true}).Create(&free)
	if made.Error != nil {
		return false, fmt.Errorf("creating the lease %s: %w", c.name, made.Error)
	}
	if made.RowsAffected > 0 {
		return c.extend(ctx)
	}
	// MySQL counts no row that an UPDATE leaves as it is: a lease that was renewed twice in
	// a millisecond.
	var mine int64
	err = c.db.WithContext(ctx).Model(&lease{}).Where("name = ? AND holder = ? AND ends_at > "+c.clock(), c.name, c.holder).Count(&mine).Error
	if err != nil {
		return false, fmt.Errorf("reading the lease %s: %w", c.name, err)
	}
	return mine > 0, nil
}

// extend takes or renews a lease whose row exists.
func (c claim) extend(ctx context.Context) (bool, error) {
	now := c.clock()
	done := c.db.WithContext(ctx).Model(&lease{}).
		Where("name = ? AND (holder = ? OR ends_at <= "+now+")", c.name, c.holder).
		Updates(map[string]any{"holder": c.holder, "ends_at": gorm.Expr(now+" + ?", c.ttl.Milliseconds()), "renewals": gorm.Expr("renewals + 1")})
	if done.Error != nil {
		return false, fmt.Errorf("taking the lease %s: %w", c.name, done.Error)
	}
	return done.RowsAffected > 0, nil
}

// release lets another process take the lease at once. It works when ctx has ended.
func (c claim) release(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	err := c.db.WithContext(ctx).Model(&lease{}).Where("name = ? AND holder = ?", c.name, c.holder).Update("ends_at", 0).Error
	if err != nil {
		return fmt.Errorf("releasing the lease %s: %w", c.name, err)
	}
	return nil
}

// errLost means that another process may have the lease by now.
var errLost = errors.New("the lease was lost")

// keep renews the lease, which this process has, until stop is called. Its context ends
// when ctx does, and with errLost when the lease is lost.
func (c claim) keep(ctx context.Context) (kept context.Context, stop func()) {
	kept, cancel := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		renewed := time.Now()
		for guard.Sleep(kept, c.ttl/3) == nil {
			asked := time.Now()
			held, err := c.take(kept)
			if err == nil && held {
				renewed = asked
			} else if err == nil || time.Since(renewed) >= c.ttl {
				cancel(errLost)
			}
		}
	}()
	return kept, func() {
		cancel(nil)
		<-ended
	}
}
