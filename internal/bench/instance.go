package bench

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

	"oversell/internal/backend/lockservers"
	"oversell/internal/netfault"
	"oversell/internal/proc"
)

// setup is what an instance is told before it starts. It goes through a pipe
// and not through arguments, since it may hold passwords.
type setup struct {
	RedisURL string        `json:"redis_url"`
	DBURL    string        `json:"db_url"`
	Name     string        `json:"name"`
	Token    string        `json:"token"`
	TTL      time.Duration `json:"ttl"`
	Wait     time.Duration `json:"wait"`
	Policy   string        `json:"policy"`
	Unfenced bool          `json:"unfenced"`
	Gauge    string        `json:"gauge,omitempty"` // the path of one; "": nobody looks

	Servers lockservers.Addresses `json:"servers"`
}

// order is what the bench tells an instance, one JSON object a line. The first
// has the setup, a later one anything else.
type order struct {
	Setup *setup     `json:"setup,omitempty"`
	Plan  *plan      `json:"plan,omitempty"`
	Until *time.Time `json:"until,omitempty"` // no holder leaves before
	GoOn  bool       `json:"go_on,omitempty"` // the parked holder may go on
}

// news is what an instance tells the bench, one JSON object a line.
type news struct {
	Addr    string     `json:"addr,omitempty"`    // it serves requests, here
	Planned bool       `json:"planned,omitempty"` // it follows the plan
	Parked  bool       `json:"parked,omitempty"`  // a holder is parked in its work step
	Struck  *time.Time `json:"struck,omitempty"`  // a holder is slow or late, until then

	Stalled time.Duration `json:"stalled,omitempty"` // the process stood still for so long
}

// The time limits of what an instance is asked for.
const (
	startTimeout = 20 * time.Second
	planTimeout  = 5 * time.Second
	stopTimeout  = 6 * time.Second
)

// instance is one shop in a process of its own.
type instance struct {
	name   string
	url    string
	proc   *proc.Process
	orders io.WriteCloser
	log    *tail
	link   *netfault.Relay // between it and Redis; nil: there is none
	gauge  *gauge          // of those inside; nil: nobody looks

	ready   chan string       // the address, once
	planned chan struct{}     // after each plan
	parked  chan struct{}     // when a holder is parked
	struck  chan time.Time    // when a holder is slow or late: until when
	killed  atomic.Bool       // on purpose
	paused  atomic.Bool       // on purpose, in this row
	cut     atomic.Bool       // off from Redis, on purpose, in this row
	stalls  proc.LongestStall // by its own account
}

// means is what an instance is to be had by, for what is done to it and seen of it.
type means struct {
	severable bool // the network between it and Redis can be cut: its connections go through a relay
	gauged    bool // it has a gauge of those inside, where that can be read
}

// legible reports whether an instance has a gauge that can be read.
func (m means) legible() bool { return m.gauged && proc.LiveWords }

// start runs an instance and waits until it serves requests.
func start(ctx context.Context, cmd *exec.Cmd, s setup, by means) (_ *instance, err error) {
	i := &instance{
		name: s.Name, log: &tail{},
		ready: make(chan string, 1), planned: make(chan struct{}, 1),
		parked: make(chan struct{}, 1), struck: make(chan time.Time, 1),
	}
	if by.legible() {
		if i.gauge, s.Gauge, err = newGauge(); err != nil {
			return nil, fmt.Errorf("starting instance %s: %w", s.Name, err)
		}
		defer i.gauge.opened()
		defer func() {
			if err != nil {
				i.gauge.close()
			}
		}()
	}
	if by.severable {
		if s.RedisURL, i.link, err = relayed(s.RedisURL); err != nil {
			return nil, fmt.Errorf("starting instance %s: %w", s.Name, err)
		}
		defer func() {
			if err != nil {
				i.unlink()
			}
		}()
	}
	if i.orders, err = cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("starting instance %s: %w", s.Name, err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("starting instance %s: %w", s.Name, err)
	}
	cmd.Stderr = i.log
	if i.proc, err = proc.Start(cmd); err != nil {
		return nil, fmt.Errorf("starting instance %s: %w", s.Name, err)
	}
	go i.listen(out)
	if err := i.greet(ctx, s); err != nil {
		i.proc.Kill()
		return nil, err
	}
	return i, nil
}

