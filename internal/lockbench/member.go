package lockbench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"sync"
	"sync/atomic"
	"time"

	"oversell/internal/proc"
)

// member is one process of a row, seen from the one that runs the row.
type member struct {
	setup  setup
	board  *board
	proc   *proc.Process
	orders io.WriteCloser
	log    tail

	news    chan news   // what it tells; closed when it tells no more
	tally   tally       // once it is over
	killed  atomic.Bool // on purpose
	stopped atomic.Bool // on purpose
}

// enlist runs a process and has it set up. It is not ready then.
func enlist(cmd *exec.Cmd, s setup) (_ *member, err error) {
	m := &member{setup: s, news: make(chan news, 4)}
	defer func() {
		if err != nil {
			err = m.failed(err)
			m.unmap()
		}
	}()
	if !s.Memory {
		if m.board, err = newBoard(s.Board, s.Crowd); err != nil {
			return nil, err
		}
	}
	if m.orders, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	cmd.Stderr = &m.log
	if m.proc, err = proc.Start(cmd); err != nil {
		return nil, err
	}
	go m.listen(out)
	if err = m.tell(order{Setup: &s}); err != nil {
		m.proc.Kill()
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

func (m *member) failed(err error) error {
	return fmt.Errorf("process %s: %w%s", m.setup.Name, err, &m.log)
}

// listen passes on what the process tells, until it ends.
func (m *member) listen(out io.Reader) {
	defer close(m.news)
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var n news
		if err := json.Unmarshal(lines.Bytes(), &n); err != nil {
			fmt.Fprintf(&m.log, "no news: %s\n", lines.Bytes())
			continue
		}
		m.news <- n // four at most are told, and there is room for them
	}
}

func (m *member) tell(o order) error {
	text, err := json.Marshal(o)
	if err == nil {
		_, err = m.orders.Write(append(text, '\n'))
	}
	return err
}

var (
	errDied = errors.New("ended by itself")
	errLate = errors.New("did not answer in time")
)

// hear returns what the process tells next.
func (m *member) hear(ctx context.Context, limit time.Duration) (news, error) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case n, ok := <-m.news:
		if ok {
			return n, nil
		}
		<-m.proc.Done()
		return news{}, m.failed(fmt.Errorf("%w: %v", errDied, m.proc.State()))
	case <-timer.C:
		return news{}, m.failed(errLate)
	case <-ctx.Done():
		return news{}, context.Cause(ctx)
	}
}

// kill ends the process on the spot, as a crash would.
func (m *member) kill() {
	m.killed.Store(true)
	m.proc.Kill()
}

// stopTimeout is how long a process may take to end when it is asked to.
const stopTimeout = 5 * time.Second

// dismiss ends the process, and kills it if that takes too long.
func (m *member) dismiss() {
	_ = m.orders.Close() // the end of its orders is the order to end
	timer := time.NewTimer(stopTimeout)
	defer timer.Stop()
	select {
	case <-m.proc.Done():
	case <-timer.C:
		m.proc.Kill()
	}
	for range m.news { // to the end, so that nobody is left listening
	}
	m.unmap()
}

// tail keeps the end of what is written to it, for an error message. It is safe
// for concurrent use; its zero value is empty.
type tail struct {
	mu   sync.Mutex
	text []byte
}

const tailSize = 2 << 10 // bytes

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	if extra := len(t.text) - tailSize; extra > 0 {
		t.text = append(t.text[:0], t.text[extra:]...)
	}
	return len(p), nil
}

// String returns what was kept as an addition to an error message.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.text) == 0 {
		return ""
	}
	return "; it logged:\n" + string(bytes.TrimRight(t.text, "\n"))
}
