package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"oversell/internal/guard"
	"oversell/internal/lab"
	"oversell/internal/locks/redlock"
	v1 "oversell/internal/locks/v1_setnx"
	v2 "oversell/internal/locks/v2_ttl"
	v3 "oversell/internal/locks/v3_uuid"
	v4 "oversell/internal/locks/v4_lua"
	v5 "oversell/internal/locks/v5_reentrant"
	v6 "oversell/internal/locks/v6_watchdog"
	v7 "oversell/internal/locks/v7_queue"
	v8 "oversell/internal/locks/v8_fenced"
	v9 "oversell/internal/locks/v9_cohort"
)

// The lab notices when a stage loses what is its own: each is replaced in one
// point by what was before it, cells turn, and the exit code is 1. A fix is
// noticed in the same way.
func TestMutantsAreNoticed(t *testing.T) {
	for _, m := range mutants() {
		t.Run(m.what, func(t *testing.T) {
			name, anomalies := m.subject.Name, strings.Join(m.turns, ",")
			if r := try(t, lab.Subjects(), exitExpected, "-strategy", name, "-run", anomalies); len(r.Unexpected()) > 0 {
				t.Fatalf("broken already: %v", r.Unexpected())
			}
			r := try(t, []lab.Subject{m.subject}, exitUnexpected, "-strategy", name, "-run", anomalies)
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

// mutant is a subject with one thing changed.
type mutant struct {
	what    string
	subject lab.Subject
	turns   []string // the anomalies whose outcome changes, at least
}

// subjectOf is the subject of a strategy, with another lock.
func subjectOf(name string, lock func(p *lab.Process, key string) guard.Lock) lab.Subject {
	c, err := lab.FindSubjects(lab.Subjects(), []string{name})
	if err != nil {
		panic(err)
	}
	c[0].Lock = lock
	return c[0]
}

// unguarded is the subject of a strategy, with nothing around the sale. At the shop
// it still is of that strategy's family.
func unguarded(name string) lab.Subject {
	c := subjectOf(name, nil)
	c.Optimistic, c.Guard = false, func(*lab.Process) guard.Guard { return guard.None{} }
	return c
}

// mutants returns what the lab has to notice.
func mutants() []mutant {
	with := subjectOf
	return []mutant{
		{"watch without its look at the write", unguarded("watch"), []string{
			"lost-update", "local-mutex-across-instances", "paused-writer", "mixed-strategies", "strategies-take-turns",
		}},
		{"v2 deletes only its own", with("v2_ttl", func(p *lab.Process, key string) guard.Lock {
			return v3.New(p.Redis(), key, p.TTL())
		}), []string{"foreign-delete", "foreign-delete-chain"}},
		{"v3 without its token check", with("v3_uuid", func(p *lab.Process, key string) guard.Lock {
			return v2.New(p.Redis(), key, p.TTL())
		}), []string{"foreign-delete", "foreign-delete-chain", "foreign-unlock"}},
		{"v4 without its script", with("v4_lua", func(p *lab.Process, key string) guard.Lock {
			return v3.New(p.Redis(), key, p.TTL())
		}), []string{"check-then-delete"}},
		{"v5 without its count", with("v5_reentrant", func(p *lab.Process, key string) guard.Lock {
			return uncounted{v5.New(p.Redis(), key, p.TTL()), p.Redis(), key}
		}), []string{"inner-unlock-frees-outer"}},
		{"v6 without its renewal", with("v6_watchdog", func(p *lab.Process, key string) guard.Lock {
			return renamed{v5.New(p.Redis(), key, p.TTL()), fmt.Sprintf("%p", p)}
		}), []string{"expires-while-held", "long-work"}},
		{"v6 without the end of its renewal", with("v6_watchdog", func(p *lab.Process, key string) guard.Lock {
			return &endless{Mutex: v6.New(p.Redis(), key, p.TTL()), p: p, key: key}
		}), []string{"renewal-after-unlock"}},
		{"v6 without its notice of loss", with("v6_watchdog", func(p *lab.Process, key string) guard.Lock {
			return deaf{v6.New(p.Redis(), key, p.TTL())}
		}), []string{"cut-off-holder", "loss-not-told"}},
		{"v7 without its way of waiting", with("v7_queue", func(p *lab.Process, key string) guard.Lock {
			return polled{v7.New(p.Redis(), key, p.TTL()), p.Redis(), key}
		}), []string{"starvation", "retry-storm"}},
		{"v8 with a token that is read when it is asked for", with("v8_fenced", func(p *lab.Process, key string) guard.Lock {
			return counted{v8.New(p.Redis(), key, p.TTL()), p.Redis(), key}
		}), []string{"successors-token"}},
		{"v8 with a token for each entry", with("v8_fenced", func(p *lab.Process, key string) guard.Lock {
			return &renumbered{Mutex: v8.New(p.Redis(), key, p.TTL())}
		}), []string{"token-grows-on-re-entry"}},
		{"redlock on one node of five", with("redlock", func(p *lab.Process, key string) guard.Lock {
			return redlock.New(p.Nodes()[:1], key, p.TTL())
		}), []string{"failover", "clock-jump-minority"}},
		{"v7 whose handing on has no expiry", with("v7_queue", func(p *lab.Process, key string) guard.Lock {
			return lasting{v7.New(p.Redis(), key, p.TTL()), p.Redis(), key}
		}), []string{"handed-on-holder-dies"}},
		{"v9 that hands on in its process what is lost", with("v9_cohort", inherited()), []string{"lost-hold-handed-on"}},
		{"v7 without its handing on", with("v7_queue", func(p *lab.Process, key string) guard.Lock {
			return freed{v7.New(p.Redis(), key, p.TTL()), p.Redis(), key}
		}), []string{"missed-wake-up"}},
	}
}

// What only looks like a lock keeps no promise: where nobody came in, nobody was kept out or
// nothing was given back, the cell is unknown. What it keeps all the same is not
// about that, and no anomaly that is about it turns out as on record.
func TestBrokenLocksKeepNothing(t *testing.T) {
	for _, m := range []struct {
		what, stage string
		lock        func(p *lab.Process, key string) guard.Lock
		keeps       []string // what it is not too broken for
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
			"wait-not-cancelled", "cancel-not-told-apart", "wait-limit-wrong", "wait-limit-ends-the-hold", "redis-away-while-waiting",
			"cache-stampede", "cache-load-per-instance", "cache-load-outlives-lease", "cache-missing-key",
		}},
		{"it is given back by its ttl alone", "v4_lua", func(p *lab.Process, key string) guard.Lock {
			return kept{v4.New(p.Redis(), key, p.TTL())}
		}, []string{
			"lost-update", "local-mutex-across-instances", "committed-before-release", "strategies-take-turns", "optimistic-aborts",
			"orphan-after-crash", "crash-before-expire", "forgotten-unlock",
			"wait-not-cancelled", "cancel-not-told-apart", "wait-limit-wrong", "wait-limit-ends-the-hold", "redis-away-while-waiting",
			"cache-stampede", "cache-load-per-instance", "cache-missing-key", "cache-failed-load",
		}},
	} {
		t.Run(m.what, func(t *testing.T) {
			t.Parallel()
			c := subjectOf(m.stage, m.lock)
			r := try(t, []lab.Subject{c}, exitUnexpected, "-strategy", m.stage)
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

// failing answers everything with an error.
type failing struct{}

var errBroken = errors.New("broken")

func (failing) TryLock(context.Context) (bool, error)          { return false, errBroken }
func (failing) Lock(context.Context) error                     { return errBroken }
func (failing) Unlock(context.Context) error                   { return errBroken }
func (failing) Context(parent context.Context) context.Context { return parent }
func (failing) Token() int64                                   { return 0 }

// refusing grants nothing.
type refusing struct{ failing }

func (refusing) TryLock(context.Context) (bool, error) { return false, nil }
func (refusing) Unlock(context.Context) error          { return nil }

func (refusing) Lock(ctx context.Context) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

// granting grants everything.
type granting struct{ refusing }

func (granting) TryLock(context.Context) (bool, error) { return true, nil }
func (granting) Lock(context.Context) error            { return nil }
func (granting) Token() int64                          { return 1 }

// kept is never given back.
type kept struct{ guard.Lock }

func (kept) Unlock(context.Context) error { return nil }

// uncounted gives the lock back with the first Unlock, as v4 does.
type uncounted struct {
	*v5.Mutex
	rdb redis.Cmdable
	key string
}

func (u uncounted) Unlock(ctx context.Context) error {
	return errors.Join(u.Mutex.Unlock(ctx), u.rdb.Del(ctx, u.key).Err())
}

// renamed is a v5 lock for callers whose context has an owner of v6.
type renamed struct {
	*v5.Mutex
	owner string
}

func (r renamed) TryLock(ctx context.Context) (bool, error) {
	return r.Mutex.TryLock(v5.WithOwner(ctx, r.owner))
}

func (r renamed) Unlock(ctx context.Context) error {
	return r.Mutex.Unlock(v5.WithOwner(ctx, r.owner))
}

// endless renews on after Unlock, for as long as its process lives.
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

// deaf never tells its holder anything.
type deaf struct{ *v6.Mutex }

func (deaf) Context(parent context.Context) context.Context { return parent }

// contextual is a lock that tells its holder of a loss.
type contextual interface {
	guard.Lock
	Context(parent context.Context) context.Context
}

// polled has no Lock: who waits asks Redis again and again.
type polled struct {
	contextual
	rdb redis.Cmdable
	key string
}

func (p polled) TryLock(ctx context.Context) (bool, error) {
	if n, err := p.rdb.Exists(ctx, p.key).Result(); err != nil || n > 0 {
		return false, err
	}
	return p.contextual.TryLock(ctx)
}

// counted takes its token from a counter beside the lock, when it is asked for: by
// then it may be that of the next holder.
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

// renumbered has a larger token with each entry.
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

// freed frees the lock with Unlock, and wakes nobody.
type freed struct {
	*v7.Mutex
	rdb redis.Cmdable
	key string
}

func (f freed) Unlock(ctx context.Context) error {
	return errors.Join(f.rdb.Del(ctx, f.key).Err(), f.Mutex.Unlock(ctx))
}

// lasting takes the expiry from what it hands on.
type lasting struct {
	*v7.Mutex
	rdb redis.Cmdable
	key string
}

func (l lasting) Lock(ctx context.Context) error {
	if err := l.Mutex.Lock(ctx); err != nil {
		return err
	}
	return l.rdb.Persist(ctx, l.key).Err()
}

// inherited makes locks whose callers of one process hand the lock on among
// themselves, whether it is lost or not.
func inherited() func(p *lab.Process, key string) guard.Lock {
	var mu sync.Mutex
	lines := make(map[*lab.Process]*line)
	return func(p *lab.Process, key string) guard.Lock {
		mu.Lock()
		defer mu.Unlock()
		if lines[p] == nil {
			lines[p] = new(line)
		}
		return &heir{Mutex: v9.New(p.Redis(), key, p.TTL()), line: lines[p], mine: make(chan struct{})}
	}
}

// line is who waits in one process.
type line struct {
	mu      sync.Mutex
	held    bool
	waiting []*heir
}

type heir struct {
	*v9.Mutex                 // that it took, or inherited
	owner     context.Context // who took it
	line      *line
	mine      chan struct{} // closed when it has inherited
}

func (h *heir) TryLock(ctx context.Context) (bool, error) {
	h.line.mu.Lock()
	defer h.line.mu.Unlock()
	if h.line.held {
		return false, nil
	}
	ok, err := h.Mutex.TryLock(ctx)
	h.line.held, h.owner = ok, ctx
	return ok, err
}

func (h *heir) Lock(ctx context.Context) error {
	h.line.mu.Lock()
	held := h.line.held
	if held {
		h.line.waiting = append(h.line.waiting, h)
	}
	h.line.mu.Unlock()
	if !held {
		return h.Mutex.Lock(ctx)
	}
	select {
	case <-h.mine:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (h *heir) Unlock(context.Context) error {
	h.line.mu.Lock()
	defer h.line.mu.Unlock()
	if len(h.line.waiting) > 0 {
		next := h.line.waiting[0]
		h.line.waiting = h.line.waiting[1:]
		next.Mutex, next.owner = h.Mutex, h.owner
		close(next.mine)
		return nil
	}
	h.line.held = false
	return h.Mutex.Unlock(h.owner)
}
