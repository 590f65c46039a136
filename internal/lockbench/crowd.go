package lockbench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"oversell/internal/locks"
	"oversell/internal/proc"
)

// crowd is the contenders of one process.
type crowd struct {
	setup setup
	board *board
	rdb   redis.UniversalClient
	guard locks.Guard
	tally counts

	ready, over sync.WaitGroup
	gate        chan struct{}   // closed at the start
	wait        context.Context // ends everybody's wait; set before the gate opens
	end         context.CancelCauseFunc
}

// close lets go of what the crowd was made with.
func (c *crowd) close() {
	if closer, ok := c.guard.(io.Closer); ok {
		_ = closer.Close() // the row is over
	}
	if c.rdb != nil {
		_ = c.rdb.Close()
	}
	// The board stays mapped to the end of the process: a contender that never
	// comes back from its lock may still write on it.
}

// errWaitOver is the cause of the end of everybody's wait.
var errWaitOver = errors.New("the wait is over")

// stand has everybody stand at the gate. Who waits is let go when ctx ends.
func (c *crowd) stand(ctx context.Context) {
	c.wait, c.end = context.WithCancelCause(ctx)
	c.ready.Add(c.setup.Crowd)
	for i := range c.setup.Crowd {
		c.over.Go(func() {
			c.ready.Done()
			<-c.gate
			c.contend(i)
		})
	}
	c.ready.Wait()
}

// dismiss sends everybody home without a start.
func (c *crowd) dismiss() {
	c.end(errWaitOver)
	close(c.gate)
	c.over.Wait()
}

// grace is how long after the end of the wait an outcome is still awaited: a
// request that is on its way is not cut off, and there may be thousands.
const grace = 10 * time.Second

// tolerable is for how long a process stands still on any machine that is busy.
const tolerable = 20 * time.Millisecond

// run opens the gate at the given time and returns when all outcomes are known,
// or will not be.
func (c *crowd) run(start time.Time) tally {
	stalls := proc.WatchStalls(tolerable, func(d time.Duration) { c.board.Store(boardStalled, int64(d)) })
	defer stalls.Stop()
	wait, cancel := context.WithDeadlineCause(c.wait, start.Add(c.setup.Wait), errWaitOver)
	defer cancel()
	c.wait = wait
	time.Sleep(time.Until(start))
	close(c.gate)
	over := make(chan struct{})
	go func() {
		c.over.Wait()
		close(over)
	}()
	limit := time.NewTimer(time.Until(start.Add(c.setup.Wait + grace)))
	defer limit.Stop()
	select {
	case <-over:
	case <-limit.C:
	}
	return c.tally.get()
}

// contend is one contender's turn, from its wait to its outcome. Its wait is a
// context of its own, as that of a request is.
func (c *crowd) contend(i int) {
	wait, cancel := context.WithCancel(c.wait)
	defer cancel()
	d := deduct{crowd: c, slot: c.board.slot(i)}
	stats, err := c.guard.Do(context.Background(), c.entry(i, wait), d.do)
	c.tally.release(stats)
	switch {
	case err == nil:
		d.slot.ended(stateServed)
	case !d.begun && wait.Err() != nil:
		d.slot.ended(stateUnserved)
	case d.unsure:
		c.tally.told(err)
		d.slot.ended(stateUnsure)
	default:
		c.tally.told(err)
		d.slot.ended(stateTold)
	}
}

func (c *crowd) entry(i int, wait context.Context) locks.Entry {
	return locks.Entry{Key: c.setup.Key, Owner: fmt.Sprintf("%s-%d", c.setup.Name, i), Wait: wait}
}

// deduct is what a contender does inside.
type deduct struct {
	*crowd
	slot   slot
	begun  bool
	unsure bool // the counter may have been written, or not
}

// do takes one from the counter. A lease that is lost ends it, but for the SET:
// that is not cut short, or nobody would know what it came to.
func (d *deduct) do(ctx context.Context) error {
	d.begun = true
	if ctx.Err() != nil {
		return context.Cause(ctx) // lost before it began
	}
	d.slot.entered()
	d.board.linger()
	n, err := d.rdb.Get(ctx, d.setup.Counter).Int64()
	if ctx.Err() != nil {
		err = context.Cause(ctx) // lost meanwhile
	}
	if err != nil {
		d.slot.left(false)
		return err
	}
	err = d.rdb.Set(context.WithoutCancel(ctx), d.setup.Counter, n-1, 0).Err()
	d.unsure = err != nil
	d.slot.left(err == nil)
	return err
}
