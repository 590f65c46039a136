package runs

import (
	"fmt"
	"slices"
	"sync"
)

// Occupy keeps runs from starting until leave is called. It is for work that uses the
// processor for a long time, and would distort what a run measures. The error wraps
// ErrBusy while a run is under way, or is ErrClosed. There may be several such tasks at
// once, and leave may be called more than once.
func (m *Manager) Occupy(what string) (leave func(), err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.underWay(); err != nil {
		return nil, err
	}
	m.others = append(m.others, what)
	return sync.OnceFunc(func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		i := slices.Index(m.others, what)
		m.others = slices.Delete(m.others, i, i+1)
	}), nil
}

// underWay returns ErrClosed, or an error that wraps ErrBusy while a run is under way. The
// caller has locked mu.
func (m *Manager) underWay() error {
	if m.ctx.Err() != nil {
		return ErrClosed
	}
	if n := len(m.runs); n > 0 && m.runs[n-1].ended.IsZero() {
		return fmt.Errorf("%w: %s", ErrBusy, m.runs[n-1].id)
	}
	return nil
}
