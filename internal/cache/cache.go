// Package cache reads costly values through Redis with the double check: look
// in the cache; on a miss take the lock; look again; only then load, store and
// release. How often the source was asked is counted, an instance and in all.
package cache

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/singleflight"

	"oversell/internal/figures"
	"oversell/internal/locks"
	"oversell/internal/notice"
)

// The errors that Read returns, wrapped, besides those of the source and Redis.
var (
	ErrUnknownStrategy = errors.New("unknown strategy for the cache")
	ErrBusy            = errors.New("the lock was not had in time")
	ErrClosing         = errors.New("the cache is closing")
)

// Config is what a Reader is made with.
type Config struct {
	Redis    redis.UniversalClient
	Guards   map[string]locks.Guard // by strategy name
	Instance string                 // whose loads are counted
	Wait     time.Duration          // longest wait for a guard; 0 means 10 s
	TTL      time.Duration          // of a stored value; 0 means 5 min
	EmptyTTL time.Duration          // of the marker for a value that does not exist; 0 means 10 s

	// MaxEmpty bounds the keys of values that do not exist for which anything is left in
	// Redis within EmptyTTL; 0 means 1,000. More of them are looked up at their source each
	// time, and leave nothing.
	MaxEmpty int

	// Work is called before each load, to make loading as costly as the
	// lesson needs; the function it returns, if any, is called when the value
	// is stored and the guard is still held. Nil: nothing.
	Work func(ctx context.Context, key string) (after func(), err error)
}

// Guards makes the guards of a catalog's strategies, of those that have one: to
// the others a Reader has nothing to leave.
func Guards(catalog locks.Catalog, o locks.Options) map[string]locks.Guard {
	all := make(map[string]locks.Guard)
	for _, s := range catalog.With(o) {
		if s.GuardsLoads() {
			all[s.Name] = s.NewGuard(o)
		}
	}
	return all
}

// Reader reads through the cache. It is safe for concurrent use.
type Reader struct {
	cfg     Config
	notices *notice.Board
	misses  *misses
	looks   singleflight.Group // at the source, whether a value exists
}

// New returns a Reader. Close must be called in the end.
func New(cfg Config) *Reader {
	if cfg.Wait == 0 {
		cfg.Wait = 10 * time.Second
	}
	if cfg.TTL == 0 {
		cfg.TTL = 5 * time.Minute
	}
	if cfg.EmptyTTL == 0 {
		cfg.EmptyTTL = 10 * time.Second
	}
	if cfg.MaxEmpty == 0 {
		cfg.MaxEmpty = 1000
	}
	if cfg.Work == nil {
		cfg.Work = func(context.Context, string) (func(), error) { return nil, nil }
	}
	r := &Reader{cfg: cfg, misses: newMisses(cfg.MaxEmpty, cfg.EmptyTTL)}
	r.notices = notice.New(r.filled)
	return r
}

// Close ends all waits, those that begin later too, with ErrClosing.
func (r *Reader) Close() { r.notices.Close(ErrClosing) }

// Request says what to read and how.
type Request struct {
	Key      string // names the value, for all instances
	Strategy string // guards the load
	Owner    string // who asks, unique among all instances

	// NoSecondLook leaves out the look under the lock, so that its worth is
	// seen: everybody who waited loads again.
	NoSecondLook bool
}

// Result is what was read.
type Result struct {
	Value  []byte
	Found  bool           // false: the value does not exist at its source either
	Loaded bool           // this reader asked the source
	Spans  []figures.Span // times spent under the guard
	Lock   locks.Stats
}

// Load asks the source for a value, and returns false where there is none.
type Load func(ctx context.Context) (value []byte, found bool, err error)

// keys are a value's keys in Redis. They share a hash tag.
type keys struct{ key string }

func (k keys) value() string               { return "oversell:{cache:" + k.key + "}:value" }
func (k keys) ticket() string              { return "oversell:{cache:" + k.key + "}:ticket" }
func (k keys) loads() string               { return "oversell:{cache:" + k.key + "}:loads" }
func (k keys) lock(strategy string) string { return "oversell:{cache:" + k.key + "}:lock:" + strategy }

// empty is stored for a value that does not exist, so that it is not loaded
// again and again. No value is empty. It is all that such a value leaves in Redis.
const empty = ""

// errFilled ends the wait of readers whose value has been stored meanwhile.
var errFilled = errors.New("the cache has been filled")

