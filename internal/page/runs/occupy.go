package runs

import (
	"fmt"
	"slices"
	"sync"
)

// Occupy has no run start until leave is called. It is for what takes the
// processor for long: a run beside it would measure that, and not its strategies.
// The error wraps ErrBusy while a run is under way, or is ErrClosed. Any number may
// occupy the machine at once, and leave may be called more than once.
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

// underWay returns an error that wraps ErrBusy or is ErrClosed, unless a run could
// start. The caller has locked mu.
func (m *Manager) underWay() error {
	if m.ctx.Err() != nil {
		return ErrClosed
	}
	if n := len(m.runs); n > 0 && m.runs[n-1].ended.IsZero() {
		return fmt.Errorf("%w: %s", ErrBusy, m.runs[n-1].id)
	}
	return nil
}
