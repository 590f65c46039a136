package fence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// Schema creates the table that Show uses, in MySQL, MariaDB and SQLite. Each resource needs a
// row, which must be inserted together with the resource: INSERT INTO fences (resource) VALUES
// (?). Names are compared byte by byte: "stock" and "STOCK" are two resources. The column is not a
// VARBINARY, because SQLite would convert the names "7" and "07" to one number.
const Schema = `CREATE TABLE IF NOT EXISTS fences (
	resource VARCHAR(255) COLLATE 'binary' NOT NULL PRIMARY KEY,
	token BIGINT NOT NULL DEFAULT 0,
	shown BIGINT NOT NULL DEFAULT 0
)`

// The statement increments shown so that it changes the row even if the token is the same as
// before: MySQL counts only rows that were changed, not rows that only matched.
const show = "UPDATE fences SET token = ?, shown = shown + 1 WHERE resource = ? AND token <= ?"

// Show shows the token of a holder to a resource, as the first statement of the transaction in
// which the holder reads or writes the resource. The row stays locked until the transaction ends,
// so no holder with another token can come in between. It returns an error that wraps a StaleError
// if a larger token has been seen, and ErrMissing if the resource has no row. After any error the
// transaction must be rolled back.
func Show(ctx context.Context, tx *sql.Tx, resource string, token int64) error {
	result, err := tx.ExecContext(ctx, show, token, resource, token)
	if err != nil {
		return fmt.Errorf("showing token %d to %s: %w", token, resource, err)
	}
	rows, err := result.RowsAffected()
	if err != nil {
		return fmt.Errorf("showing token %d to %s: %w", token, resource, err)
	}
	if rows == 1 {
		return nil
	}
	var seen int64
	err = tx.QueryRowContext(ctx, "SELECT token FROM fences WHERE resource = ?", resource).Scan(&seen)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		err = ErrMissing
	case err == nil:
		err = StaleError{seen}
	}
	return fmt.Errorf("showing token %d to %s: %w", token, resource, err)
}
