package locktest

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// ErrCut represents a broken connection. Faults that need no particular error use it.
var ErrCut = errors.New("locktest: connection cut")

// A Match selects the commands for a fault.
type Match func(cmd redis.Cmder) bool

// Command matches commands by name: Command("get", "del").
func Command(names ...string) Match {
	return func(cmd redis.Cmder) bool {
		return slices.ContainsFunc(names, func(name string) bool {
			return strings.EqualFold(name, cmd.Name())
		})
	}
}

// Script matches the commands that run the Lua script with the given source: EVAL by the source,
// EVALSHA by its hash.
func Script(source string) Match {
	hash := redis.NewScript(source).Hash()
	return func(cmd redis.Cmder) bool {
		if len(cmd.Args()) < 2 {
			return false
		}
		arg, _ := cmd.Args()[1].(string)
		switch strings.ToLower(cmd.Name()) {
		case "eval", "eval_ro":
			return arg == source
		case "evalsha", "evalsha_ro":
			return arg == hash
		}
		return false
	}
}

// Mentioning matches commands that have arg, such as a key, among their
// arguments.
func Mentioning(arg string) Match {
	return func(cmd redis.Cmder) bool {
		return slices.Contains(cmd.Args()[1:], any(arg))
	}
}

// All matches commands that all of the given matches select.
func All(matches ...Match) Match {
	return func(cmd redis.Cmder) bool {
		for _, match := range matches {
			if !match(cmd) {
				return false
			}
		}
		return true
	}
}

// Any matches every command of the code under test. It does not match the commands that go-redis
// sends to set up a connection.
func Any(cmd redis.Cmder) bool { return !setUp(cmd) }

var setUp = Command("hello", "auth", "client", "select", "readonly")

// An Action decides what happens to a command. If it calls send, Redis executes the command; if
// not, the command is never sent. The caller gets the error that the action returns, which is the
// error of send or a different one in place of the reply.
type Action func(ctx context.Context, send func() error) error

// Pass lets the command through. Use it for a rule that only counts commands.
func Pass(_ context.Context, send func() error) error { return send() }

// Fail fails the command with err. Redis never sees it.
func Fail(err error) Action {
	return func(context.Context, func() error) error { return err }
}

// Drop loses the command on its way to Redis. The caller waits for an answer until its context ends.
func Drop(ctx context.Context, _ func() error) error {
	<-ctx.Done()
	return ctx.Err()
}

// LoseReply lets Redis execute the command, but returns err instead of the reply.
func LoseReply(err error) Action {
	return func(_ context.Context, send func() error) error {
		if sent := send(); isNoScript(sent) {
			return sent // nothing was executed, so the EVAL that follows loses its reply
		}
		return err
	}
}

// A Pause holds commands back until Release is called.
type Pause struct {
	once     sync.Once
	parked   chan struct{}
	released chan struct{}
}

// NewPause returns a Pause. Give one of its actions, Before or After, to a rule.
func NewPause() *Pause {
	return &Pause{parked: make(chan struct{}), released: make(chan struct{})}
}

// Before parks the command before it is sent. If the caller's context ends first, the command is
// never sent.
func (p *Pause) Before(ctx context.Context, send func() error) error {
	if err := p.park(ctx); err != nil {
		return err
	}
	return send()
}

// After parks the command once Redis has executed it, so the reply is late. If the caller's context
// ends before Release, the reply is lost.
func (p *Pause) After(ctx context.Context, send func() error) error {
	sent := send()
	if isNoScript(sent) {
		return sent
	}
	if err := p.park(ctx); err != nil {
		return err
	}
	return sent
}

