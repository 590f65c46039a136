package search

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"oversell/internal/guard"
	"oversell/internal/lab"
	"oversell/internal/lab/turnstile"
	"oversell/internal/lab/wire"
	"oversell/internal/stock"
)

// What all buyers name in their commands.
const (
	lockKey  = "oversell:{search}:lock"
	stockKey = "oversell:{search}:stock"
	owner    = "~.0~" // a buyer as it names itself; Redis gets it with the buyer's letter
)

// horizon is for how long a buyer that is told nothing is watched. Its timers last for
// less, so afterwards it does nothing more.
const horizon = 4 * lab.ScheduleTTL

// program is the code of one buyer: the shop's sale of one unit, under a subject's guard.
type program struct {
	subject lab.Subject
	leased  bool // it compares times: see lab.Subject.Leased
	setUp   func(wire.Command) wire.Value
	nodes   *nodes
}

// run is the program running, from its start, in virtual time. Nobody but its own
// goroutines and the one that tells it things uses it.
type run struct {
	program
	start time.Time
	turns *turnstile.Turnstile // at which the client's commands wait

	mu      sync.Mutex
	conns   []*conn
	open    []*command
	numbers int
	scripts map[string]string // by their hash
	randoms []string          // what the program has drawn, in the order in which it was sent
	thawed  chan struct{}     // nil: the process runs
	over    bool              // no new connections
	news    chan struct{}     // has a value when something has changed

	at   section
	told bool // in the section: that the lock is lost
	done bool
	sold bool
	err  error
}

// input is one thing that a buyer is told, and how long after the one before.
type input struct {
	after time.Duration
	kind  inputKind
	id    int    // of the command that is answered
	reply string // as it comes over the wire
}

type inputKind byte

const (
	inputStart  inputKind = 's'
	inputReply  inputKind = 'r' // a command is executed, and its reply comes
	inputBreak  inputKind = 'x' // the connection breaks in its place
	inputFreeze inputKind = 'f'
	inputThaw   inputKind = 't'
)

// errNondeterministic means that a program has done something else when it was told the
// same again. Such a program cannot be searched.
var errNondeterministic = errors.New("told the same twice, the buyer does not do the same")

// play runs the program, tells it inputs, and returns what can be seen of it from then on
// while it is told nothing more.
func (p program) play(inputs []input) (views []view, err error) {
	failed := lab.InVirtualTime(func() {
		r := &run{program: p, start: time.Now(), scripts: make(map[string]string), news: make(chan struct{}, 1)}
		life, end := context.WithCancel(context.Background())
		client := redis.NewClient(r.options())
		r.turns = turnstile.New(life, func() { r.note(func() {}) })
		client.AddHook(r.turns)
		for _, in := range inputs {
			if err = r.tell(life, client, in); err != nil {
				break
			}
		}
		if err == nil {
			views = r.watch()
		}
		r.end()
		end()
		err = errors.Join(err, client.Close())
	})
	return views, errors.Join(err, failed)
}

// options are those of the lab's clients.
func (r *run) options() *redis.Options {
	const long = 2 * lab.MaxSchedule // the schedule decides how long a command takes
	return &redis.Options{
		Addr:        "127.0.0.1:6379",
		Dialer:      func(context.Context, string, string) (net.Conn, error) { return r.dial() },
		ReadTimeout: long, WriteTimeout: long, DialTimeout: long,
		PoolSize:              256,
		ContextTimeoutEnabled: true,
		MaxRetries:            -1, DialerRetries: 1,
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
}

func (r *run) dial() (net.Conn, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return nil, net.ErrClosed
	}
	c := &conn{r: r, arrived: make(chan struct{}, 1)}
	r.conns = append(r.conns, c)
	return c, nil
}

// end breaks all connections, so that the program comes to its end.
func (r *run) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = true
	if r.thawed != nil {
		close(r.thawed)
		r.thawed = nil
	}
	for _, c := range r.conns {
		c.cut()
	}
}

// tell tells the program one thing, and returns when it has done what it does at once.
func (r *run) tell(life context.Context, client *redis.Client, in input) error {
	if in.after > 0 {
		r.sleep(in.after)
	}
	if in.kind == inputStart {
		isolation := r.subject.Isolation(life, client, lockKey)
		go func() { r.finish(r.buy(life, isolation)) }()
	} else if err := r.change(in); err != nil {
		return err
	}
	r.settle()
	return nil
}

// sleep lets time pass, and returns when all that is due by then is done.
func (r *run) sleep(d time.Duration) {
	over := time.After(d)
	for {
		select {
		case <-over:
			r.settle()
			return
		case <-r.news:
			r.settle()
		}
	}
}

// settle returns when all goroutines wait and the commands that they have sent are
// numbered.
func (r *run) settle() {
	for lab.AwaitOthers(); r.turns.Next(); {
		lab.AwaitOthers()
	}
	r.number()
}

// change lets the input happen.
func (r *run) change(in input) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch in.kind {
	case inputFreeze:
		r.thawed = make(chan struct{})
		return nil
	case inputThaw:
		r.thaw()
		return nil
	}
	i := slices.IndexFunc(r.open, func(c *command) bool { return c.id == in.id })
	if i < 0 {
		return fmt.Errorf("%w: it has not sent command %d", errNondeterministic, in.id)
	}
	c := r.open[i]
	r.open = slices.Delete(r.open, i, i+1)
	c.late, c.cut = []byte(r.drawn(in.reply)), in.kind == inputBreak
	if r.thawed == nil {
		c.answer()
	} else {
		c.conn.open = c // it stays in the way of the next one
		r.open = append(r.open, c)
		c.id = answered
	}
	return nil
}

