// Package reconcile puts stranded units back on sale in the background: units that a
// process has taken from a stock in Redis before it was killed, so that nobody can buy
// them. It only finds them. Putting them back is stock.Service.Recount, which cannot
// oversell whenever it is called.
//
// One process among all shops does it at a time: the one that has a lease in the database.
// The lease saves work and nothing else. A process that was paused, and goes on after
// another one has taken its lease, may recount at the same time as that one and do no harm.
package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"gorm.io/gorm"

	"oversell/internal/guard"
	"oversell/internal/stock"
)

// Config is what a reconciler is made with.
type Config struct {
	Stock  *stock.Service
	DB     *gorm.DB      // has the lease, see Migrate
	Every  time.Duration // the pause between two rounds
	Logger *slog.Logger  // nil: slog.Default
}

// Start starts a reconciler, which ends when ctx does, or when stop is called. Stop returns
// when it has ended.
func Start(ctx context.Context, cfg Config) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	r := newReconciler(cfg)
	go func() {
		defer close(ended)
		r.run(ctx)
	}()
	return func() {
		cancel()
		<-ended
	}
}

const (
	// page is how many SKUs are read at once.
	page = 500
	// maxFailures is how many items in a row may fail before a round ends: then a
	// backend is unavailable, and the other items would fail too, each after a while.
	maxFailures = 3
	// share bounds the part of the time that rounds take: one in so many parts.
	share = 5
)

type reconciler struct {
	Config
	claim    claim
	items    map[string]*seen // by SKU
	failures failures
	mine     bool // this process has or had the lease
}

// seen is what is known of an item.
type seen struct {
	last     stock.Balance
	stranded stock.Absence
	failed   bool // in the last round that looked at it
}

func newReconciler(cfg Config) *reconciler {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	return &reconciler{
		Config: cfg,
		// A process that lives renews its lease, so that of a dead one ends after two
		// rounds.
		claim:    claim{db: cfg.DB, name: "reconcile", holder: uuid.NewString(), ttl: 2*cfg.Every + time.Second},
		failures: failures{log: cfg.Logger},
	}
}

// run makes rounds until ctx ends.
func (r *reconciler) run(ctx context.Context) {
	pause := r.Every
	for r.rest(ctx, pause) == nil {
		began := time.Now()
		if err := r.step(ctx); ctx.Err() == nil {
			r.failures.note(err)
		}
		pause = max(r.Every, (share-1)*time.Since(began))
	}
	if r.mine { // release does not end the lease of another process
		if err := r.claim.release(ctx); err != nil {
			r.Logger.Warn("another shop goes on reconciling only when the lease ends", "error", err)
		}
	}
}

// rest is the pause before a round. A process that has the lease renews it meanwhile: the
// pause after a long round would outlast it, and another process, which begins to look
// only then, would start the grace time of all units again.
func (r *reconciler) rest(ctx context.Context, pause time.Duration) error {
	if r.mine {
		_, stop := r.claim.keep(ctx)
		defer stop()
	}
	return guard.Sleep(ctx, pause)
}

// step makes a round if this process gets or has the lease, and renews it meanwhile.
func (r *reconciler) step(ctx context.Context) error {
	held, err := r.claim.take(ctx)
	if err != nil || !held {
		r.items = nil // another process may have repaired meanwhile
		return err
	}
	r.mine = true
	ctx, stop := r.claim.keep(ctx)
	defer stop()
	return r.round(ctx)
}

// round looks at all items whose stock is in Redis. It returns the first error, and goes
// on after it unless a backend seems to be unavailable.
func (r *reconciler) round(ctx context.Context) error {
	skus, err := r.list(ctx)
	if err != nil {
		return err
	}
	var first error
	failed := 0 // in a row
	for _, sku := range skus {
		if ctx.Err() != nil {
			return errors.Join(first, context.Cause(ctx))
		}
		one := r.items[sku]
		err := r.look(ctx, sku, one)
		if errors.Is(err, stock.ErrUnknownItem) {
			continue // it was deleted just now
		}
		if one.failed = err != nil; !one.failed {
			failed = 0
			continue
		}
		first = cmp.Or(first, err)
		if failed++; failed == maxFailures {
			break
		}
	}
	return first
}

// list returns the items whose stock is in Redis, last those that have failed in the round
// before: a few that always fail must not end each round before it comes to the others.
func (r *reconciler) list(ctx context.Context) (skus []string, err error) {
	items := make(map[string]*seen)
	var failed []string
	for after := ""; ; {
		some, err := r.Stock.InRedis(ctx, after, page)
		if err != nil {
			return nil, err
		}
		for _, sku := range some {
			one := cmp.Or(r.items[sku], new(seen))
			if after, items[sku] = sku, one; one.failed {
				failed = append(failed, sku)
			} else {
				skus = append(skus, sku)
			}
		}
		if len(some) < page {
			r.items = items
			return append(skus, failed...), nil
		}
	}
}

// look compares an item's stock with its orders, and repairs it if units have been
// stranded for the grace time.
func (r *reconciler) look(ctx context.Context, sku string, one *seen) error {
	b, err := r.Stock.Balance(ctx, sku, one.last)
	if err != nil {
		return err
	}
	one.last = b
	if one.stranded.See(b.Generation, b.Stranded(), time.Now()) < r.Stock.Grace() {
		return nil
	}
	returned, err := r.Stock.Recount(ctx, b)
	if err != nil {
		return err
	}
	*one = seen{}
	r.Logger.Info("stranded units are on sale again", "sku", sku, "stranded", b.Stranded(), "returned", returned)
	return nil
}

// failures logs the first of several failed rounds, one a minute of the others, and the
// end of the failures.
type failures struct {
	log    *slog.Logger
	count  int       // failed rounds since the last good one
	logged time.Time // when the last of them was logged
}

const failureLogPause = time.Minute

func (f *failures) note(err error) {
	if err == nil {
		if f.count > 0 {
			f.log.Info("reconciling works again", "failed rounds", f.count)
		}
		f.count = 0
		return
	}
	if f.count++; f.count == 1 || time.Since(f.logged) >= failureLogPause {
		f.logged = time.Now()
		f.log.Warn("stranded units cannot be found or put back now", "failed rounds", f.count, "error", fmt.Errorf("reconciling: %w", err))
	}
}
