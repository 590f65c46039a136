package stream

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"oversell/internal/guard"
)

// Sale is the sale whose orders a Consumer writes.
type Sale interface {
	// Items lists the items that may have a stream.
	Items(ctx context.Context) ([]string, error)
	// Accepted returns a channel that receives a value when this process has accepted orders.
	// TakeAccepted returns the items for which this process has accepted orders since the last call.
	Accepted() <-chan struct{}
	TakeAccepted() []string

	// Write writes orders of an item in one transaction, and returns the outcome for each. If
	// before is true, the orders may have been written earlier. The error may wrap ErrAway or be a
	// ValuesError; any other error says nothing about the orders.
	Write(ctx context.Context, sku string, entries []Entry, before bool) ([]Fate, error)
	// Settled is called with the outcome of orders: written orders after they were removed from the
	// stream, the others before they become dead letters.
	Settled(fates []Fate)
}

// ErrAway means that the database did not answer, or rolled the transaction back because of a
// conflict: the same orders are tried again together.
var ErrAway = errors.New("the database is away")

// ValuesError means that the database refused the values of an order.
type ValuesError struct{ Err error }

func (v ValuesError) Error() string { return v.Err.Error() }
func (v ValuesError) Unwrap() error { return v.Err }

// Fate is the outcome for an accepted order in a transaction.
type Fate struct {
	Entry
	Written bool // it is in the database, perhaps from an earlier transaction
	Refusal      // why it is not written, if it is not
}

// Consumer configures how a process writes accepted orders. The zero values mean the defaults.
type Consumer struct {
	// ClaimAfter is how long a consumer may keep entries without writing them before another consumer
	// takes them over; default 3 s. A consumer that is only slow does no harm, because an order is
	// written only once.
	ClaimAfter time.Duration

	// Tries is how many times the database may refuse the values of an order before the order
	// becomes a dead letter; default 5. After any other error the order waits.
	Tries int64

	// Poll is the interval at which the consumer looks for orders that other processes have accepted;
	// default 250 ms. It finds the orders of its own process immediately.
	Poll time.Duration

	// Finish, if not nil, lets the consumer go on after its context has ended, until the
	// streams that it reads are empty or Finish ends.
	Finish context.Context

	// Only, if not nil, reports whether to look for orders of an item that other processes have
	// accepted. The consumer always writes those of its own process.
	Only func(sku string) bool

	// Seam, if not nil, is called between two steps. If it returns ErrEnded, the item's goroutine
	// ends there, as if the process had been killed. For tests and the bench.
	Seam func(seam string) error
}

// The seams of a consumer.
const (
	SeamRead    = "read"    // orders were read from the stream, and are not written
	SeamWritten = "written" // orders were written, and are still in the stream
)

// The defaults of a Consumer.
const (
	DefaultClaimAfter = 3 * time.Second
	DefaultTries      = 5
	DefaultPoll       = 250 * time.Millisecond
)

func (c Consumer) withDefaults(ctx context.Context) Consumer {
	c.ClaimAfter = cmp.Or(c.ClaimAfter, DefaultClaimAfter)
	c.Tries = cmp.Or(c.Tries, DefaultTries)
	c.Poll = cmp.Or(c.Poll, DefaultPoll)
	c.Finish = cmp.Or(c.Finish, ctx)
	if c.Only == nil {
		c.Only = func(string) bool { return true }
	}
	if c.Seam == nil {
		c.Seam = func(string) error { return nil }
	}
	return c
}

// Consume writes accepted orders of all items until ctx ends. Several processes may consume
// at the same time. It runs one goroutine for each item whose stream is not empty, and returns when
// all of them have ended: a transaction that has begun is finished.
func (s Streams) Consume(ctx context.Context, sale Sale, log *slog.Logger, c Consumer) {
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	g := s.consumption(work, sale, log, c.withDefaults(ctx))
	g.consume(ctx)
	g.beginAccepted()
	defer context.AfterFunc(g.Finish, stop)()
	for _, r := range g.readers {
		r.Wait()
	}
}

// ConsumeOnce writes or refuses the orders in an item's stream, until it is empty or ctx ends.
func (s Streams) ConsumeOnce(ctx context.Context, sale Sale, log *slog.Logger, sku string) {
	s.consumption(ctx, sale, log, Consumer{}.withDefaults(ctx)).reader(sku).run(ctx)
}

// consumption is a running call to Consume. Except for its readers, it is not safe for concurrent
// use.
type consumption struct {
	Consumer
	streams Streams
	sale    Sale
	log     *slog.Logger

	work    context.Context              // the context of the readers
	readers map[string]*guard.Background // by SKU

	skus   []string // the items with streams, as of listed
	listed time.Time

	// One log limit for each kind of line: while a backend is unavailable, each item and each poll
	// would otherwise write lines of its own.
	failing, unwritten, waiting guard.LogLimit
}

