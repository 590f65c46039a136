package payfault

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"

	"oversell/internal/fault"
	"oversell/internal/holds"
)

// Wrap returns the stages, with claims that stop if the hold's fault says so.
func (f *Faults) Wrap(stages map[string]holds.Stage) map[string]holds.Stage {
	all := make(map[string]holds.Stage, len(stages))
	for name, s := range stages {
		all[name] = stage{s, name, f}
	}
	return all
}

// stage is a holds.Stage whose claims may stop.
type stage struct {
	holds.Stage
	name   string
	faults *Faults
}

// Claim implements holds.Stage. A claim that stops uses a separate connection pool, so that it does
// not keep connections from the shop.
func (s stage) Claim(ctx context.Context, id string, token int64, paymentID string) (holds.Order, error) {
	pause := s.faults.takePause(id)
	if pause == 0 {
		return s.Stage.Claim(ctx, id, token, paymentID)
	}
	stop := sync.OnceValue(func() bool { return s.faults.sleep(ctx, pause) })
	return s.faults.stopping[s.name].Claim(context.WithValue(ctx, stopKey{}, stop), id, token, paymentID)
}

// stopKey is the key of the function that a claim calls before each write. Only the first call stops.
type stopKey struct{}

// open makes the stages whose claims stop, unless it has done so before.
func (f *Faults) open(ctx context.Context) error {
	f.opening.Lock()
	defer f.opening.Unlock()
	if f.closed {
		return errors.New("the faults of payments are closed")
	}
	if f.pool != nil {
		return nil
	}
	db, err := f.cfg.Dial(ctx, fault.Injector{Hook: beforeWrite}.Through)
	var pool *sql.DB
	if err == nil {
		pool, err = db.DB()
	}
	if err != nil {
		return fmt.Errorf("connecting to the database for claims that stop: %w", err)
	}
	pool.SetMaxOpenConns(MaxHolds) // a stopped claim keeps one connection
	pool.SetMaxIdleConns(1)
	b := f.cfg.Backends
	b.DB = pool
	f.pool, f.stopping = pool, f.cfg.New(b)
	return nil
}

// Close closes the connections that Faults have opened.
func (f *Faults) Close() error {
	f.opening.Lock()
	defer f.opening.Unlock()
	f.closed = true
	if f.pool == nil {
		return nil
	}
	return f.pool.Close()
}

// beforeWrite stops a claim before its first write. When it continues, what it has read may be out
// of date.
func beforeWrite(ctx context.Context, s fault.Statement, send func() (fault.Reply, error)) error {
	if stop, ok := ctx.Value(stopKey{}).(func() bool); ok && !s.Reads() && !stop() {
		return fmt.Errorf("the claim was stopped: %w", ctx.Err())
	}
	_, err := send()
	return err
}
