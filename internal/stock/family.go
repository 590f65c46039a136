package stock

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/singleflight"
	"gorm.io/gorm/clause"

	"oversell/internal/locks"
)

// familyOf names the strategies that keep each other out as well as they keep
// out themselves, or need not: a lock knows nothing of another lock's holder, but
// what checks and writes in one step can be mixed.
func familyOf(s locks.Strategy) string {
	switch s.Kind {
	case locks.Optimistic, locks.Atomic, locks.Batched:
		return "watch and lua"
	case locks.Conditional, locks.Versioned, locks.RowLocked:
		return "sql"
	}
	return s.Name
}

// Family names the strategies that may sell one item together with the given one.
func (s *Service) Family(strategy string) string { return s.families.family(strategy) }

const (
	// presenceLease is for how long the buyers of a process that died keep
	// other families out.
	presenceLease = 2 * time.Second
	// presenceTick is how often a process looks whether its buyers have left,
	// and at most how long after the last one another process may come in.
	presenceTick = 100 * time.Millisecond
	// familyDelay is how long a buyer waits before it looks again whether those
	// of another family have left.
	familyDelay = 50 * time.Millisecond
)

// presence is a row that says that buyers of a family are at work on an item in
// one process. It is what makes others wait. What keeps them apart in any case is
// the generation: it changes when another family begins.
type presence struct {
	SKU      string    `gorm:"primaryKey;size:64"`
	Family   string    `gorm:"primaryKey;size:32"`
	Instance string    `gorm:"primaryKey;size:36"`
	EndsAt   time.Time `gorm:"not null"`
}

// families lets the buyers of one family at a time work on an item. It has a
// goroutine for each item and family with buyers in this process, until close. It
// is safe for concurrent use.
type families struct {
	store    store
	of       map[string]string // by strategy name
	mixed    bool
	instance string
	log      *slog.Logger

	ctx    context.Context // ends with close
	cancel context.CancelFunc
	tell   sync.WaitGroup
	claims singleflight.Group

	mu   sync.Mutex
	work map[workKey]*work
}

type workKey struct{ sku, family string }

// work is what the buyers of one family do on one item, in this process.
type work struct {
	buyers int
	known  chan struct{} // closed once the database knows of it
}

func newFamilies(cfg Config) *families {
	f := &families{
		store: store{cfg.DB}, of: cfg.Families, mixed: cfg.Mixed, log: cfg.Logger,
		instance: uuid.NewString(), work: make(map[workKey]*work),
	}
	if f.log == nil {
		f.log = slog.Default()
	}
	f.ctx, f.cancel = context.WithCancel(context.Background())
	return f
}

// family returns that of a strategy.
func (f *families) family(strategy string) string {
	if name, ok := f.of[strategy]; ok {
		return name
	}
	return strategy
}

// close forgets the buyers of this process. Nobody may enter any more.
func (f *families) close() {
	f.mu.Lock() // or somebody could enter just now
	f.cancel()
	f.mu.Unlock()
	f.tell.Wait()
}

// enter counts a buyer in, and has the database know of it. The caller must call
// leave.
func (f *families) enter(wait context.Context, sku, family string) (leave func(), err error) {
	at := workKey{sku, family}
	f.mu.Lock()
	w := f.work[at]
	if w == nil {
		if f.ctx.Err() != nil {
			f.mu.Unlock()
			return nil, ErrClosing
		}
		w = &work{known: make(chan struct{})}
		f.work[at] = w
		f.tell.Go(func() { f.attend(at, w) })
	}
	w.buyers++
	f.mu.Unlock()
	leave = func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		w.buyers--
	}
	select {
	case <-w.known:
		return leave, nil
	case <-wait.Done():
		leave()
		return nil, context.Cause(wait)
	}
}

// attend has the database know of the buyers until there are none.
func (f *families) attend(at workKey, w *work) {
	ctx := context.WithoutCancel(f.ctx)
	f.renew(ctx, at)
	close(w.known)
	ticker := time.NewTicker(presenceTick)
	defer ticker.Stop()
	for renewed := time.Now(); f.stay(at, w); {
		if time.Since(renewed) >= presenceLease/4 {
			f.renew(ctx, at)
			renewed = time.Now()
		}
		select {
		case <-ticker.C:
		case <-f.ctx.Done():
			f.mu.Lock()
			delete(f.work, at)
			f.mu.Unlock()
			f.remove(ctx, at)
			return
		}
	}
	f.remove(ctx, at)
	// A buyer may have come meanwhile, and the row is gone that spoke for it.
	f.mu.Lock()
	next := f.work[at]
	f.mu.Unlock()
	if next != nil {
		f.renew(ctx, at)
	}
}

