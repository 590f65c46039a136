package lab

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"oversell/internal/cache"
	"oversell/internal/locks"
)

// coldKey is a value that many read through an empty cache.
type coldKey struct {
	w       *World
	load    time.Duration // that one load takes
	missing bool          // the value does not exist
	unwary  bool          // leave out the look under the lock
	asked   *atomic.Int64 // times the database was asked
}

// cold is a value that nobody has read yet, whose load takes that long.
func (w *World) cold(load time.Duration) coldKey {
	k := coldKey{w: w, load: load, asked: new(atomic.Int64)}
	w.names.call(k.named(""), "cache")
	w.lockAt(k.named(":lock:" + w.column.Name))
	return k
}

// named returns the name of a key that package cache uses.
func (k coldKey) named(rest string) string { return "oversell:{cache:" + k.w.sku + "}" + rest }

// reader is an instance that reads.
func (k coldKey) reader(p *Process) *cache.Reader {
	w := k.w
	r := cache.New(cache.Config{
		Redis: p.rdb, Instance: p.name, Wait: 20 * w.TTL,
		Guards: map[string]locks.Guard{w.column.Name: w.column.guard(p, nil)},
		Work: func(context.Context, string) (func(), error) {
			w.deeds.add(hasLoaded, p.name)
			w.trace.add(p.name, Note, "loads the value from the database")
			w.Sleep(k.load)
			return nil, nil
		},
	})
	w.cleanup(r.Close)
	return r
}

// read reads once. A lock that gives up waiting is asked again.
func (k coldKey) read(r *cache.Reader, owner string) {
	req := cache.Request{Key: k.w.sku, Strategy: k.w.column.Name, Owner: owner, NoSecondLook: k.unwary}
	var err error
	for range 20 {
		if _, err = r.Read(k.w.ctx, req, k.source); err == nil {
			k.w.deeds.add(hasRead, owner)
			return
		}
	}
	need(false, "the value was not read: %v", err)
}

func (k coldKey) source(context.Context) ([]byte, bool, error) {
	k.asked.Add(1)
	return []byte("value"), !k.missing, nil
}

// many lets n read at the same time on an instance.
func (k coldKey) many(p *Process, n int) []<-chan struct{} {
	r := k.reader(p)
	var all []<-chan struct{}
	for i := range n {
		all = append(all, k.w.Go(func() { k.read(r, fmt.Sprintf("%s/%d", p.name, i)) }))
	}
	return all
}

// loads is the verdict on how often the database was asked.
func (k coldKey) loads(most int) verdict {
	w := k.w
	sum := int(k.asked.Load())
	need(sum > 0, "nothing was loaded")
	if sum > most {
		return w.broke("", "the database was asked %d times, where %d would do", sum, most)
	}
	return holds("the database was asked %d times", sum)
}
