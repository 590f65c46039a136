package lab

import (
	"cmp"
	"context"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"oversell/internal/fault"
)

// Request is a command that a buyer has sent and that has no reply yet.
type Request struct {
	ID       int // its number among the buyer's commands, from 1; 0: not numbered yet
	Conn     int // the number of the connection, from 0 for each buyer
	Wire     fault.Command
	Source   string        // the source of the script that it runs
	Text     string        // orders commands that were sent at the same time; Opens may set it
	Since    time.Duration // when it was sent, counted from Begin
	From     time.Duration // when the program began to send it, which may be before it had a connection
	Watchdog bool          // it renews the lock, and the buyer's work does not wait for its reply
	GivenUp  bool          // its caller no longer waits for the reply
	goes     chan Effect   // receives the effect to apply once it is let through
}

// gatedConn is a connection whose commands wait until they are let through.
type gatedConn struct {
	s     *Shopper
	index int
	busy  bool          // a command on it has no reply yet
	held  bool          // its setup waits until the process thaws
	from  time.Duration // when that wait began, counted from Begin
}

// connection adds a connection. The function over removes it.
func (s *Shopper) connection() (c *gatedConn, over func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c = &gatedConn{s: s, index: s.dials}
	s.dials++
	s.conns = append(s.conns, c)
	return c, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.conns = slices.DeleteFunc(s.conns, func(o *gatedConn) bool { return o == c })
	}
}

func (c *gatedConn) handle(
	ctx context.Context, cmd fault.Command, send func() (fault.Value, error),
) (fault.Value, error) {
	if cmd.SetUp() {
		return c.setUp(ctx, cmd, send)
	}
	r := c.opened(cmd)
	if r == nil {
		return fault.ErrorReply("NOSCRIPT No matching script. Please use EVAL."), nil
	}
	defer func() {
		c.s.mu.Lock()
		defer c.s.mu.Unlock()
		c.busy = false
	}()
	defer context.AfterFunc(ctx, func() { c.s.note(func() { r.GivenUp = true }) })()
	select {
	case do := <-r.goes:
		reply, err := do(c.s.life, send)
		if gone := c.s.passage(ctx); gone != nil {
			return nil, gone
		}
		return reply, err
	case <-c.s.life.Done():
		return nil, c.s.life.Err()
	}
}

// setUp answers a command that sets up the connection. It waits while the process is frozen.
func (c *gatedConn) setUp(
	ctx context.Context, cmd fault.Command, send func() (fault.Value, error),
) (fault.Value, error) {
	if c.s.isFrozen() {
		c.s.note(func() { c.held, c.from = true, time.Since(c.s.start) })
	}
	if err := c.s.passage(ctx); err != nil {
		c.s.note(func() { c.held = false })
		return nil, err
	}
	if c.s.SetUp != nil {
		return c.s.SetUp(cmd), nil
	}
	return send()
}

// opened records a command that waits at the gate. It returns nil if the command runs a script
// whose source has not been sent yet.
func (c *gatedConn) opened(cmd fault.Command) *Request {
	s := c.s
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Since(s.start)
	r := &Request{Conn: c.index, Wire: cmd, Since: now, From: now, goes: make(chan Effect, 1)}
	if cmd.Script() && len(cmd.Args) > 1 {
		if r.Source = s.w.names.source(cmd); r.Source == "" {
			return nil
		}
	}
	if c.held {
		r.From, c.held = c.from, false
	}
	c.busy = true
	s.Opens(r)
	s.open = append(s.open, r)
	s.changed()
	return r
}

// Let lets a command through. The Effect do decides what happens to it. A frozen process receives the
// reply, or notices that the connection is broken, when it thaws.
func (s *Shopper) Let(c Request, do Effect) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.goes <- do
	s.open = slices.DeleteFunc(s.open, func(o *Request) bool { return o.ID == c.ID })
}

// Connections describes the connections of the process. Held contains the start of the wait of each
// new connection that waits until the process thaws. Spare reports whether a connection is free for
// one more command.
func (s *Shopper) Connections() (held []time.Duration, spare bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.conns {
		spare = spare || !c.busy
		if c.held {
			held = append(held, c.from)
		}
	}
	slices.Sort(held)
	return held, spare
}

