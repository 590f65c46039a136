package bench

import (
	"context"
	"fmt"
	"os/exec"
	"sync/atomic"
	"time"

	"oversell/internal/backend/lockservers"
	"oversell/internal/netfault"
	"oversell/internal/proc"
)

// setup is an instance's first command. It goes through a pipe and not through
// arguments, because it may hold passwords.
type setup struct {
	RedisURL string        `json:"redis_url"`
	DBURL    string        `json:"db_url"`
	Name     string        `json:"name"`
	Token    string        `json:"token"`
	TTL      time.Duration `json:"ttl"`
	Wait     time.Duration `json:"wait"`
	Policy   string        `json:"policy"`
	Unfenced bool          `json:"unfenced"`
	Gauge    string        `json:"gauge,omitempty"`   // path of the gauge; "": none
	Holders  bool          `json:"holders,omitempty"` // the gauge counts holders

	Replicas   int    `json:"replicas,omitempty"`    // of an accepted order
	NoConsumer bool   `json:"no_consumer,omitempty"` // workers write the accepted orders
	Worker     bool   `json:"worker,omitempty"`      // it is one, and no shop
	Seam       string `json:"seam,omitempty"`        // at which a worker stops

	Servers lockservers.Addresses `json:"servers"`
}

// command is what the bench sends to an instance: first the setup, later one of the
// others.
type command struct {
	Setup  *setup     `json:"setup,omitempty"`
	Plan   *plan      `json:"plan,omitempty"`
	Until  *time.Time `json:"until,omitempty"`  // no holder leaves before
	Resume bool       `json:"resume,omitempty"` // the parked holder may go on
}

// event is what an instance reports to the bench: one of these.
type event struct {
	Addr      string        `json:"addr,omitempty"`      // it serves requests at this address
	Planned   bool          `json:"planned,omitempty"`   // it follows the plan
	Parked    bool          `json:"parked,omitempty"`    // a holder is parked in its work step
	Overstays *time.Time    `json:"overstays,omitempty"` // a holder is slow or late, until then
	Stalled   time.Duration `json:"stalled,omitempty"`   // the process stalled for so long
}

// The time limits of an instance.
const (
	startTimeout = 20 * time.Second
	planTimeout  = 5 * time.Second
	stopTimeout  = 6 * time.Second
)

// instance is one shop in a process of its own.
type instance struct {
	*proc.Child[command, event]
	url   string
	link  *netfault.Relay // between it and Redis, or nil
	gauge *gauge          // or nil

	ready     chan string       // the address, once
	planned   chan struct{}     // after each plan
	parked    chan struct{}     // when a holder is parked
	overstays chan time.Time    // when a holder is slow or late: until when
	killed    atomic.Bool       // by the bench
	paused    atomic.Bool       // by the bench, in this row
	cut       atomic.Bool       // off from Redis by the bench, in this row
	stalls    proc.LongestStall // that it reported
}

// means says what the bench needs to inject faults into an instance and to observe it.
type means struct {
	severable bool // its connections to Redis go through a relay, which can cut them
	gauged    bool // its gauge counts its holders, if gauges can be read here
}

// legible reports whether an instance has a gauge of its holders that can be read.
func (m means) legible() bool { return m.gauged && proc.LiveWords }

// start runs an instance and waits until it serves requests.
func start(ctx context.Context, cmd *exec.Cmd, s setup, by means) (_ *instance, err error) {
	i := &instance{
		ready: make(chan string, 1), planned: make(chan struct{}, 1),
		parked: make(chan struct{}, 1), overstays: make(chan time.Time, 1),
	}
	if s.Holders = by.legible(); proc.LiveWords {
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
	if i.Child, err = proc.StartChild[command, event]("instance "+s.Name, cmd); err != nil {
		return nil, err
	}
	go i.listen()
	addr := ""
	if err = i.Send(command{Setup: &s}); err == nil {
		addr, err = proc.Await(ctx, i.Child, i.ready, startTimeout)
	}
	if err != nil {
		i.Kill()
		return nil, err
	}
	i.url = "http://" + addr
	return i, nil
}

// listen passes the events on. An event that is not waited for is dropped if the last
// one of its kind is still there.
func (i *instance) listen() {
	for e := range i.Events {
		switch {
		case e.Addr != "":
			post(i.ready, e.Addr)
		case e.Planned:
			post(i.planned, struct{}{})
		case e.Parked:
			post(i.parked, struct{}{})
		case e.Overstays != nil:
			post(i.overstays, *e.Overstays)
		case e.Stalled > 0:
			i.stalls.Add(e.Stalled)
		}
	}
}

// post puts v into a channel unless it is full.
func post[T any](to chan<- T, v T) {
	select {
	case to <- v:
	default:
	}
}

// follow gives the instance the plan for the next row.
func (i *instance) follow(ctx context.Context, p plan) error {
	// An event that came too late for the last row does not count for this one.
	select {
	case <-i.parked:
	default:
	}
	select {
	case <-i.overstays:
	default:
	}
	i.paused.Store(false)
	i.cut.Store(false)
	i.stalls.Reset()
	if err := i.Send(command{Plan: &p}); err != nil {
		return err
	}
	_, err := proc.Await(ctx, i.Child, i.planned, planTimeout)
	return err
}

// kill kills the process, as a crash would.
func (i *instance) kill() {
	i.killed.Store(true)
	i.Kill()
	i.unlink()
}

// alive reports whether the process has not ended.
func (i *instance) alive() bool {
	select {
	case <-i.Done():
		return false
	default:
		return true
	}
}

// running reports whether the process has not ended and is not about to be killed.
func (i *instance) running() bool { return !i.killed.Load() && i.alive() }

// stop ends the instance after the sales in progress, or kills it after the grace time.
func (i *instance) stop(grace time.Duration) {
	i.Close(grace)
	i.unlink()
	i.gauge.close()
}

// unlink closes the relay of an instance that has ended, if it had one.
func (i *instance) unlink() {
	if i.link != nil {
		_ = i.link.Close() // nobody uses it any more
	}
}
