package bench

import (
	"context"
	"net/http"
	"sync"
	"time"
)

// pool reuses connections to shops. It is safe for concurrent use. Call close at the end.
type pool struct {
	keep int // maximum number of idle connections
	most int // maximum number of connections in all, unless more are in use; 0: no limit

	mu      sync.Mutex
	waiting map[int][]*conn // idle connections by target; the most recently used one is last
	idle    int             // number of connections in waiting
	dialing int             // number of connections that are being opened
	busy    map[*conn]bool
	ended   bool
}

// The time that a connection may be idle. After that, the shop or a proxy may be about to close it.
// The time is shorter for an unused connection: a shop closes a new one if nothing comes for 5 s.
const (
	stale       = 20 * time.Second
	staleUnused = 4 * time.Second
)

func newPool(keep int) *pool {
	return &pool{keep: keep, waiting: make(map[int][]*conn), busy: make(map[*conn]bool)}
}

// get returns a connection for a request that may take up to the limit. Return it with put.
func (p *pool) get(ctx context.Context, target int, req *http.Request, limit time.Duration) (*conn, error) {
	if c := p.take(target, limit); c != nil {
		return c, nil
	}
	p.reserve()
	fresh, err := dial(ctx, req.URL)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dialing--
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: fresh, target: target}
	p.use(c, limit)
	return c, nil
}

// reserve counts a connection that is about to be opened, and closes an idle one if there would be
// too many. The targets of requests change in turn, but if one shop replies faster than another,
// its connections would stay idle while more and more were opened to the other.
func (p *pool) reserve() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dialing++
	if p.most == 0 || p.idle == 0 || p.idle+len(p.busy)+p.dialing <= p.most {
		return
	}
	fullest := -1
	for target, all := range p.waiting {
		if len(all) > 0 && (fullest < 0 || len(all) > len(p.waiting[fullest])) {
			fullest = target
		}
	}
	all := p.waiting[fullest]
	all[0].reset() // the one that has been idle for the longest
	p.waiting[fullest] = all[1:]
	p.idle--
}

// fill adds a new connection for a later request.
func (p *pool) fill(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.park(c, staleUnused)
}

// take returns the most recently used idle connection to a target, or nil.
func (p *pool) take(target int, limit time.Duration) *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.waiting[target]
	if len(all) == 0 {
		return nil
	}
	last := all[len(all)-1]
	if time.Now().After(last.until) { // the others have been idle for longer
		p.drop(target)
		return nil
	}
	p.waiting[target] = all[:len(all)-1]
	p.idle--
	p.use(last, limit)
	return last
}

// use marks a connection as busy and sets its deadline. The caller must hold mu.
func (p *pool) use(c *conn, limit time.Duration) {
	p.busy[c] = true
	_ = c.SetDeadline(time.Now().Add(limit)) // a dead connection fails when it is used
	if p.ended {
		c.cut()
	}
}

// drop closes the idle connections to a target. The caller must hold mu.
func (p *pool) drop(target int) {
	for _, c := range p.waiting[target] {
		c.reset()
	}
	p.idle -= len(p.waiting[target])
	delete(p.waiting, target)
}

// forget closes the idle connections to a target that was killed.
func (p *pool) forget(target int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop(target)
}

// put returns a connection to the pool, or closes it if it cannot be used again.
func (p *pool) put(c *conn, again bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.busy, c)
	if !again || p.ended || p.idle >= p.keep {
		c.reset()
		return
	}
	p.park(c, stale)
}

// park keeps an idle connection for the time d. The caller must hold mu.
func (p *pool) park(c *conn, d time.Duration) {
	c.until = time.Now().Add(d)
	p.waiting[c.target] = append(p.waiting[c.target], c)
	p.idle++
}

// cut ends the wait for all replies, including those to later requests.
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
