package lockbench

import (
	"context"
	"os/exec"
	"sync/atomic"
	"time"

	"oversell/internal/proc"
)

// member is one process of a row, as the runner sees it.
type member struct {
	*proc.Child[command, event]
	setup setup
	board *board // or nil

	tally   tally       // once it is over
	killed  atomic.Bool // by the runner
	stopped atomic.Bool // by the runner
}

// enlist starts a process and sends it its setup. It does not wait for the process to be
// ready.
func enlist(cmd *exec.Cmd, s setup) (_ *member, err error) {
	m := &member{setup: s}
	defer func() {
		if err != nil {
			m.unmap()
		}
	}()
	if m.board, err = newBoard(s.Board, s.Crowd); err != nil {
		return nil, err
	}
	if m.Child, err = proc.StartChild[command, event]("process "+s.Name, cmd); err != nil {
		return nil, err
	}
	if err := m.Send(command{Setup: &s}); err != nil {
		m.Kill()
		return nil, err
	}
	return m, nil
}

// unmap removes the board. Nobody may use it any more.
func (m *member) unmap() {
	if m.board != nil {
		_ = m.board.Close() // at worst some memory stays
		_ = m.board.Remove()
	}
}

// hear returns the next event.
func (m *member) hear(ctx context.Context, limit time.Duration) (event, error) {
	return proc.Await(ctx, m.Child, m.Events, limit)
}

// kill kills the process, as a crash would.
func (m *member) kill() {
	m.killed.Store(true)
	m.Kill()
}

// stopTimeout is how long a process may take to end when it is asked to.
const stopTimeout = 5 * time.Second

// dismiss ends the process, and kills it if that takes too long.
func (m *member) dismiss() {
	m.Close(stopTimeout)
	m.unmap()
}
