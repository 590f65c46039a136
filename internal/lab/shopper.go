package lab

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/redis/go-redis/v9"

	"oversell/internal/fault"
	"oversell/internal/guard"
	"oversell/internal/stock"
)

// Shopper is the process of one buyer: the shop's sale of one unit, under a subject's guard.
// Its client has no server: each command stays open until Answer is called. The game answers
// by one Redis for all buyers. Package search runs each buyer by itself, and works out the
// replies.
//
// A Shopper runs in virtual time, and one goroutine drives it. Begin must be called first,
// then Run by a goroutine of its own, and Settle after whatever the process is told.
type Shopper struct {
	Subject           Subject
	Owner             string // the buyer, as it names itself to a lock
	LockKey, StockKey string

	// Scripts are those that were sent in full, by their hash. All who use one server share them.
	Scripts *sync.Map
	SetUp   func(conn int, cmd fault.Command) fault.Value // the reply to a command that sets up a connection
	Opens   func(*Request)                                // is called when a command has been sent
	sees    func(moment)                                  // is called with what the buyer does; nil: nobody looks
	// News has room for a value, which is there when something has changed.
	News chan struct{}

	life   context.Context
	start  time.Time
	client *redis.Client
	guard  stock.Guard
	turns  *turnstile // at which the client's commands wait before they have a connection

	mu     sync.Mutex
	conns  []*shopperConn
	open   []*openRequest
	sent   int // commands so far
	frozen bool
	over   bool // no new connections

	// What is known of the sale. It may be read when all goroutines wait.
	Section     Section
	Told        bool // in the section: that the lock is lost
	Read, Wrote *int64
	Sold        bool
	Done        bool
	Err         error // with which it is done
}

// Section is how far a buyer is in its section.
type Section byte

// The parts of a sale.
const (
	Ahead Section = iota
	Begun
	Ended
)

// moment is something that a buyer does.
type moment byte

// The moments of a sale, in their order.
const (
	enters  moment = iota // the section
	works                 // in it, and has called its helper if it is nested
	refused               // by the stock
	sells
	leaves
)

// Request is a command that a buyer has sent, and that has no reply yet.
type Request struct {
	ID       int // which of its buyer's commands, from 1; 0: not yet numbered
	Conn     int // on which of its buyer's connections
	Wire     fault.Command
	Source   string        // of the script that it runs
	Text     string        // by which commands of the same moment are ordered: Opens may set it
	Since    time.Duration // when it was sent, since Begin
	From     time.Duration // when the program began to send it: its connection may have come later
	Watchdog bool          // the buyer's own line of work does not wait for it
	GivenUp  bool          // nobody waits for its reply any more
}

type openRequest struct {
	Request
	conn     *shopperConn
	answered bool        // its reply waits until the process goes on
	late     fault.Value // that reply
	cut      bool        // the connection breaks in its place
}

// Begin makes the buyer's client. Life is that of the process.
func (s *Shopper) Begin(life context.Context) {
	const long = 2 * MaxSchedule // the schedule decides how long a command takes
	s.life, s.start = life, time.Now()
	o := new(server).options(func(context.Context) (net.Conn, error) { return s.dial() })
	o.ReadTimeout, o.WriteTimeout, o.DialTimeout = long, long, long
	s.client = redis.NewClient(o)
	s.turns = &turnstile{life: life, notice: func() { s.note(func() {}) }}
	s.client.AddHook(s.turns)
	w := &World{TTL: ScheduleTTL, Delay: RetryDelay, Subject: s.Subject, lockKey: s.LockKey}
	s.guard = (&Process{w: w, life: life, rdb: s.client, mutex: new(guard.Local)}).StockGuard(nil)
}

func (s *Shopper) dial() (net.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over || s.life.Err() != nil {
		return nil, net.ErrClosed
	}
	c := &shopperConn{s: s, index: len(s.conns), arrived: make(chan struct{}, 1)}
	s.conns = append(s.conns, c)
	return c, nil
}

// Kill breaks all connections for good, so that the program comes to its end.
func (s *Shopper) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over, s.frozen, s.open = true, false, nil
	for _, c := range s.conns {
		c.breakOff()
	}
}

// Close closes the client of a process that was killed.
func (s *Shopper) Close() error { return s.client.Close() }

