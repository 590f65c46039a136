package fleet

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"time"

	"oversell/internal/fault"
)

// ErrLate is wrapped by the error for a member that does not answer in time.
var ErrLate = errors.New("did not answer")

// ExitGrace is the time that a process may take to exit after its pipes and connections have broken.
const ExitGrace = 200 * time.Millisecond

// Time limits of a member.
const (
	readyTimeout = time.Minute
	armTimeout   = 5 * time.Second
)

// command is one line, a JSON object, that a member reads from its standard input. Commands go
// through a pipe and not through arguments, because they may contain passwords.
type command struct {
	Setup  json.RawMessage `json:"setup,omitempty"` // only in the first command
	Words  string          `json:"words,omitempty"` // path of the shared Words; only in the first command
	ID     int64           `json:"id,omitempty"`    // not 0 if the command needs an answer
	Order  json.RawMessage `json:"order,omitempty"`
	Arm    *Arm            `json:"arm,omitempty"`
	Resume bool            `json:"resume,omitempty"` // a call that waits at a seam may continue
}

// event is one line, a JSON object, that a member writes to its standard output. An answer has an
// ID, and may have an Answer; any other event has one of the other fields.
type event struct {
	Ready   *string         `json:"ready,omitempty"`   // the member is ready; its HTTP address, or ""
	ID      int64           `json:"id,omitempty"`      // id of the command that is answered
	Answer  json.RawMessage `json:"answer,omitempty"`  // the answer to an order
	Reached Seam            `json:"reached,omitempty"` // a call waits at this seam
	HeldUp  *time.Time      `json:"held_up,omitempty"` // a call is held up at a seam until this time
	Stalled time.Duration   `json:"stalled,omitempty"` // the process stalled for this long
}

// Program describes a Member to start.
type Program struct {
	Name    string // the name in error messages
	Command func() (*exec.Cmd, error)
	Setup   any                     // the setup that its Serve receives
	Words   int                     // the number of words that it shares with this process
	Links   map[string]*fault.Relay // connections that can be cut; the Member closes them
}

// Member is a process of a Fleet, which runs Serve. When the process of the Fleet ends, the member's
// standard input is closed, and the member ends, too.
type Member struct {
	*Process
	URL    string // where the process serves HTTP, or ""
	Words  *Words // or nil
	Links  map[string]*fault.Relay
	HeldUp chan time.Time // receives the end of the delay of a call at a seam; buffers one value
	Stalls LongestStall

	Killed atomic.Bool // Kill or End was called
	Paused atomic.Bool // Pause was called in this row
	Cut    atomic.Bool // CutOff was called in this row

	name string
	in   io.WriteCloser
	log  tail

	ready   chan string
	reached chan<- Arrival

	last    atomic.Int64 // id of the last command that needed an answer
	answers sync.Map     // by the id of the command, the channel that receives its answer
}

// Arrival is a call in a process that waits at a seam.
type Arrival struct {
	Member *Member
	At     Seam
}

// run starts a process and waits until it is ready. Calls that wait at the member's seams are sent
// to reached. If that channel is full, a call is dropped.
func run(ctx context.Context, p Program, reached chan<- Arrival) (_ *Member, err error) {
	m := &Member{
		name: p.Name, Links: p.Links, ready: make(chan string, 1), HeldUp: make(chan time.Time, 1),
		reached: reached,
	}
	defer func() {
		if err != nil {
			m.release()
		}
	}()
	first, err := m.start(p)
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", p.Name, err)
	}
	addr := ""
	if err = m.send(first); err == nil {
		addr, err = await(ctx, m, m.ready, readyTimeout)
	}
	if err != nil {
		m.Process.Kill()
		return nil, err
	}
	if addr != "" {
		m.URL = "http://" + addr
	}
	if m.Words != nil && LiveWords {
		_ = m.Words.Remove() // both processes have opened the file; at worst a small file is left behind
	}
	return m, nil
}

// start starts the process, and returns the first command for it. If the program shares words, it
// first creates them.
func (m *Member) start(p Program) (first command, err error) {
	if first.Setup, err = json.Marshal(p.Setup); err != nil {
		return first, err
	}
	if p.Words > 0 {
		if m.Words, err = CreateWords("", p.Words); err != nil {
			return first, err
		}
		first.Words = m.Words.Path
	}
	cmd, err := p.Command()
	if err != nil {
		return first, err
	}
	if m.in, err = cmd.StdinPipe(); err != nil {
		return first, err
	}
	// This does not use the command's own pipe, which is closed when the process ends, even if not
	// everything has been read.
	out, to, err := os.Pipe()
	if err != nil {
		return first, err
	}
	cmd.Stdout, cmd.Stderr = to, &m.log
	m.Process, err = Start(cmd)
	_ = to.Close() // the process has its own copy
	if err != nil {
		_ = out.Close()
		return first, err
	}
	go m.listen(out)
	return first, nil
}

// listen handles the member's events until its output ends.
func (m *Member) listen(out io.ReadCloser) {
	defer func() { _ = out.Close() }()
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			fmt.Fprintf(&m.log, "not an event: %s\n", lines.Bytes())
			continue
		}
		switch {
		case e.Ready != nil:
			post(m.ready, *e.Ready)
		case e.ID != 0:
			if waiting, ok := m.answers.LoadAndDelete(e.ID); ok {
				waiting.(chan json.RawMessage) <- e.Answer
			}
		case e.Reached != "":
			post(m.reached, Arrival{m, e.Reached})
		case e.HeldUp != nil:
			post(m.HeldUp, *e.HeldUp)
		case e.Stalled > 0:
			m.Stalls.Add(e.Stalled)
		}
	}
}

