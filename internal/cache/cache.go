// Package cache reads expensive values through Redis with double-checked locking: look in
// the cache; after a miss take the lock; look again; only then load, store and release. It
// counts the loads of each instance.
package cache

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/singleflight"

	"oversell/internal/broadcast"
	"oversell/internal/figures"
	"oversell/internal/guard"
)

// The errors that Read returns, wrapped, besides the errors of the source and of Redis.
var (
	ErrUnknownStrategy = errors.New("unknown strategy for the cache")
	ErrBusy            = errors.New("the lock was not acquired in time")
	ErrClosing         = errors.New("the cache is closing")
)

// Config configures a Reader.
type Config struct {
	Redis    redis.Cmdable
	Guards   map[string]guard.Guard // by strategy name
	Instance string                 // names this instance in the counts of loads
	Wait     time.Duration          // longest wait for a guard; 0 means 10 s

	// Work is called before each load, to make loading more expensive. The function that it
	// returns, if any, is called after the value was stored, while the guard is still held. If Work
	// is nil, nothing is called.
	Work func(ctx context.Context, key string) (after func(), err error)
}

const (
	valueTTL = 5 * time.Minute  // the ttl of a stored value
	emptyTTL = 10 * time.Second // the ttl of the marker for a value that does not exist

	// maxEmpty limits how many missing values may leave keys in Redis within emptyTTL. A read of any
	// other missing value asks the source, and leaves nothing in Redis.
	maxEmpty = 1000
)

// Reader reads through the cache. It is safe for concurrent use.
type Reader struct {
	cfg     Config
	waiters *broadcast.Broadcaster
	misses  *misses
	looks   singleflight.Group // calls to exists
}

// New returns a Reader. The caller must call Close.
func New(cfg Config) *Reader {
	cfg.Wait = cmp.Or(cfg.Wait, 10*time.Second)
	if cfg.Work == nil {
		cfg.Work = func(context.Context, string) (func(), error) { return nil, nil }
	}
	r := &Reader{cfg: cfg, misses: &misses{limit: maxEmpty}}
	r.waiters = broadcast.New(r.filled)
	return r
}

// Close ends all waits with ErrClosing, including those that begin later.
func (r *Reader) Close() { r.waiters.Close(ErrClosing) }

// Request says what to read and how.
type Request struct {
	Key      string // the name of the value, the same in all instances
	Strategy string // the strategy that guards the load
	Owner    string // the reader's id, unique among all instances

	// NoSecondLook skips the second look, to show why it is needed: every reader that has waited
	// loads again, whether the load before it succeeded or failed.
	NoSecondLook bool
}

// Result is the result of a read.
type Result struct {
	Value  []byte
	Found  bool           // false: the value does not exist at the source
	Loaded bool           // this reader loaded it from the source
	Spans  []figures.Span // times spent under the guard
	Lock   guard.Stats
}

// Load loads a value from the source, and returns false if it does not exist.
type Load func(ctx context.Context) (value []byte, found bool, err error)

// keys are a value's keys in Redis. They share a hash tag.
type keys struct{ key string }

func (k keys) value() string               { return "oversell:{cache:" + k.key + "}:value" }
func (k keys) ticket() string              { return "oversell:{cache:" + k.key + "}:ticket" }
func (k keys) failure() string             { return "oversell:{cache:" + k.key + "}:failure" }
func (k keys) loads() string               { return "oversell:{cache:" + k.key + "}:loads" }
func (k keys) lock(strategy string) string { return "oversell:{cache:" + k.key + "}:lock:" + strategy }

// empty marks a value that does not exist, so that it is not loaded again and again. Real values
// are never empty. For a missing value, Redis stores only this marker.
const empty = ""

var (
	// errFilled ends the waits of readers whose value another reader has stored.
	errFilled = errors.New("the cache has been filled")
	// errLoad is wrapped by the error of a load that failed. It ends the waits for that load.
	errLoad = errors.New("loading")
)

