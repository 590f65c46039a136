package bench

import (
	"context"
	"net/http"
	"sync"
	"time"
)

// pool reuses connections to shops. It is safe for concurrent use. Call close at the end.
type pool struct {
	keep int // most idle connections

	mu      sync.Mutex
	waiting map[int][]idle // by target; the last used is last
	idle    int            // in waiting
	busy    map[*conn]bool
	ended   bool
}

// idle is a connection that is not in use.
type idle struct {
	*conn
	since time.Time // zero: it was never used
}

// stale is when an idle connection is too old to reuse: the shop, or a proxy, may be about
// to close it.
const stale = 20 * time.Second

func newPool(keep int) *pool {
	return &pool{keep: keep, waiting: make(map[int][]idle), busy: make(map[*conn]bool)}
}

// get returns a connection for a request that may take as long as the limit. Return it
// with put.
func (p *pool) get(ctx context.Context, target int, req *http.Request, limit time.Duration) (*conn, error) {
	if c := p.take(target, limit); c != nil {
		return c, nil
	}
	fresh, err := dial(ctx, req.URL)
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: fresh, target: target}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.use(c, limit)
	return c, nil
}

// fill adds a new connection, for a request to come.
func (p *pool) fill(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting[c.target] = append(p.waiting[c.target], idle{conn: c})
	p.idle++
}

// take returns the last used idle connection, or nil.
func (p *pool) take(target int, limit time.Duration) *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.waiting[target]
	if len(all) == 0 {
		return nil
	}
	last := all[len(all)-1]
	if !last.since.IsZero() && time.Since(last.since) > stale { // and so are the others
		p.drop(target)
		return nil
	}
	p.waiting[target] = all[:len(all)-1]
	p.idle--
	p.use(last.conn, limit)
	return last.conn
}

// use begins the use of a connection. The caller has locked mu.
func (p *pool) use(c *conn, limit time.Duration) {
	p.busy[c] = true
	_ = c.SetDeadline(time.Now().Add(limit)) // a dead connection fails when it is used
	if p.ended {
		c.cut()
	}
}

// drop closes the idle connections to a target. The caller has locked mu.
func (p *pool) drop(target int) {
	for _, c := range p.waiting[target] {
		c.reset()
	}
	p.idle -= len(p.waiting[target])
	delete(p.waiting, target)
}

// forget closes the idle connections to a target that has ended.
func (p *pool) forget(target int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop(target)
}

// put returns a connection, which can be used again or not.
func (p *pool) put(c *conn, again bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.busy, c)
	if !again || p.ended || p.idle >= p.keep {
		c.reset()
		return
	}
	p.waiting[c.target] = append(p.waiting[c.target], idle{c, time.Now()})
	p.idle++
}

// cut ends the wait for all replies, including later ones.
func (p *pool) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	for c := range p.busy {
		c.cut()
	}
}

// close closes all connections. None may be in use.
func (p *pool) close() {
	p.cut()
	p.mu.Lock()
	defer p.mu.Unlock()
	for target := range p.waiting {
		p.drop(target)
	}
}
