package runs

import (
	"context"
	"time"

	"oversell/internal/bench"
)

// Current is the latest run, and how its row is doing.
type Current struct {
	Summary
	Now *Live `json:"now"`
}

// Event is what is new to a subscriber. What came about and went by while the
// subscriber was busy is not in it.
type Event struct {
	Version uint64
	List    []Summary     // the runs, the newest first; nil: none has begun or ended
	Rows    []NumberedRow // finished rows of the latest run that were not told of before
	Run     *Current      // the latest run; nil: there is none
}

// NumberedRow is a finished row.
type NumberedRow struct {
	ID  string    `json:"id"` // of the run
	N   int       `json:"n"`  // counted from 1
	Row bench.Row `json:"row"`
}

// eventPause is the least time between two events of a subscriber.
const eventPause = 100 * time.Millisecond

// Subscription is one subscriber's view of a Manager. It keeps what it has told,
// and nothing else: a slow subscriber is told less, and one that goes away leaves
// nothing behind. It is for one goroutine.
type Subscription struct {
	manager *Manager
	version uint64    // that was told
	begun   bool      // something was told
	run     string    // whose rows were told of
	rows    int       // that were told of
	last    time.Time // when something was told
}

// Subscribe returns a subscription, whose first event tells everything.
func (m *Manager) Subscribe() *Subscription { return &Subscription{manager: m} }

// Next waits until there is something new and enough time has passed since the last
// event. It returns the cause of ctx when that ends first, and ErrClosed when the
// Manager is closed.
func (s *Subscription) Next(ctx context.Context) (Event, error) {
	timer := time.NewTimer(time.Until(s.last.Add(eventPause)))
	defer timer.Stop()
	if err := await(ctx, s.manager, timer.C); err != nil {
		return Event{}, err
	}
	for {
		e, changed, ok := s.take()
		if ok {
			return e, nil
		}
		if err := await(ctx, s.manager, changed); err != nil {
			return Event{}, err
		}
	}
}

// await waits for a channel, unless ctx or the manager ends first.
func await[T any](ctx context.Context, m *Manager, c <-chan T) error {
	if m.ctx.Err() != nil {
		return ErrClosed
	}
	if ctx.Err() != nil { // also when there is something new
		return context.Cause(ctx)
	}
	select {
	case <-c:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-m.ctx.Done():
		return ErrClosed
	}
}

// take returns what is new, or what to wait for.
func (s *Subscription) take() (e Event, changed <-chan struct{}, ok bool) {
	m := s.manager
	m.mu.Lock()
	defer m.mu.Unlock()
	if s.begun && s.version == m.version {
		return e, m.changed, false
	}
	e.Version = m.version
	if !s.begun || m.listed > s.version {
		e.List = m.list()
	}
	if n := len(m.runs); n > 0 {
		r := m.runs[n-1]
		e.Run = &Current{Summary: r.summary(), Now: r.now.clone()}
		e.Rows = s.newRows(r)
	}
	s.begun, s.version, s.last = true, m.version, time.Now()
	return e, nil, true
}

// newRows returns the rows of the latest run that were not told of.
func (s *Subscription) newRows(r *run) []NumberedRow {
	if s.run != r.id {
		s.run, s.rows = r.id, 0
	}
	var fresh []NumberedRow
	for ; s.rows < len(r.rows); s.rows++ {
		fresh = append(fresh, NumberedRow{r.id, s.rows + 1, r.rows[s.rows]})
	}
	return fresh
}
