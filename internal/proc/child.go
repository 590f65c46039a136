package proc

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
	"time"
)

// The errors of a Child.
var (
	ErrDied = errors.New("ended by itself")
	ErrLate = errors.New("did not answer")
)

// ExitGrace is how long a process may take to end after its pipes and connections broke.
const ExitGrace = 200 * time.Millisecond

// Child is a child process that takes commands from its standard input and reports
// events on its standard output, one JSON object a line: see Listen for its side. It
// ends when its input does.
type Child[Command, Event any] struct {
	*Process
	Events <-chan Event // closed after the last one; somebody must receive them

	name string
	in   io.WriteCloser
	log  tail
}

// StartChild runs cmd. The name is for error messages, which end with what the child
// logged on its standard error last.
func StartChild[Command, Event any](name string, cmd *exec.Cmd) (*Child[Command, Event], error) {
	events := make(chan Event, 4)
	c := &Child[Command, Event]{Events: events, name: name}
	out, err := cmd.StdoutPipe()
	if err == nil {
		c.in, err = cmd.StdinPipe()
	}
	cmd.Stderr = &c.log
	if err == nil {
		c.Process, err = Start(cmd)
	}
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	go c.listen(out, events)
	return c, nil
}

func (c *Child[Command, Event]) listen(out io.Reader, events chan<- Event) {
	defer close(events)
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e Event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			fmt.Fprintf(&c.log, "not an event: %s\n", lines.Bytes())
			continue
		}
		events <- e
	}
}

// Send sends a command. The error wraps ErrDied if the child has ended.
func (c *Child[Command, Event]) Send(command Command) error {
	text, err := json.Marshal(command)
	if err != nil {
		return fmt.Errorf("commanding %s: %w", c.name, err)
	}
	if _, err := c.in.Write(append(text, '\n')); err != nil {
		select {
		case <-c.Done():
			return c.Died()
		case <-time.After(ExitGrace):
			return fmt.Errorf("commanding %s: %w", c.name, err)
		}
	}
	return nil
}

// Await returns the next value of a channel that the events of a child feed, or Events
// itself. The error wraps ErrDied if the child ends first, ErrLate after the limit, or is
// the cause of ctx.
func Await[T, Command, Event any](ctx context.Context, c *Child[Command, Event], from <-chan T, limit time.Duration) (value T, err error) {
	select {
	case v, ok := <-from:
		if ok {
			return v, nil
		}
		<-c.Done()
		return value, c.Died()
	case <-c.Done():
		return value, c.Died()
	case <-time.After(limit):
		return value, fmt.Errorf("%s %w within %v%s", c.name, ErrLate, limit, &c.log)
	case <-ctx.Done():
		return value, context.Cause(ctx)
	}
}

// Died returns the error for a child that has ended and was not told to. It wraps ErrDied.
func (c *Child[Command, Event]) Died() error {
	return fmt.Errorf("%s %w: %v%s", c.name, ErrDied, c.State(), &c.log)
}

// Close ends the child's input, and kills the child if it does not end within the grace
// time.
func (c *Child[Command, Event]) Close(grace time.Duration) {
	_ = c.in.Close()
	select {
	case <-c.Done():
	case <-time.After(grace):
		c.Kill()
	}
	for range c.Events { // so that listen returns
	}
}

// Parent is a child's end of the conversation. Send is safe for concurrent use.
type Parent[Command, Event any] struct {
	Commands <-chan Command // closed after the last one

	mu  sync.Mutex
	out *json.Encoder
	err error
}

// Listen begins to receive commands from in. It calls over when there are no more, and
// stops when ctx ends. Events go to out.
func Listen[Command, Event any](ctx context.Context, over func(), in io.Reader, out io.Writer) *Parent[Command, Event] {
	commands := make(chan Command)
	p := &Parent[Command, Event]{Commands: commands, out: json.NewEncoder(out)}
	go func() {
		defer over()
		defer close(commands)
		for decoder := json.NewDecoder(in); ; {
			var c Command
			if err := decoder.Decode(&c); err != nil {
				p.fail(err)
				return
			}
			select {
			case commands <- c:
			case <-ctx.Done():
				return
			}
		}
	}()
	return p
}

func (p *Parent[Command, Event]) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != io.EOF {
		p.err = fmt.Errorf("reading a command: %w", err)
	}
}

// Err returns the error of a command that could not be read, or nil.
func (p *Parent[Command, Event]) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// Next returns the next command, or the zero one if there is none before ctx ends.
func (p *Parent[Command, Event]) Next(ctx context.Context) (c Command) {
	select {
	case c = <-p.Commands:
	case <-ctx.Done():
	}
	return c
}

// Send reports an event. If nobody listens any more, the commands end.
func (p *Parent[Command, Event]) Send(e Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = p.out.Encode(e)
}

// tail keeps the end of what is written to it, for an error message. It is safe for
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

// String returns what was kept as an addition to an error message.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.text) == 0 {
		return ""
	}
	return "; it logged:\n" + string(bytes.TrimRight(t.text, "\n"))
}
