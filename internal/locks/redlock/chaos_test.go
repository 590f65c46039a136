package redlock

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"oversell/internal/locks/locktest"
)

// fault is a temporary problem of a node.
type fault int

const (
	none    fault = iota
	refuses       // refuses every connection: the process is down, its data is on disk
	deaf          // commands are lost
	mute          // replies are lost
	tardy         // commands and replies each take up to three times the limit
	crashed       // like refuses, but all data is lost
	endOfFaults
)

// machine simulates a node that knows only the three commands of this package. It keeps its
// locks in a map, so that many schedules can run in a short time; the other tests run the
// scripts on servers. Its clock runs up to 1 % too fast.
type machine struct {
	fault fault
	speed float64
	locks map[string]entry
}

type entry struct {
	token   string
	expires time.Time
}

func (m *machine) after(ms int64) time.Time {
	return time.Now().Add(time.Duration(float64(time.Duration(ms)*time.Millisecond) / m.speed))
}

// do executes a command and returns the reply.
func (m *machine) do(args []any) (any, error) {
	switch {
	case args[0] == "set": // key token px ms nx
		key, token := args[1].(string), args[2].(string)
		if args[3] != "px" || args[5] != "NX" {
			return nil, fmt.Errorf("what is %v?", args)
		}
		if time.Now().Before(m.locks[key].expires) {
			return nil, redis.Nil
		}
		m.locks[key] = entry{token, m.after(args[4].(int64))}
		return "OK", nil
	case args[0] == "evalsha": // hash 1 key token [ms]
		key, token := args[3].(string), args[4].(string)
		if e := m.locks[key]; e.token != token || !time.Now().Before(e.expires) {
			return int64(0), nil
		}
		switch args[1] {
		case unlockScript.Hash():
			delete(m.locks, key)
			return int64(1), nil
		case renewScript.Hash():
			m.locks[key] = entry{token, m.after(args[5].(int64))}
			return int64(1), nil
		}
	}
	return nil, fmt.Errorf("what is %v?", args)
}

// chaos simulates five machines behind a network, some of which are faulty at times.
type chaos struct {
	ttl  time.Duration
	away time.Duration // the time that a crashed machine stays down

	mu       sync.Mutex // guards the fields below
	rng      *rand.Rand
	machines []*machine

	stop chan struct{}
	wg   sync.WaitGroup
}

// newChaos starts a chaos that keeps breaking machines, at most atOnce at the same time.
// The caller must close stop and wait for wg.
func newChaos(seed uint64, ttl, away time.Duration, atOnce int) *chaos {
	c := &chaos{ttl: ttl, away: away, rng: rand.New(rand.NewPCG(seed, 0)), stop: make(chan struct{})}
	for range 5 {
		c.machines = append(c.machines, &machine{speed: 1 + c.rng.Float64()/100, locks: map[string]entry{}})
	}
	for range atOnce {
		c.wg.Go(c.breakOne)
	}
	return c
}

// upTo returns a random duration below d.
func (c *chaos) upTo(d time.Duration) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Duration(c.rng.Int64N(int64(d)))
}

// breakOne repeatedly gives a healthy machine a fault for some time.
func (c *chaos) breakOne() {
	for c.sleep(c.upTo(c.ttl / 2)) {
		c.mu.Lock()
		i := c.rng.IntN(len(c.machines))
		for c.machines[i].fault != none {
			i = (i + 1) % len(c.machines)
		}
		m := c.machines[i]
		m.fault = 1 + fault(c.rng.IntN(int(endOfFaults)-1))
		away := time.Duration(c.rng.Int64N(int64(3 * c.ttl / 2)))
		if m.fault == crashed {
			clear(m.locks)
			away = c.away
		}
		c.mu.Unlock()
		c.sleep(away)
		c.mu.Lock()
		m.fault = none
		c.mu.Unlock()
	}
}

func (c *chaos) sleep(d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-c.stop:
		return false
	}
}

// clients returns the clients of a new process, one for each machine.
func (c *chaos) clients(t *testing.T) []redis.Cmdable {
	var clients []redis.Cmdable
	for _, m := range c.machines {
		rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:0"}) // never dialled
		t.Cleanup(func() { _ = rdb.Close() })
		rdb.AddHook(link{c, m})
		clients = append(clients, rdb)
	}
	return clients
}

// link is one client's connection to one machine. A command takes time to arrive, and may be
// lost. If it arrives, it is executed, even if its sender has given up.
type link struct {
	*chaos
	*machine
}

func (l link) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		back := make(chan func() error, 1)
		go func() {
			time.Sleep(l.delay())
			if reply, heard := l.arrive(cmd.Args()); heard {
				time.Sleep(l.delay())
				back <- func() error { return reply(cmd) }
			}
		}()
		select {
		case reply := <-back:
			return reply()
		case <-ctx.Done():
			cmd.SetErr(ctx.Err())
			return ctx.Err()
		}
	}
}

// delay returns the time that a message takes.
func (l link) delay() time.Duration {
	limit := NodeLimit(l.ttl)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fault == tardy {
		limit *= 3 * 8
	}
	return time.Duration(l.rng.Int64N(int64(limit / 8)))
}

// arrive executes the command if the machine is able to, and returns a function that
// stores the reply in a command. If heard is false, the reply is lost.
func (l link) arrive(args []any) (reply func(redis.Cmder) error, heard bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var val any
	err := locktest.ErrCut
	switch l.fault {
	case deaf:
		return nil, false
	case refuses, crashed:
	default:
		val, err = l.do(args)
	}
	return func(cmd redis.Cmder) error {
		cmd.SetErr(err)
		switch cmd := cmd.(type) {
		case *redis.Cmd:
			cmd.SetVal(val)
		case *redis.StatusCmd:
			cmd.SetVal(fmt.Sprint(val))
		}
		return err
	}, l.fault != mute
}

func (l link) DialHook(next redis.DialHook) redis.DialHook { return next }

func (l link) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
