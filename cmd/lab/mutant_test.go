package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"oversell/internal/guard"
	"oversell/internal/lab"
	"oversell/internal/lab/search"
	"oversell/internal/locks/redlock"
	v1 "oversell/internal/locks/v1_setnx"
	v4 "oversell/internal/locks/v4_lua"
	v5 "oversell/internal/locks/v5_reentrant"
	v6 "oversell/internal/locks/v6_watchdog"
	v7 "oversell/internal/locks/v7_queue"
	v8 "oversell/internal/locks/v8_fenced"
)

// The lab detects when a stage loses the property that it adds: outcomes differ from the record,
// and the exit code is 1. On record, none of these anomalies breaks the unchanged stage.
func TestMutantsAreNoticed(t *testing.T) {
	// unguarded is watch without its guard. In the lab's shop it still belongs to the family of watch.
	unguarded := lab.Subject{Name: "watch", Guard: func(*lab.Process) guard.Guard { return guard.None{} }}
	for _, m := range []struct {
		what    string // the one thing that is changed
		subject lab.Subject
		turns   []string // the anomalies whose outcome must change
	}{
		{"watch without its look at the write", unguarded, []string{
			"lost-update", "local-mutex-across-instances", "paused-writer", "mixed-strategies", "strategies-take-turns",
		}},
		{"v5 without its count", subjectOf("v5_reentrant", func(p *lab.Process, key string) guard.Lock {
			return uncounted{v5.New(p.Redis(), key, p.TTL()), p.Redis(), key}
		}), []string{"inner-unlock-frees-outer"}},
		{"v6 without the end of its renewal", subjectOf("v6_watchdog", func(p *lab.Process, key string) guard.Lock {
			return &endless{Mutex: v6.New(p.Redis(), key, p.TTL()), p: p, key: key}
		}), []string{"renewal-after-unlock"}},
		{"v8 with a token that is read when it is asked for",
			subjectOf("v8_fenced", func(p *lab.Process, key string) guard.Lock {
				return counted{v8.New(p.Redis(), key, p.TTL()), p.Redis(), key}
			}), []string{"successors-token"}},
		{"v8 with a token for each entry", subjectOf("v8_fenced", func(p *lab.Process, key string) guard.Lock {
			return &renumbered{Mutex: v8.New(p.Redis(), key, p.TTL())}
		}), []string{"token-grows-on-re-entry"}},
		{"redlock on one node of five", subjectOf("redlock", func(p *lab.Process, key string) guard.Lock {
			return redlock.New(p.Nodes()[:1], key, p.TTL())
		}), []string{"failover", "clock-jump-minority"}},
		{"v7 without its handing on", subjectOf("v7_queue", func(p *lab.Process, key string) guard.Lock {
			return freed{v7.New(p.Redis(), key, p.TTL()), p.Redis(), key}
		}), []string{"missed-wake-up"}},
	} {
		t.Run(m.what, func(t *testing.T) {
			name, anomalies := m.subject.Name, strings.Join(m.turns, ",")
			if r := try(t, tables(), exitExpected, "-strategy", name, "-run", anomalies); len(r.Unexpected()) > 0 {
				t.Fatalf("broken already: %v", r.Unexpected())
			}
			r := try(t, withLock(m.subject), exitUnexpected, "-strategy", name, "-run", anomalies)
			var turned []string
			for _, c := range r.Unexpected() {
				turned = append(turned, c.Anomaly)
				t.Logf("%s: %s, was %s: %s", c.Anomaly, c.Outcome, c.Expected, c.Note)
			}
			if !slices.Equal(turned, m.turns) {
				t.Errorf("turned %v, want %v", turned, m.turns)
			}
		})
	}
}

