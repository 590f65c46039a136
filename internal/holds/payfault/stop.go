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
	return s.faults.stopped.stages[s.name].Claim(context.WithValue(ctx, stopKey{}, stop), id, token, paymentID)
}

// stopKey is the key of the function that a claim calls before each write. Only the first call stops.
type stopKey struct{}

// stopped holds the stages whose claims stop. They use a connection pool of their own, which is
// opened when it is first needed.
type stopped struct {
	mu     sync.Mutex
	pool   *sql.DB
	closed bool
	stages map[string]holds.Stage // not changed once pool is set
}

func (s *stopped) open(ctx context.Context, cfg Config) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errors.New("the faults of payments are closed")
	}
	if s.pool != nil {
		return nil
	}
	db, err := cfg.Dial(ctx, fault.Injector{Hook: beforeWrite}.Through)
	if err != nil {
		return fmt.Errorf("connecting to the database for claims that stop: %w", err)
	}
	pool, err := db.DB()
	if err != nil {
		return fmt.Errorf("connecting to the database for claims that stop: %w", err)
	}
	pool.SetMaxOpenConns(MaxHolds) // a stopped claim keeps one connection
	pool.SetMaxIdleConns(1)
	b := cfg.Backends
	b.DB = pool
	s.pool, s.stages = pool, cfg.New(b)
	return nil
}

func (s *stopped) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.pool == nil {
		return nil
	}
	return s.pool.Close()
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
