package stock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/singleflight"
	"gorm.io/gorm/clause"

	"oversell/internal/guard"
)

// Family returns the family of a strategy. Strategies of one family may sell an item at
// the same time.
func (s *Service) Family(strategy string) string {
	return cmp.Or(s.strategies[strategy].Family, strategy)
}

const (
	// leaseTime is how long the buyers of a crashed process keep other families out.
	leaseTime = 2 * time.Second
	// leaseTick is how often a process checks whether its buyers have left, and so the
	// longest delay before another family may enter.
	leaseTick = 100 * time.Millisecond
	// familyDelay is how long a buyer sleeps before it checks again whether another
	// family has left.
	familyDelay = 50 * time.Millisecond
)

// familyLease is a process's lease on an item for one family, as long as it has buyers of that
// family at work. It makes other families wait. Even if it fails the families cannot mix, because
// the generation changes when another family begins.
type familyLease struct {
	SKU      string    `gorm:"primaryKey;size:64"`
	Family   string    `gorm:"primaryKey;size:32"`
	Instance string    `gorm:"primaryKey;size:36"`
	EndsAt   time.Time `gorm:"not null"`
	// InFlight is the most units that the process had in flight since it wrote the row last.
	InFlight int64 `gorm:"not null;default:0"`
}

func (familyLease) TableName() string { return "oversell_presences" }

// families has the leases of this process, and counts the units that its buyers have in flight. It
// has one goroutine for each item and family with buyers. It is safe for concurrent use.
type families struct {
	store    store
	mixed    bool
	instance string
	log      *slog.Logger

	closing  chan struct{} // closed by close, with mu locked
	renewing sync.WaitGroup
	claims   singleflight.Group

	mu     sync.Mutex
	closed bool
	work   map[workKey]*work
	flying map[string]inFlight // by SKU
}

type workKey struct{ sku, family string }

// work has the buyers of one family on one item in this process.
type work struct {
	buyers int
	leased chan struct{} // closed once the lease is written
}

func newFamilies(cfg Config) *families {
	return &families{
		store: store{cfg.DB}, mixed: cfg.Mixed, log: cfg.Logger, instance: uuid.NewString(),
		closing: make(chan struct{}), work: make(map[workKey]*work), flying: make(map[string]inFlight),
	}
}

// close ends the leases of this process. Nobody can enter after it.
func (f *families) close() {
	f.mu.Lock()
	if !f.closed {
		f.closed = true
		close(f.closing)
	}
	f.mu.Unlock()
	f.renewing.Wait()
}

// enter counts a buyer in, and waits until the lease is written. The caller must
// call leave.
func (f *families) enter(wait context.Context, sku, family string) (leave func(), err error) {
	at := workKey{sku, family}
	f.mu.Lock()
	w := f.work[at]
	if w == nil {
		if f.closed {
			f.mu.Unlock()
			return nil, ErrClosing
		}
		w = &work{leased: make(chan struct{})}
		f.work[at] = w
		f.renewing.Go(func() { f.keepLease(at, w) })
	}
	w.buyers++
	f.mu.Unlock()
	leave = func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		w.buyers--
	}
	select {
	case <-w.leased:
		return leave, nil
	case <-wait.Done():
		leave()
		return nil, context.Cause(wait)
	}
}

// keepLease writes and renews the lease until there are no more buyers.
func (f *families) keepLease(at workKey, w *work) {
	f.renew(at)
	close(w.leased)
	ticker := time.NewTicker(leaseTick)
	defer ticker.Stop()
	for renewed := time.Now(); f.stay(at, w); {
		if time.Since(renewed) >= leaseTime/4 {
			f.renew(at)
			renewed = time.Now()
		}
		select {
		case <-ticker.C:
		case <-f.closing:
		}
	}
	f.remove(at)
	// A new buyer may have written the lease before it was removed.
	f.mu.Lock()
	next := f.work[at]
	f.mu.Unlock()
	if next != nil {
		f.renew(at)
	}
}

// stay reports whether there are buyers, and deletes the work if there are none.
func (f *families) stay(at workKey, w *work) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if w.buyers > 0 && !f.closed {
		return true
	}
	delete(f.work, at)
	return false
}

// renew writes the lease. If that fails another family may enter too early, and
// then the orders of the buyers here are refused.
func (f *families) renew(at workKey) {
	ctx, cancel := limited(context.Background())
	defer cancel()
	f.mu.Lock()
	n := f.flying[at.sku]
	f.flying[at.sku] = inFlight{n.now, n.now}
	f.mu.Unlock()
	row := familyLease{at.sku, at.family, f.instance, now().Add(leaseTime), n.peak}
	err := f.store.db.WithContext(ctx).Clauses(clause.OnConflict{UpdateAll: true}).Create(&row).Error
	if err != nil {
		f.log.Warn("announcing which strategies are at work failed, and others may begin too early",
			"sku", at.sku, "family", at.family, "error", err)
	}
}