// subjectOf returns the subject of a strategy, with another lock instead of its own.
func subjectOf(name string, lock func(p *lab.Process, key string) guard.Lock) lab.Subject {
	c, err := lab.FindSubjects(lab.Subjects(), []string{name})
	if err != nil {
		panic(err)
	}
	was := c[0].Lock
	c[0].Lock = func(p *lab.Process) *guard.Distributed {
		d := was(p)
		d.New = func(key string) guard.Lock { return lock(p, key) }
		return d
	}
	return c[0]
}

// A broken lock keeps no promise: the cell is unknown if nobody got the lock, nobody was refused,
// or nothing was released. An unknown cell never counts as expected. The promises in keeps do not
// depend on the broken part.
func TestBrokenLocksKeepNothing(t *testing.T) {
	for _, m := range []struct {
		what, stage string
		lock        func(p *lab.Process, key string) guard.Lock
		keeps       []string // promises that the broken lock still keeps
	}{
		{"it only returns errors", "v9_cohort", func(*lab.Process, string) guard.Lock { return failing{} }, nil},
		{"it grants nothing", "v9_cohort", func(*lab.Process, string) guard.Lock { return refusing{} }, nil},
		{"it is granted to everybody", "v9_cohort", func(*lab.Process, string) guard.Lock { return granting{} },
			[]string{"strategies-take-turns", "optimistic-aborts", "cache-missing-key"}},
		{"it is never given back", "v1_setnx", func(p *lab.Process, key string) guard.Lock {
			return kept{v1.New(p.Redis(), key)}
		}, []string{
			"strategies-take-turns",
			"expires-while-held", "long-work", "late-reply", "cut-off-holder", "stopped-holder", "clock-jump-majority",
			"wait-not-cancelled", "cancel-not-told-apart", "wait-limit-wrong", "wait-limit-ends-the-hold",
			"redis-away-while-waiting",
			"cache-stampede", "cache-load-per-instance", "cache-load-outlives-lease", "cache-missing-key",
		}},
		{"it is given back by its ttl alone", "v4_lua", func(p *lab.Process, key string) guard.Lock {
			return kept{v4.New(p.Redis(), key, p.TTL())}
		}, []string{
			"lost-update", "local-mutex-across-instances", "committed-before-release", "strategies-take-turns",
			"optimistic-aborts",
			"orphan-after-crash", "crash-before-expire", "forgotten-unlock",
			"wait-not-cancelled", "cancel-not-told-apart", "wait-limit-wrong", "wait-limit-ends-the-hold",
			"redis-away-while-waiting",
			"cache-stampede", "cache-load-per-instance", "cache-missing-key", "cache-failed-load",
		}},
	} {
		t.Run(m.what, func(t *testing.T) {
			t.Parallel()
			c := subjectOf(m.stage, m.lock)
			r := try(t, withLock(c), exitUnexpected, "-strategy", m.stage)
			var keeps []string
			for _, c := range r.Cells {
				if c.Outcome == lab.Holds {
					keeps = append(keeps, c.Anomaly)
				}
				if c.Outcome == lab.Unknown && c.Expected != lab.Unknown && c.AsExpected() {
					t.Errorf("%s is unknown, and passes for as expected", c.Anomaly)
				}
			}
			if !slices.Equal(keeps, m.keeps) {
				t.Errorf("it keeps %q, want %q", keeps, m.keeps)
			}
		})
	}
}

// The search finds a bug that no anomaly of the table shows, because the bug is in the handling of
// a fault: the lock is released a second time after a lost reply.
func TestSearchFindsWhatTheTableMisses(t *testing.T) {
	c := subjectOf("v1_setnx", func(p *lab.Process, key string) guard.Lock { return repeating{v1.New(p.Redis(), key)} })
	if r := try(t, withLock(c), exitExpected, "-strategy", c.Name); len(r.Unexpected()) > 0 {
		t.Errorf("the table shows it: %v", r.Unexpected())
	}
	for _, tt := range []struct {
		subject lab.Subject
		breaks  bool
	}{{c, true}, {lab.Subjects()[3], false}} {
		r, err := search.Search(t.Context(), search.Config{Subject: tt.subject, Buyers: 2,
			Faults: search.Faults{Losses: 1}})
		if err != nil {
			t.Fatal(err)
		}
		if moves := r.Breaks[lab.GoalForeignDelete]; (moves != "") != tt.breaks {
			t.Errorf("found %q, want one: %v", moves, tt.breaks)
		}
	}
}