// Run sells one unit, and returns when that is done.
func (s *Shopper) Run() {
	at, entry := stock.Location{Key: s.StockKey}, guard.Entry{Key: s.LockKey, Owner: s.Owner}
	_, err := s.guard.Do(s.life, at, entry, func(ctx context.Context, c stock.Counter) error {
		s.note(func() { s.Section, s.Told = Begun, false })
		defer s.note(func() { s.Section = Ended })
		s.see(enters)
		if s.Subject.Nested {
			// A helper takes the lock while its caller has it, as the same owner, and releases it.
			nothing := func(context.Context, stock.Counter) error { return nil }
			inner := context.WithValue(ctx, callKey{}, callOf(ctx)+1)
			if _, err := s.guard.Do(inner, at, entry, nothing); err != nil {
				return err
			}
		}
		s.see(works)
		defer s.see(leaves)
		return s.sell(ctx, c)
	})
	s.note(func() { s.Done, s.Err = true, err })
}

// sell reads the stock, checks it, and writes it back, as Buyer does.
func (s *Shopper) sell(ctx context.Context, c stock.Counter) error {
	defer context.AfterFunc(ctx, func() { s.note(func() { s.Told = true }) })()
	left, err := c.Get(ctx)
	if err != nil {
		return s.late(err)
	}
	s.note(func() { s.Read = &left })
	if left < 1 {
		return errSoldOut
	}
	if ctx.Err() != nil {
		return fmt.Errorf("%w: %w", errLost, context.Cause(ctx))
	}
	rest := left - 1
	if err := c.Set(context.WithoutCancel(ctx), rest); err != nil {
		return s.late(err)
	}
	s.note(func() { s.Wrote, s.Sold = &rest, true })
	s.see(sells)
	return nil
}

// late notes that the stock has refused a buyer that came too late.
func (s *Shopper) late(err error) error {
	if errors.Is(err, stock.ErrFenced) {
		s.see(refused)
	}
	return err
}

func (s *Shopper) see(m moment) {
	if s.sees != nil {
		s.sees(m)
	}
}

func (s *Shopper) note(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
	s.changed()
}

// changed puts a value into News. The caller has locked mu.
func (s *Shopper) changed() {
	select {
	case s.News <- struct{}{}:
	default:
	}
}

// Settle returns when all goroutines wait, and the commands that these buyers have sent are
// numbered.
func Settle(all ...*Shopper) {
	for AwaitOthers(); slices.ContainsFunc(all, func(s *Shopper) bool { return s.turns.next() }); {
		AwaitOthers()
	}
	for _, s := range all {
		s.number()
	}
}

// number numbers the commands that are new. It is called when all goroutines wait, because
// only then is it certain who sends what, and so that the numbers do not depend on who was
// quicker. A buyer in its section asks only for the stock, so any other command is one that
// renews the lock.
func (s *Shopper) number() {
	s.mu.Lock()
	defer s.mu.Unlock()
	fresh := slices.DeleteFunc(slices.Clone(s.open), func(c *openRequest) bool { return c.ID != 0 })
	slices.SortStableFunc(fresh, func(a, b *openRequest) int {
		return cmp.Or(cmp.Compare(a.Since, b.Since), strings.Compare(a.Text, b.Text))
	})
	for _, c := range fresh {
		s.sent++
		c.ID = s.sent
		c.Watchdog = s.Section == Begun && s.Subject.Renewed() && !c.Wire.Mentions(s.StockKey)
	}
}

// Requests are the commands without a reply: the buyer's own first, then by the time at which
// they were sent.
func (s *Shopper) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []Request
	for _, c := range s.open {
		if !c.answered {
			all = append(all, c.Request)
		}
	}
	slices.SortStableFunc(all, func(a, b Request) int {
		return cmp.Or(compareBool(a.Watchdog, b.Watchdog), cmp.Compare(a.Since, b.Since),
			strings.Compare(a.Text, b.Text))
	})
	return all
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// take removes a command from the Requests. Answer must be called.
func (s *Shopper) take(c Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = slices.DeleteFunc(s.open, func(o *openRequest) bool { return o.ID == c.ID })
}

// Answer lets the process receive the reply to a command, or, with cut, breaks the connection.
// A frozen process receives it when it goes on.
func (s *Shopper) Answer(r Request, reply fault.Value, cut bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.conns[r.Conn].open
	s.open = slices.DeleteFunc(s.open, func(o *openRequest) bool { return o == c })
	c.late, c.cut = reply, cut
	if s.frozen {
		c.answered = true
		s.open = append(s.open, c)
		return
	}
	c.arrive()
}

// arrive lets the client read the reply, or breaks the connection.
func (c *openRequest) arrive() {
	c.conn.open = nil
	if c.cut {
		c.conn.breakOff()
		return
	}
	c.conn.give(c.late)
	c.conn.next()
}

