package anomalies

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"oversell/internal/cache"
	"oversell/internal/guard"
	"oversell/internal/lab"
)

var cacheStampede = lab.Try("cache-stampede", needsCacheGuard, func(w *lab.World) lab.Verdict {
	k := cold(w, w.TTL/10)
	w.Together(k.many(w.Start("A"), 6)...)
	return k.loads(1)
}, read(6))

var cacheInstances = lab.Try("cache-load-per-instance", needsCacheGuard, func(w *lab.World) lab.Verdict {
	k := cold(w, w.TTL/10)
	w.Together(append(k.many(w.Start("A"), 3), k.many(w.Start("B"), 3)...)...)
	return k.loads(1)
}, read(6))

var cacheSlowLoad = lab.Try("cache-load-outlives-lease", needsCacheGuard, func(w *lab.World) lab.Verdict {
	k := cold(w, w.TTL+w.TTL/2)
	w.Together(append(k.many(w.Start("A"), 1), k.many(w.Start("B"), 1)...)...)
	return k.loads(1)
}, read(2))

var cacheSecondLook = lab.Try("cache-no-second-look", needsCacheGuard, func(w *lab.World) lab.Verdict {
	k := cold(w, w.TTL/20)
	k.unwary = true
	w.Together(k.many(w.Start("A"), 3)...)
	return k.loads(1)
}, read(3), loaded(3))

var cacheMissing = lab.Try("cache-missing-key", needsCacheGuard, func(w *lab.World) lab.Verdict {
	k := cold(w, 0)
	k.missing = true
	p := w.Start("A")
	r := k.reader(p)
	for range 5 {
		k.read(r, "A/1")
	}
	return k.loads(1)
}, read(5))

var cacheFailedLoad = lab.Try("cache-failed-load", needsCacheGuard, func(w *lab.World) lab.Verdict {
	a, b := w.Start("A"), w.Start("B")
	round := func(unwary bool) coldKey {
		k := cold(w, w.TTL/20)
		k.unwary, k.failing = unwary, 2*perInstance
		w.Together(append(k.many(a, perInstance), k.many(b, perInstance)...)...)
		return k
	}
	naive := round(true).asked.Load()
	w.Note("", "each reader loads again: queries to the database: %d", naive)
	return round(false).loads(1)
}, loaded(2*perInstance+1),
	times(hasFailed, 4*perInstance, "%d of %d readers have the error of the load"))

// perInstance is the number of readers in each instance that wait for the failing load.
const perInstance = 2

var errAway = errors.New("the database is away")

// coldKey is a value that many readers read through an empty cache.
type coldKey struct {
	w       *lab.World
	load    time.Duration // how long one load takes
	missing bool          // the value does not exist
	unwary  bool          // a reader that gets the lock does not check the cache again
	failing int64         // if not 0: each load fails once that many readers have asked for the lock
	waiting *atomic.Int64 // readers that have asked for the lock
	asked   *atomic.Int64 // queries to the database
}

type counted struct {
	guard.Guard
	callers *atomic.Int64
}

func (c counted) Do(ctx context.Context, e guard.Entry, section func(context.Context) error) (guard.Stats, error) {
	c.callers.Add(1)
	return c.Guard.Do(ctx, e, section)
}

// cold returns a value that is not cached yet. Loading it takes the duration load.
func cold(w *lab.World, load time.Duration) coldKey {
	k := coldKey{w: w, load: load, waiting: new(atomic.Int64), asked: new(atomic.Int64)}
	w.NameKey(k.named(""), "cache")
	w.SetLockKey(k.named(":lock:" + w.Subject.Name))
	return k
}

// named returns the name of one of the keys of package cache. The name ends with rest.
func (k coldKey) named(rest string) string { return "oversell:{cache:" + k.w.SKU + "}" + rest }

func (k coldKey) reader(p *lab.Process) *cache.Reader {
	w := k.w
	r := cache.New(cache.Config{
		Redis: p.Redis(), Instance: p.Name, Wait: 20 * w.TTL,
		Guards: map[string]guard.Guard{w.Subject.Name: counted{p.Guard(), k.waiting}},
		Work: func(context.Context, string) (func(), error) {
			w.Record(hasLoaded, p.Name)
			w.Trace(p.Name, lab.Note, "loads the value from the database")
			w.Sleep(k.load)
			for k.waiting.Load() < k.failing {
				w.Settle()
			}
			return nil, nil
		},
	})
	w.Cleanup(r.Close)
	return r
}

// read reads the value. It tries again if the wait for the lock times out.
func (k coldKey) read(r *cache.Reader, owner string) {
	req := cache.Request{Key: k.w.SKU, Strategy: k.w.Subject.Name, Owner: owner, NoSecondLook: k.unwary}
	var err error
	for range 20 {
		if _, err = r.Read(k.w.Context(), req, k.source); err == nil {
			k.w.Record(hasRead, owner)
			return
		}
		if k.failing > 0 && strings.Contains(err.Error(), errAway.Error()) {
			k.w.Record(hasFailed, owner)
			return
		}
	}
	lab.Need(false, "the value was not read: %v", err)
}

func (k coldKey) source(context.Context) ([]byte, bool, error) {
	k.asked.Add(1)
	if k.failing > 0 {
		return nil, false, errAway
	}
	return []byte("value"), !k.missing, nil
}

func (k coldKey) many(p *lab.Process, n int) []<-chan struct{} {
	r := k.reader(p)
	var all []<-chan struct{}
	for i := range n {
		all = append(all, k.w.Go(func() { k.read(r, fmt.Sprintf("%s/%d", p.Name, i)) }))
	}
	return all
}

func (k coldKey) loads(most int) lab.Verdict {
	w := k.w
	sum := int(k.asked.Load())
	lab.Need(sum > 0, "nothing was loaded")
	if sum > most {
		return w.Broke("", "queries to the database: %d, where %d would do", sum, most)
	}
	return lab.Holds.Because("queries to the database: %d", sum)
}