// stay reports whether buyers are there, and forgets the work otherwise.
func (f *families) stay(at workKey, w *work) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if w.buyers > 0 {
		return true
	}
	delete(f.work, at)
	return false
}

// here reports whether buyers of this process are at work.
func (f *families) here(at workKey) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	w := f.work[at]
	return w != nil && w.buyers > 0
}

// renew writes the row. Where that fails others may come in too early, and the
// buyers here are refused.
func (f *families) renew(ctx context.Context, at workKey) {
	ctx, cancel := limited(ctx)
	defer cancel()
	row := presence{at.sku, at.family, f.instance, now().Add(presenceLease)}
	err := f.store.db.WithContext(ctx).Clauses(clause.OnConflict{UpdateAll: true}).Create(&row).Error
	if err != nil {
		f.log.Warn("others are not told which strategies are at work", "sku", at.sku, "family", at.family, "error", err)
	}
}

func (f *families) remove(ctx context.Context, at workKey) {
	ctx, cancel := limited(ctx)
	defer cancel()
	row := presence{SKU: at.sku, Family: at.family, Instance: f.instance}
	if err := f.store.db.WithContext(ctx).Delete(&row).Error; err != nil {
		f.log.Warn("strategies may seem to be at work for a while", "sku", at.sku, "family", at.family, "error", err)
	}
}

// others returns a family that has buyers at work on an item besides the given
// one, or "". It looks in the database, and at is that or a transaction.
func (f *families) others(ctx context.Context, at store, sku, family string) (string, error) {
	ctx, cancel := limited(ctx)
	defer cancel()
	var rows []presence
	err := at.db.WithContext(ctx).Where("sku = ? AND family <> ? AND ends_at > ?", sku, family, now()).Find(&rows).Error
	if err != nil {
		return "", fmt.Errorf("looking which strategies are at work on %s: %w", sku, err)
	}
	for _, row := range rows {
		if row.Instance != f.instance || f.here(workKey{sku, row.Family}) {
			return row.Family, nil
		}
	}
	return "", nil
}

// atWorkError is an ErrOtherStrategy that knows which.
type atWorkError struct{ family string }

func (e atWorkError) Error() string {
	return fmt.Sprintf("%v: %s, which does not keep this one out; -mixed lets them work together", ErrOtherStrategy, e.family)
}
func (e atWorkError) Unwrap() error { return ErrOtherStrategy }

// claim makes the family the one at work on an item, if no other is. Otherwise it
// returns an atWorkError. Those who come at the same time share the outcome.
func (s *Service) claim(ctx context.Context, sku, family string) error {
	_, err, _ := s.families.claims.Do(sku+" "+family, func() (any, error) {
		return nil, s.claimOnce(context.WithoutCancel(ctx), sku, family)
	})
	return err
}

func (s *Service) claimOnce(ctx context.Context, sku, family string) error {
	// Looked at first without a lock, as those who wait do again and again.
	if other, err := s.families.others(ctx, s.store, sku, family); err != nil || other != "" {
		return errors.Join(err, atWork(other))
	}
	return s.agreement.count(sku, func() error {
		return s.store.change(ctx, func(tx store) error {
			item, err := tx.locked(sku)
			if err != nil || item.Family == family {
				return err
			}
			if other, err := s.families.others(ctx, tx, sku, family); err != nil || other != "" {
				return errors.Join(err, atWork(other))
			}
			return s.renew(ctx, tx, item, family)
		})
	})
}

func atWork(family string) error {
	if family == "" {
		return nil
	}
	return atWorkError{family}
}

// join counts b in among the buyers of its family, once no other is at work on
// the item. The caller must call leave.
func (b *buyer) join(ctx, wait context.Context) (leave func(), err error) {
	s := b.service
	family := s.families.family(b.req.Strategy)
	if s.families.mixed {
		return func() {}, nil
	}
	var refused error // by those at work
	for b.gen.family != family {
		err := s.claim(ctx, b.req.SKU, family)
		if errors.Is(err, ErrOtherStrategy) {
			refused = err
			if err = pause(wait, familyDelay); err == nil {
				continue
			}
		}
		if err == nil {
			b.stale = true // Redis may not know of it
			err = b.enter(ctx, wait)
		}
		switch {
		case refused != nil && errors.Is(err, ErrBusy): // the wait is over
			return nil, refused
		case err != nil || b.res.Replayed:
			return nil, err
		}
	}
	return s.families.enter(wait, b.req.SKU, family)
}