// Freeze stops the process.
func (s *Shopper) Freeze() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.frozen = true
}

// Thaw lets the process go on, and receive what has come meanwhile.
func (s *Shopper) Thaw() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.frozen = false
	waiting := s.open
	s.open = nil
	for _, c := range waiting {
		if c.answered {
			c.arrive()
		} else {
			s.open = append(s.open, c)
		}
	}
	for _, c := range s.conns {
		c.next()
	}
}

// Connections tells when those commands were begun that need a new connection, while the
// process is frozen and makes none, and whether there is a connection for one more command.
func (s *Shopper) Connections() (held []time.Duration, spare bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.conns {
		spare = spare || c.open == nil && !c.closed && !c.broken
		if c.held {
			held = append(held, c.from)
		}
	}
	slices.Sort(held)
	return held, spare
}

// opened notes a command that must be answered, or returns the reply to it at once: a script
// that nobody has sent in full is not known. The caller has locked mu.
func (s *Shopper) opened(c *shopperConn, cmd fault.Command) (*openRequest, fault.Value) {
	now := time.Since(s.start)
	out := &openRequest{Request: Request{Conn: c.index, Wire: cmd, Since: now, From: now}, conn: c}
	if cmd.Script() && len(cmd.Args) > 1 {
		if out.Source = cmd.Args[1]; cmd.Is("EVALSHA", "EVALSHA_RO") {
			source, ok := s.Scripts.Load(strings.ToLower(cmd.Args[1]))
			if !ok {
				return nil, fault.ErrorReply("NOSCRIPT No matching script. Please use EVAL.")
			}
			out.Source = source.(string)
		} else {
			s.Scripts.Store(ScriptHash(out.Source), out.Source)
		}
	}
	if c.held {
		out.From, c.held = c.from, false
	}
	s.Opens(&out.Request)
	s.open = append(s.open, out)
	s.changed()
	return out, nil
}

// Whole is the command as it is without the scripts that the server knows already.
func (c Request) Whole() fault.Command {
	if !c.Wire.Is("EVALSHA", "EVALSHA_RO") {
		return c.Wire
	}
	return fault.NewCommand(append([]string{"EVAL", c.Source}, c.Wire.Args[2:]...)...)
}

// ScriptHash is that by which EVALSHA names a script.
func ScriptHash(source string) string {
	sum := sha1.Sum([]byte(source))
	return hex.EncodeToString(sum[:])
}

// shopperConn is a connection of a shopper that has no server: each command on it stays open
// until it is answered. Connections of one shopper share its mutex.
type shopperConn struct {
	s        *Shopper
	index    int
	unread   []byte          // of a command that is not complete
	queue    []fault.Command // after the one that is open
	open     *openRequest    // nil: the next command is taken from queue
	replies  bytes.Buffer    // what the client has not read
	arrived  chan struct{}   // has a value when a Read may go on
	closed   bool            // by the client
	broken   bool            // by the other side
	deadline time.Time       // of Read

	held bool          // its set-up waits until the process goes on
	from time.Duration // when that began, since Begin
}

func (c *shopperConn) Write(p []byte) (int, error) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if c.closed || c.broken {
		return 0, net.ErrClosed
	}
	c.unread = append(c.unread, p...)
	for len(c.unread) > 0 {
		in := bytes.NewReader(c.unread)
		r := bufio.NewReader(in)
		cmd, err := fault.ReadCommand(r)
		if err != nil {
			break // the rest comes with the next Write
		}
		c.unread = c.unread[len(c.unread)-in.Len()-r.Buffered():]
		c.queue = append(c.queue, cmd)
	}
	c.next()
	return len(p), nil
}

// next opens the first command in the queue, and answers those that need no decision.
func (c *shopperConn) next() {
	for c.open == nil && len(c.queue) > 0 && !c.closed && !c.broken {
		cmd := c.queue[0]
		if cmd.SetUp() && c.s.frozen {
			if !c.held {
				c.held, c.from = true, time.Since(c.s.start)
				c.s.changed()
			}
			return // Thaw calls next
		}
		c.queue = c.queue[1:]
		reply := fault.Value(nil)
		if cmd.SetUp() {
			reply = c.s.SetUp(c.index, cmd)
		} else {
			c.open, reply = c.s.opened(c, cmd)
		}
		if reply != nil {
			c.give(reply)
		}
	}
}

func (c *shopperConn) give(reply []byte) {
	c.replies.Write(reply)
	c.notify()
}

func (c *shopperConn) notify() {
	select {
	case c.arrived <- struct{}{}:
	default:
	}
}