// Read returns a value, from the cache if the cache has it. If the reader waits for another
// reader's load and that load fails, Read returns the load's error. The next reader loads again.
func (r *Reader) Read(ctx context.Context, req Request, load Load) (Result, error) {
	held, ok := r.cfg.Guards[req.Strategy]
	if !ok {
		return Result{}, fmt.Errorf("%w: %q", ErrUnknownStrategy, req.Strategy)
	}
	res, hit, before, err := r.look(ctx, req.Key)
	if err != nil || hit {
		return res, err
	}
	if r.misses.enter(req.Key) {
		defer func() {
			if res.Found {
				r.misses.found(req.Key)
			}
		}()
	} else if exists, err := r.exists(ctx, req.Key, load); err != nil || !exists {
		return Result{}, err
	}
	// The wait ends when another reader has stored the value or failed to load it, unless the request
	// has NoSecondLook.
	wait, w := r.waiters.Begin(ctx, r.cfg.Wait, ErrBusy)
	defer w.Done()
	if !req.NoSecondLook {
		w.Attend(watched(req.Key, before))
	}
	e := guard.Entry{Key: keys{req.Key}.lock(req.Strategy), Owner: req.Owner}
	var spans []figures.Span
	stats, err := held.Do(wait, e, func(ctx context.Context) error {
		if err := context.Cause(wait); errors.Is(err, errLoad) {
			return err
		}
		from := time.Now()
		res, err = r.fill(ctx, req, before, load)
		spans = append(spans, figures.Span{From: from, To: time.Now()})
		return err
	})
	if err != nil && len(spans) == 0 && wait.Err() != nil {
		err = context.Cause(wait) // some locks return their own error in that case
	}
	if errors.Is(err, errFilled) {
		res, hit, _, err = r.look(ctx, req.Key)
		if err == nil && !hit {
			err = fmt.Errorf("%w: the value was stored and removed again", ErrBusy)
		}
	}
	res.Lock, res.Spans = stats, spans
	if err != nil {
		res.Found = false
		return res, fmt.Errorf("reading %s through the cache: %w", req.Key, err)
	}
	return res, nil
}

// exists asks the source whether a value exists, and writes nothing to Redis. Concurrent
// calls for a key share one load.
func (r *Reader) exists(ctx context.Context, key string, load Load) (bool, error) {
	found, err, _ := r.looks.Do(key, func() (any, error) {
		_, found, err := load(context.WithoutCancel(ctx)) // others share the load
		return found, err
	})
	if err != nil {
		return false, fmt.Errorf("checking whether %s exists: %w", key, err)
	}
	return found.(bool), nil
}

// watched returns the broadcaster's key for readers whose first look found the same failure.
func watched(key string, before failure) string { return before.id + " " + key }

// filled is the broadcaster's look function. It returns errFilled if the value has been stored, or
// the error of a load that has failed since the readers' first look.
func (r *Reader) filled(ctx context.Context, watched string) error {
	before, key, _ := strings.Cut(watched, " ")
	_, hit, last, err := r.look(ctx, key)
	switch {
	case err != nil:
		return nil
	case hit:
		return errFilled
	}
	return last.since(before)
}

// fill is the guarded section: the second look, the load, the store.
func (r *Reader) fill(ctx context.Context, req Request, before failure, load Load) (Result, error) {
	// WithoutCancel: a load is finished even if the lease is lost. The value is still valid, and the
	// worst that can happen is a second load.
	ctx = context.WithoutCancel(ctx)
	if !req.NoSecondLook {
		res, hit, last, err := r.look(ctx, req.Key)
		if err != nil || hit {
			return res, err
		}
		if err := last.since(before.id); err != nil {
			return Result{}, err
		}
	}
	ticket, err := r.begin(ctx, req.Key)
	if err != nil {
		return Result{}, err
	}
	after, err := r.cfg.Work(ctx, req.Key)
	if err != nil {
		return Result{}, fmt.Errorf("working on the load: %w", err)
	}
	if after != nil {
		defer after()
	}
	value, found, err := load(ctx)
	if err != nil {
		noted := r.failed(ctx, req.Key, err)
		err = fmt.Errorf("%w: %w", errLoad, err)
		if !req.NoSecondLook {
			r.waiters.End(watched(req.Key, before), err)
		}
		return Result{Loaded: true}, errors.Join(err, noted)
	}
	if err := r.store(ctx, req.Key, ticket, value, found); err != nil {
		return Result{Loaded: true}, err
	}
	return Result{Value: value, Found: found, Loaded: true}, nil
}