// answered is the number of a command whose reply waits until its process goes on.
const answered = -1

// thaw lets the process receive what has come meanwhile.
func (r *run) thaw() {
	close(r.thawed)
	r.thawed = nil
	waiting := r.open
	r.open = nil
	for _, c := range waiting {
		if c.id == answered {
			c.answer()
		} else {
			r.open = append(r.open, c)
		}
	}
	for _, c := range r.conns {
		c.next()
	}
}

// answer lets the client read the reply, or breaks the connection.
func (c *command) answer() {
	c.conn.open = nil
	if c.cut {
		c.conn.cut()
		return
	}
	c.conn.give(c.late)
	c.conn.next()
}

// number numbers the commands that are new. It is called when all goroutines wait, so
// that the numbers do not depend on who was quicker.
func (r *run) number() {
	r.mu.Lock()
	defer r.mu.Unlock()
	var fresh []*command
	for _, c := range r.open {
		if c.id == 0 {
			fresh = append(fresh, c)
		}
	}
	slices.SortStableFunc(fresh, func(a, b *command) int {
		return cmp.Or(cmp.Compare(a.since, b.since), strings.Compare(a.text, b.text))
	})
	for _, c := range fresh {
		r.numbers++
		c.id = r.numbers
		c.watchdog = r.at == begun && r.subject.Renewed() && !c.wire.Mentions(stockKey)
	}
}

// immediate answers what no schedule decides on; nil: it must be decided.
func (r *run) immediate(cmd *wire.Command) wire.Value {
	switch {
	case cmd.SetUp():
		return r.setUp(*cmd)
	case !cmd.Script() || len(cmd.Args) < 2:
		return nil
	case cmd.Is("EVAL", "EVAL_RO"):
		r.scripts[hash(cmd.Args[1])] = cmd.Args[1]
		return nil
	}
	source, ok := r.scripts[strings.ToLower(cmd.Args[1])]
	if !ok {
		return wire.ErrorReply("NOSCRIPT No matching script. Please use EVAL.")
	}
	args := slices.Clone(cmd.Args)
	args[0], args[1] = "EVAL", source
	*cmd = wire.Command{Args: args}
	return nil
}

// opened notes a command that must be decided on.
func (r *run) opened(c *conn, cmd wire.Command) *command {
	args := slices.Clone(cmd.Args)
	for i, arg := range args[1:] {
		if i > 0 || !cmd.Script() {
			args[i+1] = r.standIns(arg)
		}
	}
	cmd = wire.Command{Args: args}
	now := time.Since(r.start)
	out := &command{conn: c, wire: cmd, text: commandText(cmd), since: now, from: now}
	if c.held {
		out.from = c.from
	}
	r.open = append(r.open, out)
	r.changed()
	return out
}

// uuids are what the stages draw; other locks draw whole arguments.
var uuids = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)

// standIns replaces what is random by stand-ins, which are the same in each run: the
// number of the draw, as long as what they stand for.
func (r *run) standIns(arg string) string {
	if len(arg) >= 16 && !strings.Contains(arg, ":") && strings.ContainsFunc(arg, isLetter) && !uuids.MatchString(arg) {
		return r.standIn(arg)
	}
	return uuids.ReplaceAllStringFunc(arg, r.standIn)
}

func isLetter(r rune) bool { return r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' }

func (r *run) standIn(random string) string {
	i := slices.Index(r.randoms, random)
	if i < 0 {
		i = len(r.randoms)
		r.randoms = append(r.randoms, random)
	}
	return standIn(i+1, len(random))
}

func standIn(number, size int) string {
	text := "~." + strconv.Itoa(number)
	return text + strings.Repeat("_", size-len(text)-1) + "~"
}

// drawn replaces stand-ins by what they stand for.
func (r *run) drawn(reply string) string {
	if !strings.Contains(reply, "~.") {
		return reply
	}
	for i, random := range r.randoms {
		reply = strings.ReplaceAll(reply, standIn(i+1, len(random)), random)
	}
	return reply
}

// changed wakes watch. The caller has locked mu.
func (r *run) changed() {
	select {
	case r.news <- struct{}{}:
	default:
	}
}

// note changes what is known of the program.
func (r *run) note(change func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change()
	r.changed()
}

func (r *run) finish(err error) { r.note(func() { r.done, r.err = true, err }) }

var errSoldOut = errors.New("sold out")

// buy sells one unit, as lab.Buyer does.
func (r *run) buy(life context.Context, isolation stock.Guard) error {
	at, entry := stock.Location{Key: stockKey}, guard.Entry{Key: lockKey, Owner: owner}
	_, err := isolation.Do(life, at, entry, func(ctx context.Context, c stock.Counter) error {
		r.note(func() { r.at, r.told = begun, false })
		defer r.note(func() { r.at = ended })
		if r.subject.Nested {
			if err := lab.LockAgain(ctx, isolation, at, entry); err != nil {
				return err
			}
		}
		return r.section(ctx, c)
	})
	return err
}

func (r *run) section(ctx context.Context, c stock.Counter) error {
	stop := context.AfterFunc(ctx, func() { r.note(func() { r.told = true }) })
	defer stop()
	left, err := c.Get(ctx)
	if err != nil {
		return err
	}
	if left < 1 {
		return errSoldOut
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := c.Set(context.WithoutCancel(ctx), left-1); err != nil {
		return err
	}
	r.note(func() { r.sold = true })
	return nil
}