func (i *instance) greet(ctx context.Context, s setup) error {
	if err := i.tell(order{Setup: &s}); err != nil {
		return i.orDied(err)
	}
	timer := time.NewTimer(startTimeout)
	defer timer.Stop()
	select {
	case addr := <-i.ready:
		i.url = "http://" + addr
		return nil
	case <-i.proc.Done():
		return i.died()
	case <-timer.C:
		return fmt.Errorf("instance %s did not serve requests within %v%s", i.name, startTimeout, i.log)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// listen passes on what the instance tells, until the instance ends. What
// nobody has yet taken note of need not be said twice.
func (i *instance) listen(out io.Reader) {
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		var n news
		if err := json.Unmarshal(lines.Bytes(), &n); err != nil {
			fmt.Fprintf(i.log, "no news: %s\n", lines.Bytes())
			continue
		}
		switch {
		case n.Addr != "":
			post(i.ready, n.Addr)
		case n.Planned:
			post(i.planned, struct{}{})
		case n.Parked:
			post(i.parked, struct{}{})
		case n.Struck != nil:
			post(i.struck, *n.Struck)
		case n.Stalled > 0:
			i.stalls.Add(n.Stalled)
		}
	}
}

// post puts v into a box unless it is full.
func post[T any](box chan<- T, v T) {
	select {
	case box <- v:
	default:
	}
}

func (i *instance) tell(o order) error {
	text, err := json.Marshal(o)
	if err != nil {
		return fmt.Errorf("telling instance %s: %w", i.name, err)
	}
	if _, err := i.orders.Write(append(text, '\n')); err != nil {
		return fmt.Errorf("telling instance %s: %w", i.name, err)
	}
	return nil
}

// follow gives the instance the plan for the next row.
func (i *instance) follow(ctx context.Context, p plan) error {
	// A holder that was struck too late for the last row is no concern of this
	// one.
	select {
	case <-i.parked:
	default:
	}
	select {
	case <-i.struck:
	default:
	}
	i.paused.Store(false)
	i.cut.Store(false)
	i.stalls.Reset()
	if err := i.tell(order{Plan: &p}); err != nil {
		return i.orDied(err)
	}
	timer := time.NewTimer(planTimeout)
	defer timer.Stop()
	select {
	case <-i.planned:
		return nil
	case <-i.proc.Done():
		return i.died()
	case <-timer.C:
		return fmt.Errorf("instance %s did not take the plan within %v", i.name, planTimeout)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// kill ends the process on the spot, as a crash would.
func (i *instance) kill() {
	i.killed.Store(true)
	i.proc.Kill()
	i.unlink()
}

// alive reports whether the process runs, or is paused.
func (i *instance) alive() bool {
	select {
	case <-i.proc.Done():
		return false
	default:
		return true
	}
}

// running reports whether the process runs, or is paused, and nobody is about to
// kill it.
func (i *instance) running() bool { return !i.killed.Load() && i.alive() }

// stop ends the instance: it lets the sales under way end, and is killed if
// that takes longer than the grace.
func (i *instance) stop(grace time.Duration) {
	defer i.gauge.close()
	defer i.unlink()
	_ = i.orders.Close() // the end of its input is the order to end
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-i.proc.Done():
	case <-timer.C:
		i.proc.Kill()
	}
}

// unlink ends the relay of an instance that has ended, if it had one.
func (i *instance) unlink() {
	if i.link != nil {
		_ = i.link.Close() // its process is gone, and with it whoever could mind
	}
}

// orDied returns err, or that the instance has ended if that is what it comes of.
func (i *instance) orDied(err error) error {
	select {
	case <-i.proc.Done():
		return i.died()
	case <-time.After(lastGasp):
		return err
	}
}

var errDied = errors.New("ended by itself")

// died is the error for an instance that ended, and was not killed.
func (i *instance) died() error {
	return fmt.Errorf("instance %s %w: %v%s", i.name, errDied, i.proc.State(), i.log)
}

// tail keeps the end of what is written to it, for an error message.
type tail struct {
	mu   sync.Mutex
	text []byte
}

const tailSize = 2 << 10

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