// post sends v to a channel, but drops v if the channel is full.
func post[T any](to chan<- T, v T) {
	select {
	case to <- v:
	default:
	}
}

// Tell sends the process an order, waits for the reply, and decodes the reply into answer, unless
// answer is nil. The error wraps ErrLate after the limit. If ctx ends, it is the cause of ctx.
func (m *Member) Tell(ctx context.Context, order, answer any, limit time.Duration) error {
	text, err := json.Marshal(order)
	if err != nil {
		return fmt.Errorf("commanding %s: %w", m.name, err)
	}
	said, err := m.ask(ctx, command{Order: text}, limit)
	if err != nil || answer == nil {
		return err
	}
	if err := json.Unmarshal(said, answer); err != nil {
		return fmt.Errorf("reading the answer of %s: %w", m.name, err)
	}
	return nil
}

// Arm arms the seams of the process. It replaces the previous Arm.
func (m *Member) Arm(ctx context.Context, a Arm) error {
	_, err := m.ask(ctx, command{Arm: &a}, armTimeout)
	return err
}

// ask sends a command and waits for the answer.
func (m *Member) ask(ctx context.Context, c command, limit time.Duration) (json.RawMessage, error) {
	answer := make(chan json.RawMessage, 1)
	c.ID = m.last.Add(1)
	m.answers.Store(c.ID, answer)
	if err := m.send(c); err != nil {
		return nil, err
	}
	return await(ctx, m, answer, limit)
}

// Resume lets a call that waits at a seam continue. In a stopped process, the call continues once
// the process does.
func (m *Member) Resume() error { return m.send(command{Resume: true}) }

// send sends a command.
func (m *Member) send(c command) error {
	text, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("commanding %s: %w", m.name, err)
	}
	if _, err := m.in.Write(append(text, '\n')); err != nil {
		select {
		case <-m.Done():
			return m.died()
		case <-time.After(ExitGrace):
			return fmt.Errorf("commanding %s: %w", m.name, err)
		}
	}
	return nil
}

// await returns the next value from a channel that is filled by listen.
func await[T any](ctx context.Context, m *Member, from <-chan T, limit time.Duration) (value T, err error) {
	select {
	case v := <-from:
		return v, nil
	case <-m.Done():
		return value, m.died()
	case <-time.After(limit):
		return value, fmt.Errorf("%s %w within %v%s", m.name, ErrLate, limit, &m.log)
	case <-ctx.Done():
		return value, context.Cause(ctx)
	}
}

// died returns an error that says that the process ended by itself, with the end of its log.
func (m *Member) died() error {
	return fmt.Errorf("%s ended by itself: %v%s", m.name, m.State(), &m.log)
}

// ended reports whether the process has ended. It returns false for a member without a process.
func (m *Member) ended() bool {
	if m.Process == nil {
		return false
	}
	select {
	case <-m.Done():
		return true
	default:
		return false
	}
}

// Runs reports whether the process is running and nobody has decided to kill it.
func (m *Member) Runs() bool { return !m.Killed.Load() && !m.ended() }

// Kill kills the process, as a crash would. Its words can still be read.
func (m *Member) Kill() {
	m.Killed.Store(true)
	m.Process.Kill()
	m.unlink()
}

// Pause stops the process until Continue.
func (m *Member) Pause() error {
	m.Paused.Store(true)
	return m.Process.Pause()
}

// CutOff cuts one of the process's links while a call waits at a seam, until wait returns. The call
// continues, and the data that it sends arrives when the link is restored.
func (m *Member) CutOff(link string, wait func()) error {
	m.Cut.Store(true)
	m.Links[link].Hole()
	defer m.Links[link].Restore()
	if err := m.Resume(); err != nil {
		return err
	}
	wait()
	return nil
}

// End lets the process finish its work and exit, or kills it after the grace time. The words of the
// process can still be read.
func (m *Member) End(grace time.Duration) {
	m.Killed.Store(true)
	_ = m.in.Close()
	select {
	case <-m.Done():
	case <-time.After(grace):
		m.Process.Kill()
	}
}

// release frees the resources of this process for a member that has ended or did not start. Its
// words must not be used any more.
func (m *Member) release() {
	m.unlink()
	if m.Words != nil {
		_ = m.Words.Close()  // at worst a page of memory stays mapped
		_ = m.Words.Remove() // unless run has done so
	}
}

func (m *Member) unlink() {
	for _, link := range m.Links {
		_ = link.Close() // the link is no longer used
	}
}

// begin resets what was recorded in the previous row.
func (m *Member) begin() {
	select {
	case <-m.HeldUp: // this value is left over from the previous row
	default:
	}
	m.Paused.Store(false)
	m.Cut.Store(false)
	m.Stalls.Reset()
}

// tail keeps the last tailSize bytes that are written to it, for an error message. It is safe for
// concurrent use; the zero value is empty.
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

// String returns the kept text in a form that can be appended to an error message.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.text) == 0 {
		return ""
	}
	return "; it logged:\n" + string(bytes.TrimRight(t.text, "\n"))
}