func (f *families) remove(at workKey) {
	ctx, cancel := limited(context.Background())
	defer cancel()
	row := familyLease{SKU: at.sku, Family: at.family, Instance: f.instance}
	if err := f.store.db.WithContext(ctx).Delete(&row).Error; err != nil {
		f.log.Warn("announcing that strategies have left failed, and others wait for a while",
			"sku", at.sku, "family", at.family, "error", err)
	}
}

// checkAlone returns an atWorkError if another family has buyers at work on an item. It reads
// the database through at, which may be a transaction.
func (f *families) checkAlone(ctx context.Context, at store, sku, family string) error {
	ctx, cancel := limited(ctx)
	defer cancel()
	var rows []familyLease
	err := at.db.WithContext(ctx).Where("sku = ? AND family <> ? AND ends_at > ?", sku, family, now()).Find(&rows).Error
	if err != nil {
		return fmt.Errorf("reading which strategies are at work on %s: %w", sku, err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, row := range rows {
		w := f.work[workKey{sku, row.Family}]
		// The row of a family that has left this process may stay for a tick.
		if row.Instance != f.instance || w != nil && w.buyers > 0 {
			return atWorkError{row.Family}
		}
	}
	return nil
}

// atWorkError is an ErrOtherStrategy that names the other family.
type atWorkError struct{ family string }

func (e atWorkError) Error() string {
	return fmt.Sprintf("%v: %s, which does not exclude this one; -mixed lets them work together",
		ErrOtherStrategy, e.family)
}
func (e atWorkError) Unwrap() error { return ErrOtherStrategy }

// claim makes the family the one at work on an item. If another one is, it returns an
// atWorkError. Concurrent callers share one call.
func (s *Service) claim(ctx context.Context, sku, family string) error {
	ctx = context.WithoutCancel(ctx) // others share the call
	_, err, _ := s.families.claims.Do(sku+" "+family, func() (any, error) {
		// First without locking the row, because waiters do this again and again.
		if err := s.families.checkAlone(ctx, s.store, sku, family); err != nil {
			return nil, err
		}
		ctx, cancel := limited(ctx)
		defer cancel()
		return nil, s.store.changePool(ctx, sku, func(tx store) error {
			item, err := tx.locked(sku)
			if err != nil || item.Family == family {
				return err
			}
			if err := s.families.checkAlone(ctx, tx, sku, family); err != nil {
				return err
			}
			return s.startGeneration(ctx, tx, item, family)
		})
	})
	return err
}

// switchTo waits until no other family is at work on the item, and then begins a generation for
// the family, unless the current one is.
func (p *purchase) switchTo(ctx, wait context.Context, family string) error {
	var refused error // the last atWorkError
	for p.gen.family != family {
		err := p.service.claim(ctx, p.req.SKU, family)
		if errors.Is(err, ErrOtherStrategy) {
			refused = err
			if err = guard.Sleep(wait, familyDelay); err == nil {
				continue
			}
		}
		if err == nil {
			p.stale = true // Redis may not have the new generation yet
			err = p.lookAtItem(ctx, wait)
		}
		switch {
		case refused != nil && errors.Is(err, ErrBusy): // the wait has timed out
			return refused
		case err != nil || p.res.Replayed:
			return err
		}
	}
	return nil
}

// inFlight counts units of an item that may have been taken from a stock in Redis by this process,
// and whose order is neither written nor given up.
type inFlight struct {
	now  int64
	peak int64 // the most since the row was written last
}

// addInFlight adds units that are about to be taken. With a negative number it removes units whose
// order was written, that were put back, or that were not taken.
func (f *families) addInFlight(sku string, units int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.flying[sku]
	n.now += units
	n.peak = max(n.peak, n.now)
	f.flying[sku] = n
}

// inFlight counts the units in flight in purchases: of this process now, and the most that
// each other process had when its row was written. With -mixed no process writes such rows. The
// row of a killed process counts until it expires.
func (s *Service) inFlight(ctx context.Context, sku string) (units int64, err error) {
	ctx, cancel := limited(ctx)
	defer cancel()
	f := s.families
	err = s.store.db.WithContext(ctx).Model(&familyLease{}).Select("COALESCE(SUM(in_flight), 0)").
		Where("sku = ? AND instance <> ? AND ends_at > ?", sku, f.instance, now()).Scan(&units).Error
	if err != nil {
		return 0, fmt.Errorf("counting the units of %s in flight: %w", sku, err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return units + f.flying[sku].now, nil
}
