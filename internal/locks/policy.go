package locks

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"oversell/internal/locks/turns"
)

// Policy is how a caller waits for a lock. It is safe for concurrent use.
type Policy interface {
	// Run asks for the lock with t.Try until it has it, then calls t.Enter
	// once and returns its error; or it returns the cause of t.Wait, or the
	// error of t.Try.
	Run(t *Turn) error
	// String gives the policy in the form that ParsePolicy takes.
	String() string
}

// Fixed waits the same time between two attempts.
type Fixed struct{ Delay time.Duration }

// Run implements Policy.
func (f Fixed) Run(t *Turn) error {
	return poll(t, func(int) time.Duration { return f.Delay })
}

func (f Fixed) String() string { return "fixed:" + f.Delay.String() }

// Backoff waits a random time between two attempts, up to a bound that begins
// at Min and doubles until it is Max. The randomness keeps the losers of one
// attempt from meeting again at the next ("full jitter", Marc Brooker,
// "Exponential Backoff And Jitter", AWS Architecture Blog, 2015).
type Backoff struct{ Min, Max time.Duration }

// Run implements Policy.
func (b Backoff) Run(t *Turn) error {
	return poll(t, func(attempt int) time.Duration {
		bound := b.Max
		if attempt < 32 && b.Min<<attempt > 0 {
			bound = min(b.Max, b.Min<<attempt)
		}
		return rand.N(bound) + 1
	})
}

func (b Backoff) String() string { return fmt.Sprintf("backoff:%v-%v", b.Min, b.Max) }

// poll asks, sleeps and asks again, in a loop.
func poll(t *Turn, delay func(attempt int) time.Duration) error {
	for attempt := 0; ; attempt++ {
		ok, err := t.Try()
		if err != nil {
			return err
		}
		if ok {
			return t.Enter()
		}
		if err := sleep(t.Wait(), delay(attempt)); err != nil {
			return err
		}
	}
}

// Blocking leaves the waiting to the lock, which must be a Waiter.
type Blocking struct{}

// Run implements Policy. The error wraps ErrNoWait for a lock that is none.
func (Blocking) Run(t *Turn) error {
	if err := t.Block(); err != nil {
		return err
	}
	return t.Enter()
}

func (Blocking) String() string { return "blocking" }

// InTurn leaves the waiting to the lock, as Blocking does, for one caller of this
// process and each key at a time. The others wait for their turn in memory: it is for a
// lock of which every waiter takes a connection. The turn ends with the wait, so that
// the next caller is in the lock's queue while this one has the lock.
type InTurn struct{ lines turns.Lines }

// Run implements Policy. The error wraps ErrNoWait for a lock that has no way of waiting.
func (p *InTurn) Run(t *Turn) error {
	turn, err := p.lines.Wait(t.Wait(), t.Key)
	if err != nil {
		return err
	}
	err = t.Block()
	turn.Pass()
	if err != nil {
		return err
	}
	return t.Enter()
}

func (*InTurn) String() string { return "in turn" }

// ErrNoWait is what Blocking returns for a lock that cannot wait by itself.
var ErrNoWait = errors.New("the lock has no way of waiting")

// Recursive is a lesson, not a way to wait: the loser sleeps and calls itself.
// When the inner call comes back, having done the work, the outer one goes on
// after its if and does the work again, without the lock, and so without the
// context by which a lock could stop it: a buyer who waited n times buys n+1
// times, whatever the lock. The stack grows with the wait, too.
type Recursive struct{ Delay time.Duration }

// Run implements Policy, wrongly and on purpose.
func (r Recursive) Run(t *Turn) error {
	ok, err := t.Try()
	if err != nil {
		return err
	}
	if !ok {
		if err := sleep(t.Wait(), r.Delay); err != nil {
			return err
		}
		if err := r.Run(t); err != nil {
			return err
		}
		// The flaw: neither a return nor an else keeps this frame out of
		// what follows.
	}
	return t.Enter()
}

func (r Recursive) String() string { return "recursive:" + r.Delay.String() }

// ErrPolicy is what ParsePolicy's errors wrap.
var ErrPolicy = errors.New("unknown waiting policy")

const policyForms = "allowed: line:DELAY, fixed:DELAY, backoff:MIN-MAX, recursive:DELAY, with durations such as 2ms, of a minute at most"

// maxDelay is more than anybody waits for a lock.
const maxDelay = time.Minute

// ParsePolicy reads a policy from text: a name, and after a colon its delay. A
// name alone takes its default delay. The error wraps ErrPolicy.
func ParsePolicy(text string) (Policy, error) {
	name, arg, given := strings.Cut(text, ":")
	if !given {
		arg = defaultDelays[name]
	}
	low, high, ranged := strings.Cut(arg, "-")
	from, err := time.ParseDuration(low)
	to := from
	if err == nil && ranged {
		to, err = time.ParseDuration(high)
	}
	_, known := defaultDelays[name]
	if !known || err != nil || from <= 0 || to < from || to > maxDelay || ranged != (name == "backoff") {
		return nil, fmt.Errorf("%w %q (%s)", ErrPolicy, text, policyForms)
	}
	switch name {
	case "line":
		return &Line{Delay: from}, nil
	case "fixed":
		return Fixed{from}, nil
	case "backoff":
		return Backoff{from, to}, nil
	}
	return Recursive{from}, nil
}

// defaultDelays are what a policy's name alone stands for. The material's own
// delay is 50 ms; the line's is short, since at most one caller a process asks.
var defaultDelays = map[string]string{
	"line":      "2ms",
	"fixed":     "50ms",
	"backoff":   "1ms-64ms",
	"recursive": "50ms",
}