// Settle waits until all other goroutines are blocked, and numbers the commands that these buyers
// have sent.
func Settle(all ...*Shopper) {
	for awaitOthers(); slices.ContainsFunc(all, func(s *Shopper) bool { return s.next() }); {
		awaitOthers()
	}
	for _, s := range all {
		s.number()
	}
}

// number numbers the new commands. It is called when all goroutines are blocked, so that the
// numbers do not depend on which goroutine was faster. A buyer in its section only uses the stock,
// so any other command of that buyer renews the lock, or, in a nested subject, is the helper's.
func (s *Shopper) number() {
	s.mu.Lock()
	defer s.mu.Unlock()
	fresh := slices.DeleteFunc(slices.Clone(s.open), func(c *Request) bool { return c.ID != 0 })
	slices.SortStableFunc(fresh, func(a, b *Request) int {
		return cmp.Or(cmp.Compare(a.Since, b.Since), strings.Compare(a.Text, b.Text))
	})
	for _, c := range fresh {
		s.sent++
		c.ID = s.sent
		c.Watchdog = s.Section == Begun && s.w.Subject.InRedis() && !s.w.Subject.Nested &&
			!c.Wire.Mentions(s.w.StockKey())
	}
}

// Requests returns the commands that have no reply yet. The buyer's own commands come before
// renewals; within each group, commands are sorted by the time at which they were sent. A killed
// process has no commands.
func (s *Shopper) Requests() []Request {
	if s.isKilled() {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []Request
	for _, c := range s.open {
		all = append(all, *c)
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

// Whole returns the command with EVALSHA replaced by EVAL and the source of the script.
func (c Request) Whole() fault.Command {
	if !c.Wire.Is("EVALSHA", "EVALSHA_RO") {
		return c.Wire
	}
	return fault.NewCommand(append([]string{"EVAL", c.Source}, c.Wire.Args[2:]...)...)
}

// ScriptHash returns the hash that EVALSHA takes.
func ScriptHash(source string) string {
	sum := sha1.Sum([]byte(source))
	return hex.EncodeToString(sum[:])
}

// turn is a command that waits until it may get a connection. Commands take turns in an order that
// does not depend on which goroutine was faster.
//
// A buyer has several goroutines that may send at the same moment of virtual time: its own work, a
// renewal, and a release that is repeated in the background. Which of them gets the idle
// connection, and which has to open a new one, would depend on Go's scheduler. If two send the same
// command, Redis cannot tell them apart: a function and the helper that it calls release the same
// reentrant lock with the same command. So the commands are put in order before they get a
// connection, while it is still known which call they belong to.
type turn struct {
	call  int
	text  string
	opens chan struct{}
}

// next lets one command through. Commands of an outer call come before those of an inner call; at
// the same depth, commands are sorted by text. It returns false if no command is waiting. It may be
// called only when all goroutines are blocked, because only then have all commands of this moment
// arrived.
func (s *Shopper) next() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.turns) == 0 {
		return false
	}
	first := slices.MinFunc(s.turns, func(a, b *turn) int {
		return cmp.Or(cmp.Compare(a.call, b.call), strings.Compare(a.text, b.text))
	})
	s.turns = slices.DeleteFunc(s.turns, func(o *turn) bool { return o == first })
	close(first.opens)
	return true
}

// takeTurn is called before commands are sent, and returns when they may get a connection. After
// the end of the process, all commands go through.
func (s *Shopper) takeTurn(ctx context.Context, cmds []redis.Cmder) {
	if s.life.Err() != nil {
		return
	}
	mine := &turn{call: callOf(ctx), text: withoutRandom(cmds), opens: make(chan struct{})}
	s.note(func() { s.turns = append(s.turns, mine) })
	select {
	case <-mine.opens:
	case <-s.life.Done():
	}
}

// callKey is the context key for the nesting depth of the call that sends a command.
type callKey struct{}

func callOf(ctx context.Context) int {
	n, _ := ctx.Value(callKey{}).(int)
	return n
}

// withoutRandom returns the text of the commands without random values.
func withoutRandom(cmds []redis.Cmder) string {
	var b strings.Builder
	for _, cmd := range cmds {
		script := strings.HasPrefix(cmd.Name(), "eval")
		for i, arg := range cmd.Args() {
			word := fmt.Sprint(arg)
			if !script || i > 1 {
				word = ReplaceRandom(word, func(string) string { return "" })
			}
			b.WriteString(word + "\x00")
		}
	}
	return b.String()
}
