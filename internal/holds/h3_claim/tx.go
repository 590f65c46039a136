package hold

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// errUnsure means that the connection broke during COMMIT: the transaction may have been
// committed.
var errUnsure = errors.New("it is not known whether the transaction was committed")

const (
	// timeout bounds one call of a Stage. A call does not end with its caller's context:
	// a transaction that is cut off costs its connection, and leaves a doubt.
	timeout = 5 * time.Second
	// maxAttempts is how often a transaction is tried that was in another's way.
	maxAttempts = 10
	// maxPause is the longest pause between two attempts.
	maxPause = 20 * time.Millisecond
)

func limited(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), timeout)
}

// inTx runs f in a transaction, and again if the database rolled that back because of a
// deadlock or a lock wait. An error of f rolls it back, and is returned as it is.
//
// All transactions lock in one order: the hold's row, the buyer's, the item's. The item's
// is last because everybody wants it. Take inserts its hold after that, but nobody else
// knows that row yet.
func (s *Stage) inTx(ctx context.Context, f func(tx *sql.Tx) error) (err error) {
	for range maxAttempts {
		if err = s.tryTx(ctx, f); !s.sql.Conflict(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(rand.N(maxPause)):
		}
	}
	return err
}

func (s *Stage) tryTx(ctx context.Context, f func(tx *sql.Tx) error) error {
	tx, err := s.db.BeginTx(ctx, &sql.TxOptions{Isolation: s.isolation})
	if err != nil {
		return fmt.Errorf("beginning a transaction: %w", err)
	}
	if err := f(tx); err != nil {
		_ = tx.Rollback() // if it fails, so did the connection, and the server rolls back
		return err
	}
	err = tx.Commit()
	if err != nil && !s.sql.Decided(err) {
		return fmt.Errorf("%w: %w", errUnsure, err)
	}
	return err
}