// Read returns the value, from the cache if it is there.
func (r *Reader) Read(ctx context.Context, req Request, load Load) (Result, error) {
	guard, ok := r.cfg.Guards[req.Strategy]
	if !ok {
		return Result{}, fmt.Errorf("%w: %q", ErrUnknownStrategy, req.Strategy)
	}
	res, hit, err := r.get(ctx, req.Key)
	if err != nil || hit {
		return res, err
	}
	if r.misses.enter(req.Key) {
		defer func() { r.misses.leave(req.Key, res.Found) }()
	} else if exists, err := r.exists(ctx, req.Key, load); err != nil || !exists {
		return Result{}, err
	}
	wait, done := r.wait(ctx, req)
	defer done()
	e := locks.Entry{Key: keys{req.Key}.lock(req.Strategy), Owner: req.Owner, Wait: wait}
	var spans []figures.Span
	stats, err := guard.Do(ctx, e, func(ctx context.Context) error {
		from := time.Now()
		res, err = r.fill(ctx, req, load)
		spans = append(spans, figures.Span{From: from, To: time.Now()})
		return err
	})
	if errors.Is(err, errFilled) {
		res, hit, err = r.get(ctx, req.Key)
		if err == nil && !hit {
			err = fmt.Errorf("%w: the value was there, and is gone again", ErrBusy)
		}
	}
	res.Lock, res.Spans = stats, spans
	if err != nil {
		res.Found = false
		return res, fmt.Errorf("reading %s through the cache: %w", req.Key, err)
	}
	return res, nil
}

// exists asks the source whether there is a value, without a trace in Redis. All that ask
// for a key at the same time ask the source once.
func (r *Reader) exists(ctx context.Context, key string, load Load) (bool, error) {
	found, err, _ := r.looks.Do(key, func() (any, error) {
		_, found, err := load(context.WithoutCancel(ctx)) // others wait for it
		return found, err
	})
	if err != nil {
		return false, fmt.Errorf("looking whether %s exists: %w", key, err)
	}
	return found.(bool), nil
}

// wait begins a reader's wait for the guard. It is over when somebody has
// stored the value, unless the reader is not to look again.
func (r *Reader) wait(ctx context.Context, req Request) (context.Context, func()) {
	key := req.Key
	if req.NoSecondLook {
		key = unwatched + key
	}
	return r.notices.Wait(ctx, key, r.cfg.Wait, ErrBusy)
}

// unwatched before a key on the notice board means that nothing ends the wait
// for it but the limit.
const unwatched = "\x00"

// filled is what waiting readers are told when their value has been stored.
func (r *Reader) filled(ctx context.Context, key string) error {
	if strings.HasPrefix(key, unwatched) {
		return nil
	}
	if _, hit, err := r.get(ctx, key); err == nil && hit {
		return errFilled
	}
	return nil
}

// fill is what the guard is for: the second look, the load, the store. A load
// that is begun is finished even when the lease is lost on the way: the value
// is as good as ever, and a second load is all that can come of it.
func (r *Reader) fill(ctx context.Context, req Request, load Load) (Result, error) {
	ctx = context.WithoutCancel(ctx)
	if !req.NoSecondLook {
		if res, hit, err := r.get(ctx, req.Key); err != nil || hit {
			return res, err
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
	switch {
	case err != nil:
		return Result{Loaded: true}, errors.Join(fmt.Errorf("loading: %w", err), r.failed(ctx, req.Key))
	case found:
		err = r.store(ctx, req.Key, ticket, value)
	default:
		err = r.mark(ctx, req.Key, ticket)
	}
	if err != nil {
		return Result{Loaded: true}, err
	}
	return Result{Value: value, Found: found, Loaded: true}, nil
}

// get looks in the cache once.
func (r *Reader) get(ctx context.Context, key string) (Result, bool, error) {
	value, err := r.cfg.Redis.Get(ctx, keys{key}.value()).Bytes()
	if errors.Is(err, redis.Nil) {
		return Result{}, false, nil
	}
	if err != nil {
		return Result{}, false, fmt.Errorf("looking in the cache: %w", err)
	}
	return Result{Value: value, Found: string(value) != empty}, true, nil
}

// Forget removes a value from the cache, because its source has changed. Loads
// under way, which may have seen the source as it was, are not stored.
func (r *Reader) Forget(ctx context.Context, key string) error {
	k := keys{key}
	if err := r.cfg.Redis.Del(ctx, k.value(), k.ticket()).Err(); err != nil {
		return fmt.Errorf("removing %s from the cache: %w", key, err)
	}
	return nil
}

// Delete forgets a value with all that is known of it: loads and locks.
func (r *Reader) Delete(ctx context.Context, key string) error {
	k := keys{key}
	all := []string{k.value(), k.ticket(), k.loads()}
	for name := range r.cfg.Guards {
		all = append(all, k.lock(name))
	}
	if err := r.cfg.Redis.Del(ctx, all...).Err(); err != nil {
		return fmt.Errorf("deleting %s from the cache: %w", key, err)
	}
	return nil
}

// Loads returns how often each instance has asked the source for the value.
func (r *Reader) Loads(ctx context.Context, key string) (map[string]int64, error) {
	counts := make(map[string]int64)
	fields, err := r.cfg.Redis.HGetAll(ctx, keys{key}.loads()).Result()
	if err != nil {
		return nil, fmt.Errorf("reading the loads of %s: %w", key, err)
	}
	for instance, text := range fields {
		var n int64
		if _, err := fmt.Sscan(text, &n); err != nil {
			return nil, fmt.Errorf("the loads of %s by %s are no number: %w", key, instance, err)
		}
		counts[instance] = n
	}
	return counts, nil
}