// look reads the cache once. It also returns the last failed load.
func (r *Reader) look(ctx context.Context, key string) (res Result, hit bool, last failure, err error) {
	k := keys{key}
	got, err := r.cfg.Redis.MGet(ctx, k.value(), k.failure()).Result()
	if err != nil {
		return Result{}, false, failure{}, fmt.Errorf("looking in the cache: %w", err)
	}
	value, hit := got[0].(string)
	failed, _ := got[1].(string)
	last.id, last.text, _ = strings.Cut(failed, " ")
	return Result{Value: []byte(value), Found: hit && value != empty}, hit, last, nil
}

// Forget removes a value from the cache because its source has changed. The results of
// running loads, which may have read the old value, are not stored.
func (r *Reader) Forget(ctx context.Context, key string) error {
	k := keys{key}
	if err := r.cfg.Redis.Del(ctx, k.value(), k.ticket()).Err(); err != nil {
		return fmt.Errorf("removing %s from the cache: %w", key, err)
	}
	return nil
}

// Delete removes all keys of a value, including its counts of loads and its locks.
func (r *Reader) Delete(ctx context.Context, key string) error {
	k := keys{key}
	all := []string{k.value(), k.ticket(), k.loads(), k.failure()}
	for name := range r.cfg.Guards {
		all = append(all, k.lock(name))
	}
	if err := r.cfg.Redis.Del(ctx, all...).Err(); err != nil {
		return fmt.Errorf("deleting %s from the cache: %w", key, err)
	}
	return nil
}

// Loads returns how many times each instance has loaded the value from the source.
func (r *Reader) Loads(ctx context.Context, key string) (map[string]int64, error) {
	counts := make(map[string]int64)
	fields, err := r.cfg.Redis.HGetAll(ctx, keys{key}.loads()).Result()
	if err != nil {
		return nil, fmt.Errorf("reading the loads of %s: %w", key, err)
	}
	for instance, text := range fields {
		var n int64
		if _, err := fmt.Sscan(text, &n); err != nil {
			return nil, fmt.Errorf("the loads of %s by %s are not a number: %w", key, instance, err)
		}
		counts[instance] = n
	}
	return counts, nil
}

// misses limits what reads of missing values store in Redis. Anybody can make up keys, and each of
// them costs Redis a marker and, with some locks, further keys. So at most limit keys may store
// something: those read in the current or the previous period. A period lasts at least emptyTTL, so a
// key's marker has expired when the key is forgotten. It is safe for concurrent use.
type misses struct {
	limit int

	mu          sync.Mutex
	turned      time.Time
	keys, older map[string]bool
}

// enter reports whether a reader of a key may store something in Redis. If it turns out that the
// value exists, the reader must call found.
func (m *misses) enter(key string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if passed := time.Since(m.turned); passed >= emptyTTL {
		if m.older = m.keys; passed >= 2*emptyTTL {
			m.older = nil
		}
		m.keys, m.turned = make(map[string]bool), time.Now()
	}
	if m.keys[key] {
		return true
	}
	if !m.older[key] && len(m.keys)+len(m.older) >= m.limit {
		return false
	}
	delete(m.older, key)
	m.keys[key] = true
	return true
}

// found records that the value of a key exists, so that the key does not count towards the limit.
func (m *misses) found(key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.keys, key)
	delete(m.older, key)
}
