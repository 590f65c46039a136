package runs

import (
	"context"
	"time"

	"oversell/internal/bench/report"
)

// Current is the latest run and its row under way.
type Current struct {
	Summary
	Now *Live `json:"now"`
}

// Event holds the changes since a subscriber's last event. It leaves out states that came and went
// while the subscriber was busy.
type Event struct {
	Version uint64
	List    []Summary     // the runs, newest first; nil: no run has begun or ended
	Rows    []NumberedRow // rows of the latest run that have finished since the last event
	Run     *Current      // the latest run, or nil
}

// NumberedRow is a finished row.
type NumberedRow struct {
	ID  string     `json:"id"` // of the run
	N   int        `json:"n"`  // counted from 1
	Row report.Row `json:"row"`
}

// eventPause is the shortest time between two events of a subscriber.
const eventPause = 100 * time.Millisecond

// Subscription is one subscriber's view of a Manager. It only records what it has delivered, so a
// slow subscriber gets fewer events, and a subscriber that goes away leaves nothing behind. It is
// not safe for concurrent use.
type Subscription struct {
	manager *Manager
	version uint64    // the last version that was delivered; 0: none
	run     string    // the run whose rows were delivered
	rows    int       // number of its rows that were delivered
	last    time.Time // when the last event was delivered
}

// Subscribe returns a subscription. Its first event contains the whole state.
func (m *Manager) Subscribe() *Subscription { return &Subscription{manager: m} }

// Next waits until there is a change and eventPause has passed since the last event. It returns the
// cause of ctx if ctx ends first, and ErrClosed when the Manager is closed.
func (s *Subscription) Next(ctx context.Context) (Event, error) {
	if err := await(ctx, s.manager, time.After(time.Until(s.last.Add(eventPause)))); err != nil {
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
	if ctx.Err() != nil { // even if there is a change
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

// take returns the changes, or a channel that is closed at the next one.
func (s *Subscription) take() (e Event, changed <-chan struct{}, ok bool) {
	m := s.manager
	m.mu.Lock()
	defer m.mu.Unlock()
	if s.version == m.version {
		return e, m.changed, false
	}
	e.Version = m.version
	if m.listed > s.version {
		e.List = m.list()
	}
	if n := len(m.runs); n > 0 {
		r := m.runs[n-1]
		e.Run = &Current{Summary: r.summary(), Now: r.live()}
		e.Rows = s.newRows(r)
	}
	s.version, s.last = m.version, time.Now()
	return e, nil, true
}

// newRows returns the rows of the latest run that have not been delivered yet.
func (s *Subscription) newRows(r *run) []NumberedRow {
	if s.run != r.ID {
		s.run, s.rows = r.ID, 0
	}
	var fresh []NumberedRow
	for ; s.rows < len(r.rows); s.rows++ {
		fresh = append(fresh, NumberedRow{r.ID, s.rows + 1, r.rows[s.rows]})
	}
	return fresh
}