// repeating repeats an Unlock that failed, although it may have released the lock.
type repeating struct{ *v1.Mutex }

func (r repeating) Unlock(ctx context.Context) error {
	err := r.Mutex.Unlock(ctx)
	if err != nil {
		err = r.Mutex.Unlock(ctx)
	}
	return err
}

// failing returns an error from every call.
type failing struct{}

var errBroken = errors.New("broken")

func (failing) TryLock(context.Context) (bool, error)          { return false, errBroken }
func (failing) Lock(context.Context) error                     { return errBroken }
func (failing) Unlock(context.Context) error                   { return errBroken }
func (failing) Context(parent context.Context) context.Context { return parent }
func (failing) Token() int64                                   { return 0 }

// refusing refuses every attempt.
type refusing struct{ failing }

func (refusing) TryLock(context.Context) (bool, error) { return false, nil }
func (refusing) Unlock(context.Context) error          { return nil }

func (refusing) Lock(ctx context.Context) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

// granting grants every attempt.
type granting struct{ refusing }

func (granting) TryLock(context.Context) (bool, error) { return true, nil }
func (granting) Lock(context.Context) error            { return nil }
func (granting) Token() int64                          { return 1 }

// kept never releases the lock.
type kept struct{ guard.Lock }

func (kept) Unlock(context.Context) error { return nil }

// uncounted releases the lock at the first Unlock, as v4 does.
type uncounted struct {
	*v5.Mutex
	rdb redis.Cmdable
	key string
}

func (u uncounted) Unlock(ctx context.Context) error {
	return errors.Join(u.Mutex.Unlock(ctx), u.rdb.Del(ctx, u.key).Err())
}

// endless keeps renewing the lease after Unlock, until its process ends.
type endless struct {
	*v6.Mutex
	p    *lab.Process
	key  string
	once sync.Once
}

func (e *endless) Unlock(ctx context.Context) error {
	err := e.Mutex.Unlock(ctx)
	e.once.Do(func() { time.AfterFunc(e.p.TTL()/3, e.renew) })
	return err
}

func (e *endless) renew() {
	if e.p.Life().Err() == nil {
		_ = e.p.Redis().PExpire(e.p.Life(), e.key, e.p.TTL()).Err()
		time.AfterFunc(e.p.TTL()/3, e.renew)
	}
}

// counted reads its token from a counter beside the lock only when Token is called. By then, the
// counter may have the token of the next holder.
type counted struct {
	*v8.Mutex
	rdb redis.Cmdable
	key string
}

func (c counted) counter() string { return c.key + ":counter" }

func (c counted) TryLock(ctx context.Context) (bool, error) {
	ok, err := c.Mutex.TryLock(ctx)
	if ok && err == nil {
		err = c.rdb.Incr(ctx, c.counter()).Err()
	}
	return ok, err
}

func (c counted) Token() int64 {
	n, _ := c.rdb.Get(context.Background(), c.counter()).Int64()
	return n
}

// renumbered gets a larger token with each re-entry.
type renumbered struct {
	*v8.Mutex
	entries int64
}

func (r *renumbered) TryLock(ctx context.Context) (bool, error) {
	ok, err := r.Mutex.TryLock(ctx)
	if ok {
		r.entries++
	}
	return ok, err
}

func (r *renumbered) Token() int64 { return r.Mutex.Token() + r.entries }

// freed releases the lock, but wakes no waiter.
type freed struct {
	*v7.Mutex
	rdb redis.Cmdable
	key string
}

func (f freed) Unlock(ctx context.Context) error {
	return errors.Join(f.rdb.Del(ctx, f.key).Err(), f.Mutex.Unlock(ctx))
}