func (s Streams) consumption(work context.Context, sale Sale, log *slog.Logger, c Consumer) *consumption {
	return &consumption{
		Consumer: c, streams: s, sale: sale, log: log, work: work, readers: make(map[string]*guard.Background),
	}
}

// consume starts readers for items with orders, until ctx ends.
func (g *consumption) consume(ctx context.Context) {
	poll := time.NewTimer(0)
	defer poll.Stop()
	pause := g.Poll
	for {
		select {
		case <-ctx.Done():
			return
		case <-g.sale.Accepted():
		case <-poll.C:
			if err := g.discover(); err == nil {
				pause = g.Poll
			} else {
				g.warn(g.work, &g.failing, "looking for accepted orders failed", "error", err)
				pause = min(2*pause, max(maxConsumePause, g.Poll))
			}
			poll.Reset(pause)
		}
		g.beginAccepted()
	}
}

// warn writes a line, unless the limit skips it or ctx has ended: that is no failure.
func (g *consumption) warn(ctx context.Context, limit *guard.LogLimit, text string, args ...any) {
	if ctx.Err() == nil {
		limit.Log(g.log, slog.LevelWarn, text, args...)
	}
}

// listEvery is the interval at which the list of items with streams is read from the database.
const listEvery = time.Second

// discover starts readers for the streams that are not empty.
func (g *consumption) discover() error {
	if time.Since(g.listed) >= listEvery {
		skus, err := g.sale.Items(g.work)
		if err != nil {
			return err
		}
		g.skus, g.listed = slices.DeleteFunc(skus, func(sku string) bool { return !g.Only(sku) }), time.Now()
	}
	if len(g.skus) == 0 {
		return nil
	}
	lengths, err := g.streams.Lengths(g.work, g.skus)
	if err != nil {
		return err
	}
	for i, n := range lengths {
		if n > 0 {
			g.begin(g.skus[i])
		}
	}
	return nil
}

// beginAccepted starts readers for the items for which this process has accepted orders.
func (g *consumption) beginAccepted() {
	for _, sku := range g.sale.TakeAccepted() {
		g.begin(sku)
	}
}

// maxReaders is the size of consumption.readers above which idle readers are removed.
const maxReaders = 10_000

// begin makes sure that an item's stream is read until it is empty.
func (g *consumption) begin(sku string) {
	one := g.readers[sku]
	if one == nil {
		if len(g.readers) >= maxReaders {
			maps.DeleteFunc(g.readers, func(_ string, r *guard.Background) bool { return r.Idle() })
		}
		r := g.reader(sku)
		one = &guard.Background{Context: g.work, Step: func(ctx context.Context) (more bool) {
			r.run(ctx)
			return false
		}}
		g.readers[sku] = one
	}
	one.Wake()
}

// reader writes the accepted orders of one item. It is not safe for concurrent use.
type reader struct {
	*consumption
	sku     string
	size    *guard.BatchSize
	claimed time.Time // when it last looked for entries of dead consumers
}

// maxBatch is the maximum number of orders in one statement.
const maxBatch = 512

func (g *consumption) reader(sku string) *reader {
	return &reader{consumption: g, sku: sku, size: guard.NewBatchSize(maxBatch)}
}

// The limits of the pause after a failure.
const (
	minConsumePause = 50 * time.Millisecond
	maxConsumePause = time.Second

	// othersPause is how long a consumer sleeps if other consumers have all entries.
	othersPause = 50 * time.Millisecond
)

// run reads and writes until the stream is empty or ctx ends.
func (r *reader) run(ctx context.Context) {
	pause := minConsumePause
	for ctx.Err() == nil {
		entries, before, err := r.next(ctx)
		if err == nil && len(entries) > 0 {
			if err = r.Seam(SeamRead); err == nil {
				err = r.consume(ctx, entries, before)
			}
		} else if err == nil {
			lengths, lenErr := r.streams.Lengths(ctx, []string{r.sku})
			if err = lenErr; err == nil && lengths[0] == 0 {
				return
			}
			// Other consumers have the remaining entries.
			_ = guard.Sleep(ctx, min(r.ClaimAfter/4, othersPause))
		}
		switch {
		case errors.Is(err, ErrEnded):
			return
		case err == nil:
			pause = minConsumePause
		case ctx.Err() == nil:
			r.warn(ctx, &r.unwritten, "accepted orders could not be written, and are tried again",
				"sku", r.sku, "in", pause, "error", err)
			_ = guard.Sleep(ctx, pause)
			pause = min(2*pause, maxConsumePause)
		}
	}
}

// ErrEnded is the error with which Consumer.Seam ends a goroutine.
var ErrEnded = errors.New("the consumer was ended")

