package lab

import (
	"context"
	"net"
	"sync"
	"time"

	"oversell/internal/fault"
	"oversell/internal/guard"
)

// Shopper is the process of one buyer: the shop's sale of one unit, under a subject's guard.
// Each of its commands waits at a gate until it is let go. In the game one Redis for all buyers
// executes it. Package search runs each buyer by itself, and works out the replies.
//
// A Shopper runs in virtual time, and one goroutine drives it. Begin must be called first,
// then Run by a goroutine of its own, and Settle after whatever the process is told.
type Shopper struct {
	*Process        // from Begin on
	Owner    string // the buyer, as it names itself to a lock

	SetUp func(fault.Command) fault.Value // replies to a command that sets up a connection; nil: the server does
	Opens func(*Request)                  // is called when a command has been sent
	sees  func(moment)                    // is called with what the buyer does; nil: nobody looks
	// News has room for a value, which is there when something has changed.
	News chan struct{}

	start time.Time
	turns *turnstile // at which the client's commands wait before they have a connection

	mu    sync.Mutex
	dials int // connections so far
	conns []*gatedConn
	open  []*openRequest
	sent  int // commands so far

	// What is known of the sale. It may be read when all goroutines wait.
	Section     Section
	Told        bool // in the section: that the lock is lost
	Read, Wrote *int64
	Sold        bool
	Done        bool
	Err         error // with which it is done

	// What the game keeps of it.
	index     int
	came      bool
	selfWaits bool     // that it waits for its own lock was found
	waiting   *Request // in Redis, which answers when there is something to tell
}

// Section is how far a buyer is in its section.
type Section byte

// The parts of a sale.
const (
	Ahead Section = iota
	Begun
	Ended
)

// Begin starts the process in a world of its own, without a server. It buys an item under a
// subject's guard.
func (s *Shopper) Begin(c Subject, sku string) {
	w := &World{TTL: ScheduleTTL, Delay: RetryDelay, Subject: c, SKU: sku, server: nowhere}
	w.lockKey = w.itemKey("lock")
	w.ctx, w.end = context.WithCancel(context.Background())
	s.begin(w, "")
}

// nowhere is a server that never replies.
var nowhere = &server{dial: func(context.Context) (net.Conn, error) {
	conn, _ := fault.Pipe()
	return conn, nil
}}

func (s *Shopper) begin(w *World, name string) {
	s.start = time.Now()
	s.Process = w.start(&Process{Name: name, mutex: new(guard.Local), gate: s})
	s.turns = &turnstile{life: s.life, notice: func() { s.note(func() {}) }}
	s.rdb.AddHook(s.turns)
}

// Close ends the world of a process that is by itself.
func (s *Shopper) Close() { s.w.close() }

// Run sells one unit, and returns when that is done.
func (s *Shopper) Run() {
	b := Buyer{p: s.Process, owner: s.Owner, Guard: s.StockGuard(nil), sees: s.saw}
	_, err := b.buy(s.life)
	s.note(func() { s.Done, s.Err = true, err })
}

func (s *Shopper) saw(m moment, n int64) {
	s.note(func() {
		switch m {
		case enters:
			s.Section, s.Told = Begun, false
		case isTold:
			s.Told = true
		case read:
			s.Read = &n
		case wrote:
			s.Wrote, s.Sold = &n, true
		case ends:
			s.Section = Ended
		}
	})
	if s.sees != nil {
		s.sees(m)
	}
}

func (s *Shopper) note(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
	s.changed()
}

// changed puts a value into News. The caller has locked mu.
func (s *Shopper) changed() {
	select {
	case s.News <- struct{}{}:
	default:
	}
}
