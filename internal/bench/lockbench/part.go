package lockbench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"oversell/internal/backend/lockservers"
	"oversell/internal/guard"
)

// part holds the contenders of one process.
type part struct {
	setup  setup
	slots  slots
	rdb    redis.UniversalClient
	others *lockservers.Clients
	guard  guard.Guard
	tally  tally

	ready, over sync.WaitGroup
	gate        chan struct{}   // closed at the start
	wait        context.Context // ends all waits; set before the gate opens
}

// close closes the guard and the connections.
func (c *part) close() {
	if closer, ok := c.guard.(io.Closer); ok {
		_ = closer.Close() // the row is over
	}
	if c.others != nil {
		_ = c.others.Close()
	}
	if c.rdb != nil {
		_ = c.rdb.Close()
	}
}

// errWaitOver is the cancellation cause at the end of all waits.
var errWaitOver = errors.New("the wait is over")

// stand starts all contenders, which wait at the gate.
func (c *part) stand() {
	c.ready.Add(c.setup.Contenders)
	for i := range c.setup.Contenders {
		c.over.Go(func() {
			c.ready.Done()
			<-c.gate
			c.contend(i)
		})
	}
	c.ready.Wait()
}

// grace is the additional time for outcomes after the end of the wait: requests in flight are not
// interrupted, and there may be thousands of them.
const grace = 10 * time.Second

// tolerable is a stall that is normal on a busy machine.
const tolerable = 20 * time.Millisecond

// run opens the gate at the given time and returns when all outcomes are known, or after
// the grace time. The waits for the lock end with ctx.
func (c *part) run(ctx context.Context, start time.Time) *tally {
	wait, cancel := context.WithDeadlineCause(ctx, start.Add(c.setup.Wait), errWaitOver)
	defer cancel()
	c.wait = wait
	time.Sleep(time.Until(start))
	close(c.gate)
	over := make(chan struct{})
	go func() {
		c.over.Wait()
		close(over)
	}()
	select {
	case <-over:
	case <-time.After(time.Until(start.Add(c.setup.Wait + grace))):
	}
	return &c.tally
}

// contend runs one contender, from its wait to its outcome. The wait has its own context, like that
// of a request.
func (c *part) contend(i int) {
	wait, cancel := context.WithCancel(c.wait)
	defer cancel()
	var begun, unsure bool
	entry := guard.Entry{Key: c.setup.Key, Owner: fmt.Sprintf("%s-%d", c.setup.Name, i)}
	stats, err := c.guard.Do(wait, entry, func(ctx context.Context) (err error) {
		begun = true
		unsure, err = c.deduct(ctx, i)
		return err
	})
	state := int64(stateTold)
	switch {
	case err == nil:
		state = stateServed
	case !begun && wait.Err() != nil:
		state, err = stateUnserved, nil // it was told nothing
	case unsure:
		state = stateUnsure
	}
	c.tally.note(err, stats)
	c.slots.ended(i, state)
}

// deduct is the work of a contender inside the lock: it decrements the counter. A lost lease
// interrupts it, except during the SET, so that the outcome of the SET is known. After an error, it
// reports whether it is unknown if the counter was written.
func (c *part) deduct(ctx context.Context, i int) (unsure bool, err error) {
	if ctx.Err() != nil {
		return false, context.Cause(ctx) // the lease was lost before the work began
	}
	c.slots.entered(i)
	n, err := c.rdb.Get(ctx, c.setup.Counter).Int64()
	if ctx.Err() != nil {
		err = context.Cause(ctx) // the lease was lost in the meantime
	}
	if err == nil {
		err = c.rdb.Set(context.WithoutCancel(ctx), c.setup.Counter, n-1, 0).Err()
		unsure = err != nil
	}
	c.slots.left(i, err == nil)
	return unsure, err
}

// tally is a process's report about its contenders, besides their slots. It is safe for concurrent
// use.
type tally struct {
	mu      sync.Mutex
	Told    map[string]int `json:"told,omitempty"`    // contenders by their error
	Release map[string]int `json:"release,omitempty"` // releases that failed, by their error
	Lost    int            `json:"lost,omitempty"`    // leases that had expired before they were released
}

// add adds the tally of another process.
func (t *tally) add(other *tally) {
	for text, n := range other.Told {
		count(&t.Told, text, n)
	}
	for text, n := range other.Release {
		count(&t.Release, text, n)
	}
	t.Lost += other.Lost
}

// maxReasons limits the number of different errors, and maxReason the length of each in bytes: some
// errors contain the port of a connection.
const (
	maxReasons = 8
	maxReason  = 160
)

func count(reasons *map[string]int, text string, n int) {
	if *reasons == nil {
		*reasons = make(map[string]int)
	}
	text = text[:min(len(text), maxReason)]
	if _, known := (*reasons)[text]; !known && len(*reasons) >= maxReasons {
		text = "other errors"
	}
	(*reasons)[text] += n
}

// note counts the error that a contender was told, or nil, and how its release went.
func (t *tally) note(told error, s guard.Stats) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if told != nil {
		count(&t.Told, told.Error(), 1)
	}
	if s.Lost {
		t.Lost++
	}
	if s.Release != nil {
		count(&t.Release, s.Release.Error(), 1)
	}
}

// MarshalJSON implements json.Marshaler. It locks the tally, because contenders that were left
// behind may still add to it.
func (t *tally) MarshalJSON() ([]byte, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	type plain tally
	return json.Marshal((*plain)(t))
}
