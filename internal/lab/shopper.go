package lab

import (
	"context"
	"net"
	"sync"
	"time"

	"oversell/internal/fault"
	"oversell/internal/guard"
)

// Shopper is the process of one buyer, which buys one unit under a subject's guard. Each of its
// commands waits at a gate until it is let through. In the game, all buyers share one Redis that
// executes their commands. Package search runs each buyer alone, and computes the replies.
//
// A Shopper runs in virtual time and is driven by one goroutine. Begin must be called first, then
// Run in its own goroutine, and Settle after each reply or fault.
type Shopper struct {
	*Process        // set by Begin
	Owner    string // the name under which it asks for a lock

	SetUp func(fault.Command) fault.Value // replies to a command that sets up a connection; nil: the server does
	Opens func(*Request)                  // is called with each command that is sent
	sees  func(moment)                    // is called with each moment of the buyer; may be nil
	// News has a buffer of one. It receives a value when something has changed.
	News chan struct{}

	start time.Time

	mu    sync.Mutex
	turns []*turn // commands that wait for a connection
	dials int     // number of connections so far
	conns []*gatedConn
	open  []*Request
	sent  int // number of commands so far

	// The state of the sale. It may be read while all goroutines are blocked.
	Section     Section
	Told        bool   // in the section, the buyer has learned that the lock is lost
	Read, Wrote *int64 // the stock; a buyer that has written it has sold a unit
	Done        bool
	Err         error // the error of Run, once Done

	// Fields of the game.
	index     int
	came      bool
	selfWaits bool     // a SelfWait was found
	waiting   *Request // the command that blocks in Redis
}

// Section says whether a buyer is before, in or after its critical section.
type Section byte

// The parts of a sale.
const (
	Ahead Section = iota
	Begun
	Ended
)

// Begin starts the process in its own world, without a server. The buyer uses the guard of the
// given subject.
func (s *Shopper) Begin(c Subject, sku string) {
	w := &World{TTL: ScheduleTTL, Delay: retryDelay, Subject: c, SKU: sku, server: nowhere,
		names: newNames(time.Now())}
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
	s.rdb.AddHook(fault.Redis{Before: s.takeTurn})
}

// Close ends the world that Begin made.
func (s *Shopper) Close() { s.w.close() }

// Run buys one unit, and returns when the buyer is done.
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
			s.Wrote = &n
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

// changed puts a value into News. The caller must hold mu.
func (s *Shopper) changed() {
	select {
	case s.News <- struct{}{}:
	default:
	}
}