func (p *Pause) park(ctx context.Context) error {
	p.once.Do(func() { close(p.parked) })
	select {
	case <-p.released:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Parked returns a channel that is closed as soon as a command is parked.
func (p *Pause) Parked() <-chan struct{} { return p.parked }

// Release lets parked and later commands through. It must be called exactly once.
func (p *Pause) Release() { close(p.released) }

// A Hook is a redis.Hook with rules. Each rule applies an action to the commands that it matches.
// The zero Hook lets all commands through:
//
//	hook := new(locktest.Hook)
//	rdb.AddHook(hook)
//	hook.On(locktest.Command("del"), 1, locktest.Fail(locktest.ErrCut))
//
// A rule that matches one command of a pipeline applies to the whole pipeline. A hook sees a
// command once, outside of go-redis' own retries, so an error from an action is not retried.
type Hook struct {
	mu    sync.Mutex
	rules []*Rule
}

// A Rule is one rule of a Hook. On and Count return it.
type Rule struct {
	hook   *Hook
	match  Match
	action Action
	left   int  // number of commands that it still applies to, negative for no limit
	off    bool // giveBack must not revive a rule that has ended
	hits   int
}

// On adds a rule that applies action to the next n matching commands, or to all of them if n is
// negative. If several rules match, the action of the first rule is outermost.
//
// If Redis does not know a script yet, the client sends EVALSHA, receives NOSCRIPT, and sends EVAL.
// That counts as one command.
func (h *Hook) On(match Match, n int, action Action) *Rule {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := &Rule{hook: h, match: match, action: action, left: n}
	h.rules = append(h.rules, r)
	return r
}

// Count adds a rule that only counts matching commands.
func (h *Hook) Count(match Match) *Rule { return h.On(match, -1, Pass) }

// Hits returns the number of commands to which the rule was applied.
func (r *Rule) Hits() int {
	r.hook.mu.Lock()
	defer r.hook.mu.Unlock()
	return r.hits
}

// Off ends the rule. Hits keeps its value.
func (r *Rule) Off() {
	r.hook.mu.Lock()
	defer r.hook.mu.Unlock()
	r.off = true
}

// take uses r once, if it matches one of cmds.
func (h *Hook) take(r *Rule, cmds []redis.Cmder) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if r.off || r.left == 0 || !slices.ContainsFunc(cmds, r.match) {
		return false
	}
	if r.left > 0 {
		r.left--
	}
	r.hits++
	return true
}

// giveBack undoes the effect of take.
func (h *Hook) giveBack(r *Rule) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if r.left >= 0 {
		r.left++
	}
	r.hits--
}

// apply sends cmds inside the actions of all rules that match.
func (h *Hook) apply(ctx context.Context, cmds []redis.Cmder, send func() error) error {
	h.mu.Lock()
	rules := slices.Clone(h.rules)
	h.mu.Unlock()

	var reply error
	run := func() error {
		reply = send()
		return reply
	}
	for _, r := range slices.Backward(rules) {
		inner := run
		run = func() error {
			if !h.take(r, cmds) {
				return inner()
			}
			err := r.action(ctx, inner)
			if isNoScript(err) {
				h.giveBack(r)
			}
			return err
		}
	}
	err := run()
	if err != nil && err != reply {
		for _, cmd := range cmds {
			forget(cmd)
			cmd.SetErr(err)
		}
	}
	return err
}

// forget removes the reply's value from cmd. The caller must not see it, and go-redis returns a
// value even together with an error.
func forget(cmd redis.Cmder) {
	set := reflect.ValueOf(cmd).MethodByName("SetVal")
	if !set.IsValid() {
		return
	}
	var zero []reflect.Value
	for in := range set.Type().Ins() {
		zero = append(zero, reflect.Zero(in))
	}
	set.Call(zero)
}

// DialHook implements redis.Hook.
func (h *Hook) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements redis.Hook.
func (h *Hook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return h.apply(ctx, []redis.Cmder{cmd}, func() error { return next(ctx, cmd) })
	}
}

// ProcessPipelineHook implements redis.Hook.
func (h *Hook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		return h.apply(ctx, cmds, func() error { return next(ctx, cmds) })
	}
}

func isNoScript(err error) bool { return redis.HasErrorPrefix(err, "NOSCRIPT") }
