package lockbench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"time"
)

// Memory is the memory of a waiter in bytes, compared with a goroutine that waits on a
// channel.
type Memory struct {
	Contender string `json:"contender"`
	Waiters   int    `json:"waiters"`
	Heap      int    `json:"heap_bytes"`  // in use, after a collection
	Stack     int    `json:"stack_bytes"` // above the stack of a goroutine that waits on a channel
	Bare      int    `json:"bare_stack_bytes"`
}

// MemoryRole is the environment variable that makes a test binary run MeasureMemory.
const MemoryRole = "OVERSELL_TEST_MEMORY"

// Memory measures the memory of waiters in a separate process, while somebody holds the
// lock.
func (r *Runner) Memory(name string, waiters int) (m Memory, err error) {
	r.rows++
	cmd, err := r.cfg.Command()
	if err != nil {
		return m, err
	}
	text, err := json.Marshal(setup{
		RedisURL: r.url, Contender: name, Name: fmt.Sprintf("%s-%d", r.id, r.rows),
		Key: fmt.Sprintf("%s:%d:lock", r.prefix(), r.rows), Contenders: waiters, Pool: r.cfg.Pool, TTL: r.cfg.TTL,
	})
	if err != nil {
		return m, err
	}
	cmd.Env = append(cmd.Env, MemoryRole+"=1")
	cmd.Stdin, cmd.Stderr = bytes.NewReader(text), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return m, fmt.Errorf("measuring the memory of %s: %w", name, err)
	}
	return m, json.Unmarshal(out, &m)
}

// MeasureMemory is what the process of Memory runs.
func MeasureMemory(ctx context.Context, list Catalog, in io.Reader, out io.Writer) error {
	var s setup
	if err := json.NewDecoder(in).Decode(&s); err != nil {
		return err
	}
	c, err := gather(ctx, list, s)
	if err != nil {
		return err
	}
	defer c.close()
	m, err := c.memory(ctx)
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(m)
}

// settleTimeout bounds the time until all waiters wait.
const settleTimeout = 30 * time.Second

// memory measures a part. At the end its waiters give up.
func (c *part) memory(ctx context.Context) (Memory, error) {
	c.wait, c.end = context.WithCancelCause(ctx)
	held, letGo := make(chan struct{}), make(chan struct{})
	c.over.Go(func() { c.hold(held, letGo) })
	<-held
	c.ready.Add(c.setup.Contenders)
	for i := range c.setup.Contenders {
		c.over.Go(func() { c.waitAtGate(i) })
	}
	c.ready.Wait()
	bare := use(ctx)
	none := float64(c.setup.Contenders)
	close(c.gate)
	waiting := use(ctx)
	c.end(errWaitOver)
	close(letGo)
	c.over.Wait()
	return Memory{
		Contender: c.setup.Contender, Waiters: c.setup.Contenders,
		Heap:  int((float64(waiting.HeapAlloc) - float64(bare.HeapAlloc)) / none),
		Stack: int((float64(waiting.StackInuse) - float64(bare.StackInuse)) / none),
		Bare:  int(float64(bare.StackInuse) / none),
	}, context.Cause(ctx)
}

// hold holds the lock meanwhile.
func (c *part) hold(held chan<- struct{}, letGo <-chan struct{}) {
	_, err := c.guard.Do(c.wait, c.entry(-1), func(context.Context) error {
		close(held)
		<-letGo
		return nil
	})
	if err != nil {
		panic(err) // there is no other contender
	}
}

func (c *part) waitAtGate(i int) {
	e := c.entry(i)
	c.ready.Done()
	<-c.gate
	_, _ = c.guard.Do(c.wait, e, func(context.Context) error { return nil })
}

// use returns the memory in use once it is stable.
func use(ctx context.Context) runtime.MemStats {
	var last, now runtime.MemStats
	for end := time.Now().Add(settleTimeout); ctx.Err() == nil && time.Now().Before(end); last = now {
		time.Sleep(200 * time.Millisecond)
		runtime.GC()
		runtime.ReadMemStats(&now)
		if diff := int64(now.HeapAlloc+now.StackInuse) - int64(last.HeapAlloc+last.StackInuse); -diff < settled && diff < settled {
			break
		}
	}
	return now
}

// settled is how much stable memory may still change, in bytes: by a connection, say.
const settled = 64 << 10