func (c *shopperConn) Read(p []byte) (int, error) {
	for {
		c.s.mu.Lock()
		n, err := c.take(p)
		deadline := c.deadline
		c.s.mu.Unlock()
		if n > 0 || err != nil {
			return n, err
		}
		var over <-chan time.Time
		if !deadline.IsZero() {
			over = time.After(time.Until(deadline))
		}
		select {
		case <-c.arrived:
		case <-over:
			return 0, os.ErrDeadlineExceeded
		}
	}
}

func (c *shopperConn) take(p []byte) (int, error) {
	switch {
	case c.closed:
		return 0, net.ErrClosed
	case c.replies.Len() > 0:
		return c.replies.Read(p)
	case c.broken:
		return 0, io.EOF
	}
	return 0, nil
}

// Close is called by the client: what is open may arrive all the same.
func (c *shopperConn) Close() error {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	c.closed, c.queue, c.held = true, nil, false
	if c.open != nil {
		c.open.GivenUp = true
	}
	c.s.changed()
	c.notify()
	return nil
}

func (c *shopperConn) breakOff() {
	c.broken, c.queue = true, nil
	c.notify()
}

func (c *shopperConn) SetReadDeadline(t time.Time) error {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	c.deadline = t
	return nil
}

func (c *shopperConn) SetDeadline(t time.Time) error    { return c.SetReadDeadline(t) }
func (c *shopperConn) SetWriteDeadline(time.Time) error { return nil } // a Write does not wait
func (c *shopperConn) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (c *shopperConn) RemoteAddr() net.Addr             { return &net.TCPAddr{} }

// turnstile is a hook that lets the commands of a client out one at a time, in an order that
// does not depend on which goroutine was quicker.
//
// A buyer has several goroutines that may send at the same moment of virtual time: its own
// line of work, a renewal, and a release that is repeated in the background. Which of them
// gets the connection that is there, and which one has to open another, would depend on the
// scheduler of Go. If two send the same text, nothing that Redis receives tells them apart:
// a function and the helper that it calls release the same reentrant lock by the same
// command. So they are put in order before they have a connection, where it is still known
// which call they belong to.
type turnstile struct {
	life   context.Context // when it ends, everybody goes through
	notice func()          // is called when there is something for next to do

	mu      sync.Mutex
	waiting []*turn
}

type turn struct {
	call  int
	text  string
	opens chan struct{}
}

// next lets one command through: that of the outer call first, then by what is sent. It
// returns false if there is none. It may be called only when all goroutines wait, because
// only then has everybody come who sends at this moment.
func (t *turnstile) next() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.waiting) == 0 {
		return false
	}
	first := slices.MinFunc(t.waiting, func(a, b *turn) int {
		return cmp.Or(cmp.Compare(a.call, b.call), strings.Compare(a.text, b.text))
	})
	t.waiting = slices.DeleteFunc(t.waiting, func(o *turn) bool { return o == first })
	close(first.opens)
	return true
}

func (t *turnstile) pass(ctx context.Context, cmds ...redis.Cmder) {
	if t.life.Err() != nil {
		return
	}
	mine := &turn{call: callOf(ctx), text: withoutRandom(cmds), opens: make(chan struct{})}
	t.mu.Lock()
	t.waiting = append(t.waiting, mine)
	t.mu.Unlock()
	t.notice()
	select {
	case <-mine.opens:
	case <-t.life.Done():
	}
}

func (t *turnstile) DialHook(next redis.DialHook) redis.DialHook { return next }

func (t *turnstile) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		t.pass(ctx, cmd)
		return next(ctx, cmd)
	}
}

func (t *turnstile) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		t.pass(ctx, cmds...)
		return next(ctx, cmds)
	}
}

// callKey is the key, in a context, of the number of calls around the one in which something
// is sent.
type callKey struct{}

func callOf(ctx context.Context) int {
	n, _ := ctx.Value(callKey{}).(int)
	return n
}

// withoutRandom is what is sent, without what is random in it.
func withoutRandom(cmds []redis.Cmder) string {
	var b strings.Builder
	for _, cmd := range cmds {
		script := strings.HasPrefix(cmd.Name(), "eval")
		for i, arg := range cmd.Args() {
			word := fmt.Sprint(arg)
			if !script || i > 1 {
				word = idForm.ReplaceAllString(word, "")
				if len(word) >= 16 && !strings.Contains(word, ":") && strings.ContainsFunc(word, unicode.IsLetter) {
					word = ""
				}
			}
			b.WriteString(word + "\x00")
		}
	}
	return b.String()
}
