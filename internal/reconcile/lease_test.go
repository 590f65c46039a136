package reconcile

import (
	"context"
	"errors"
	"testing"
	"time"

	"gorm.io/gorm"

	"oversell/internal/backend/backendtest"
)

// eachClaims runs f with two claims to one lease.
func eachClaims(t *testing.T, ttl time.Duration, f func(t *testing.T, a, b claim)) {
	t.Helper()
	backendtest.EachDatabase(t, func(t *testing.T, db *gorm.DB) {
		if err := Migrate(t.Context(), db); err != nil {
			t.Fatal(err)
		}
		f(t, claim{db, t.Name(), "a", ttl}, claim{db, t.Name(), "b", ttl})
	})
}

// wantTake takes the lease and compares whether that worked.
func wantTake(t *testing.T, c claim, want bool) {
	t.Helper()
	if held, err := c.take(t.Context()); held != want || err != nil {
		t.Errorf("%s has the lease: %v, %v; want %v", c.holder, held, err, want)
	}
}

// endsAt returns when the lease ends, by the database's clock.
func (c claim) endsAt(t *testing.T) int64 {
	t.Helper()
	var row lease
	if err := c.db.Where("name = ?", c.name).Take(&row).Error; err != nil {
		t.Fatal(err)
	}
	return row.EndsAt
}

// steal gives the lease to another process, as happens once it has expired.
func (c claim) steal(t *testing.T) {
	t.Helper()
	far := time.Now().Add(time.Hour).UnixMilli()
	if err := c.db.Model(&lease{}).Where("name = ?", c.name).Updates(map[string]any{"holder": "thief", "ends_at": far}).Error; err != nil {
		t.Fatal(err)
	}
}

func TestLeaseHasOneHolder(t *testing.T) {
	eachClaims(t, time.Hour, func(t *testing.T, a, b claim) {
		wantTake(t, a, true)
		wantTake(t, b, false)
		for range 50 { // some of them within a millisecond
			wantTake(t, a, true)
		}
		if err := b.release(t.Context()); err != nil {
			t.Error(err)
		}
		wantTake(t, b, false) // it was not b's to release
		if err := a.release(t.Context()); err != nil {
			t.Error(err)
		}
		wantTake(t, b, true)
		wantTake(t, a, false)
	})
}

func TestLeaseOfADeadHolderExpires(t *testing.T) {
	eachClaims(t, 50*time.Millisecond, func(t *testing.T, a, b claim) {
		wantTake(t, a, true)
		await(t, a.ttl, "b has the lease", func() bool {
			held, err := b.take(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return held
		})
	})
}

func TestKeptLeaseIsRenewed(t *testing.T) {
	eachClaims(t, 300*time.Millisecond, func(t *testing.T, a, _ claim) {
		wantTake(t, a, true)
		before := a.endsAt(t)
		_, stop := a.keep(t.Context())
		defer stop()
		await(t, a.ttl, "the lease was renewed", func() bool { return a.endsAt(t) > before })
	})
}

func TestKeepEndsWithTheLease(t *testing.T) {
	eachClaims(t, 60*time.Millisecond, func(t *testing.T, a, _ claim) {
		wantTake(t, a, true)
		kept, stop := a.keep(t.Context())
		defer stop()
		a.steal(t)
		select {
		case <-kept.Done():
			if err := context.Cause(kept); !errors.Is(err, errLost) {
				t.Errorf("ended with %v, want %v", err, errLost)
			}
		case <-time.After(a.ttl + backendtest.Slack):
			t.Error("the holder was not told that it has lost the lease")
		}
	})
}

// A lease that cannot be renewed counts as lost once it may have expired, and not before.
func TestKeepOutlivesAShortOutage(t *testing.T) {
	backendtest.EachDatabase(t, func(t *testing.T, db *gorm.DB) {
		if err := Migrate(t.Context(), db); err != nil {
			t.Fatal(err)
		}
		c := claim{db, t.Name(), "a", 600 * time.Millisecond}
		wantTake(t, c, true)
		began := time.Now()
		broken := errors.New("broken")
		if err := db.Callback().Update().Before("gorm:update").Register("test:broken", func(tx *gorm.DB) { _ = tx.AddError(broken) }); err != nil {
			t.Fatal(err)
		}
		kept, stop := c.keep(t.Context())
		defer stop()
		<-kept.Done()
		if took := time.Since(began); took < c.ttl {
			t.Errorf("lost after %v, want %v at least", took, c.ttl)
		}
		if err := context.Cause(kept); !errors.Is(err, errLost) {
			t.Errorf("ended with %v, want %v", err, errLost)
		}
	})
}
