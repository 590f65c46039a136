package guard

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
)

func TestStats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lock := oneLock{held: true}
		time.AfterFunc(25*time.Millisecond, func() { _ = fakeLock{&lock}.Unlock(t.Context()) })
		in := inside{stay: time.Second}
		stats, err := lock.guard(Fixed{10 * time.Millisecond}).Do(t.Context(), entry, in.section(0))
		want := Stats{Attempts: 4, Waited: 30 * time.Millisecond, Held: time.Second}
		if err != nil || stats != want {
			t.Errorf("got %+v, %v; want %+v", stats, err, want)
		}
	})
}

func TestLateReleaseIsRecorded(t *testing.T) {
	lock := oneLock{freeErr: errGone}
	stats, err := lock.guard(Fixed{time.Millisecond}).Do(t.Context(), entry, new(inside).section(0))
	if err != nil || !stats.Lost || stats.Release != nil {
		t.Errorf("got %+v, %v; want a lost lease and no error: the work is done", stats, err)
	}
}

func TestFailedSectionReleases(t *testing.T) {
	var lock oneLock
	broken := errors.New("no paper for the receipt")
	_, err := lock.guard(Fixed{time.Millisecond}).Do(t.Context(), entry, func(context.Context) error { return broken })
	if !errors.Is(err, broken) || lock.isHeld() {
		t.Errorf("got %v, and the lock is held: %v; want %v and a free lock", err, lock.isHeld(), broken)
	}
}

// tellingLock cancels its holder's context when the lease is lost, as v6_watchdog does.
type tellingLock struct {
	fakeLock
	lost context.Context
}

func (l tellingLock) Context(context.Context) context.Context { return l.lost }
func (l tellingLock) Renewals() int                           { return 7 }

func TestSectionLearnsOfALostLease(t *testing.T) {
	lost, lose := context.WithCancelCause(t.Context())
	g := &Distributed{
		New:    func(string) Lock { return tellingLock{fakeLock{new(oneLock)}, lost} },
		Policy: Fixed{time.Millisecond},
	}
	stats, err := g.Do(t.Context(), entry, func(ctx context.Context) error {
		lose(errGone)
		return context.Cause(ctx)
	})
	if !errors.Is(err, errGone) || stats.Renewals != 7 {
		t.Errorf("got %+v, %v; want 7 renewals and %v", stats, err, errGone)
	}
}

// brokenLock fails each Unlock with err.
type brokenLock struct {
	fakeLock
	unlocks *atomic.Int32
	err     error
}

func (l brokenLock) Unlock(context.Context) error {
	l.unlocks.Add(1)
	return l.err
}

// A failed release is repeated only until RetryFor has passed, only if Retry allows it, and never with a
// closed client. At most maxReleasing releases are repeated at the same time.
func TestRepeatedReleaseEnds(t *testing.T) {
	broken := errors.New("broken")
	always := func(error) bool { return true }
	for name, test := range map[string]struct {
		err   error
		retry func(error) bool
		some  bool
	}{
		"broken for good":      {broken, always, true},
		"the client is closed": {fmt.Errorf("unlock: %w", redis.ErrClosed), always, false},
		"the lease is over":    {errGone, always, false},
		"not to be repeated":   {broken, func(error) bool { return false }, false},
		"never to be repeated": {broken, nil, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			unlocks := new(atomic.Int32)
			g := &Distributed{
				New:    func(string) Lock { return brokenLock{fakeLock{new(oneLock)}, unlocks, test.err} },
				Policy: Fixed{time.Millisecond}, NotHeld: errGone, Retry: test.retry, RetryFor: time.Second,
			}
			if _, err := g.Do(t.Context(), entry, new(inside).section(0)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			time.Sleep(2 * time.Second)
			if n := unlocks.Load(); test.some != (n > 1) || n > 20 {
				t.Errorf("%s: %d calls to Unlock, want more than one: %v", name, n, test.some)
			}
			for range 2 * maxReleasing {
				_, _ = g.Do(t.Context(), entry, new(inside).section(0))
			}
			synctest.Wait()
			if n := g.releasing.Load(); n > maxReleasing {
				t.Errorf("%s: %d are repeated at once, want at most %d", name, n, maxReleasing)
			}
			time.Sleep(2 * time.Second) // until the goroutines of the bubble have ended
		})
	}
}

// askedLock calls the function meanwhile during each attempt.
type askedLock struct {
	fakeLock
	meanwhile func(ctx context.Context)
}

func (l askedLock) TryLock(ctx context.Context) (bool, error) {
	l.meanwhile(ctx)
	return l.fakeLock.TryLock(ctx)
}

// A running attempt is not interrupted when the deadline passes or the wait ends.
func TestAttemptIsNotCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lock := oneLock{held: true}
		limited, done := context.WithTimeout(t.Context(), time.Minute)
		defer done()
		wait, giveUp := context.WithCancelCause(limited)
		g := &Distributed{Policy: Fixed{time.Hour}, New: func(string) Lock {
			return askedLock{fakeLock{&lock}, func(ctx context.Context) {
				time.Sleep(time.Second)
				giveUp(errLate)
				if _, limited := ctx.Deadline(); limited || ctx.Err() != nil {
					t.Errorf("the attempt has a deadline: %v; and has ended: %v", limited, ctx.Err())
				}
			}}
		}}
		start := time.Now()
		_, err := g.Do(wait, Entry{Key: "k", Owner: "o"}, nil)
		if took := time.Since(start); !errors.Is(err, errLate) || took != time.Second || lock.asked != 1 {
			t.Errorf("asked %d times and returned %v after %v, want once and %v after 1s",
				lock.asked, err, took, errLate)
		}
	})
}