// next returns orders to write, and whether they may have been written before.
func (r *reader) next(ctx context.Context) (entries []Entry, before bool, err error) {
	streams := r.streams
	if time.Since(r.claimed) >= r.ClaimAfter/4 {
		r.claimed = time.Now()
		entries, err = streams.claim(ctx, r.sku, r.ClaimAfter, r.size.Size())
		if len(entries) > 0 {
			r.claimed = time.Time{} // there may be more
			return entries, true, err
		}
	}
	if err == nil {
		entries, err = streams.read(ctx, r.sku, r.size.Size())
	}
	if redis.HasErrorPrefix(err, "NOGROUP") {
		joined, joinErr := streams.join(ctx, r.sku)
		if err = joinErr; joined {
			entries, err = streams.read(ctx, r.sku, r.size.Size())
		}
	}
	return entries, false, err
}

// consume writes orders and removes them from the stream. While the database is unavailable,
// consume tries again.
func (r *reader) consume(ctx context.Context, entries []Entry, before bool) error {
	for pause := minConsumePause; ; pause = min(2*pause, maxConsumePause) {
		start := time.Now()
		fates, err := r.sale.Write(ctx, r.sku, entries, before)
		if err != nil && !errors.Is(err, ErrAway) { // a single order may be the cause
			return r.oneByOne(ctx, entries, err)
		}
		if err == nil {
			r.size.Wrote(len(entries), time.Since(start))
			if err := r.Seam(SeamWritten); err != nil {
				return err
			}
			return r.settle(ctx, fates)
		}
		r.warn(ctx, &r.waiting, "accepted orders wait for the database",
			"sku", r.sku, "orders", len(entries), "again in", pause, "error", err)
		if err := guard.Sleep(ctx, pause); err != nil {
			return err
		}
		before = true // the transaction may have been committed
	}
}

// maxFutile is how many orders are tried singly if each fails with an error that says nothing about
// its values.
const maxFutile = 3

// oneByOne writes orders singly, after the database did not take them together. It tries them in
// random order, so that the same few do not keep the others waiting. Those that are not written are
// claimed again.
func (r *reader) oneByOne(ctx context.Context, entries []Entry, together error) error {
	works, futile := false, []error(nil)
	for _, i := range rand.Perm(len(entries)) {
		fates, err := []Fate(nil), together
		if len(entries) > 1 {
			fates, err = r.sale.Write(ctx, r.sku, entries[i:i+1], true)
		}
		switch {
		case err == nil:
			works, err = true, r.settle(ctx, fates)
		case errors.As(err, new(ValuesError)):
			works, err = true, r.failed(ctx, entries[i], err)
		case !errors.Is(err, ErrAway):
			futile, err = append(futile, err), nil
		}
		if err != nil {
			return err
		}
		if !works && len(futile) == maxFutile {
			break
		}
	}
	if len(futile) > 0 {
		return futile[0]
	}
	return nil
}

// failed handles an order whose values the database has refused: it leaves the order to be claimed
// again, or makes it a dead letter if that was its last try.
func (r *reader) failed(ctx context.Context, e Entry, why error) error {
	n, err := r.streams.countRefusal(ctx, r.sku, e.At)
	if err != nil {
		return err
	}
	if n < r.Tries {
		r.log.Warn("an accepted order was not written, and is tried again",
			"sku", r.sku, "order", e.ID, "try", n, "error", why)
		return nil
	}
	return r.settle(ctx, []Fate{{Entry: e,
		Refusal: Refusal{Kind: Failed, Reason: ReasonFailed, Err: shortError(why), Refusals: n}}})
}

// settleTimeout limits how long a consumer takes to remove orders from the stream.
const settleTimeout = 2 * time.Second

// maxError is the maximum length of an error text in a dead letter, in bytes.
const maxError = 200

func shortError(err error) string {
	text := err.Error()
	return strings.ToValidUTF8(text[:min(len(text), maxError)], "")
}

// settle removes written orders from the stream, and makes the others dead letters.
func (r *reader) settle(ctx context.Context, fates []Fate) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	at := time.Now()
	var written []Entry
	var done []Fate
	for _, f := range fates {
		if f.Written {
			written, done = append(written, f.Entry), append(done, f)
			continue
		}
		r.sale.Settled([]Fate{f}) // before it is a dead letter, which nobody claims again
		moved, err := r.streams.bury(ctx, f.Entry, f.Refusal)
		if err != nil {
			return err // they are claimed again
		}
		if moved {
			r.log.Warn("an accepted order is now a dead letter",
				"sku", r.sku, "order", f.ID, "kind", f.Kind, "reason", f.Reason, "error", f.Err)
		}
	}
	if err := r.streams.settle(ctx, r.sku, written); err != nil {
		return err // they are claimed again, and found in the database
	}
	r.sale.Settled(done)
	if err := r.streams.recordLag(ctx, r.sku, written, at); err != nil { // the orders are written
		r.log.Debug("the time until orders were written is not recorded",
			"sku", r.sku, "orders", len(written), "error", err)
	}
	return nil
}
