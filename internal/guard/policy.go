package guard

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// Policy is a way of waiting for a lock that has no method that waits, only TryLock. It is safe
// for concurrent use.
type Policy interface {
	// Acquire calls try until it returns true. If try fails, Acquire returns its error; if ctx ends
	// first, the cause of ctx. The caller must call released, unless it is nil, after the release.
	Acquire(ctx context.Context, key string, try func() (bool, error)) (released func(), err error)
	// String returns the policy in the form that ParsePolicy reads.
	String() string
}

// ErrNoWait means that a Distributed has no Policy and its lock is not a Waiter.
var ErrNoWait = errors.New("the lock has no way of waiting")

// Fixed waits for the same time between any two attempts.
type Fixed struct{ Delay time.Duration }

// Acquire implements Policy.
func (f Fixed) Acquire(ctx context.Context, _ string, try func() (bool, error)) (released func(), err error) {
	return nil, poll(ctx, try, func(int) time.Duration { return f.Delay })
}

func (f Fixed) String() string { return "fixed:" + f.Delay.String() }

// Backoff waits for a random time between two attempts. The upper bound begins at Min and doubles
// up to Max. The randomness keeps callers that collided once from colliding again ("full jitter",
// Marc Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015).
type Backoff struct{ Min, Max time.Duration }

// Acquire implements Policy.
func (b Backoff) Acquire(ctx context.Context, _ string, try func() (bool, error)) (released func(), err error) {
	return nil, poll(ctx, try, func(attempt int) time.Duration {
		bound := b.Max
		if attempt < 32 && b.Min<<attempt > 0 {
			bound = min(b.Max, b.Min<<attempt)
		}
		return rand.N(bound) + 1
	})
}

func (b Backoff) String() string { return fmt.Sprintf("backoff:%v-%v", b.Min, b.Max) }

// poll calls try until it returns true or an error, and sleeps between the calls.
func poll(ctx context.Context, try func() (bool, error), delay func(attempt int) time.Duration) error {
	for attempt := 0; ; attempt++ {
		if ok, err := try(); ok || err != nil {
			return err
		}
		if err := Sleep(ctx, delay(attempt)); err != nil {
			return err
		}
	}
}

const policyForms = "allowed: line:DELAY, fixed:DELAY, backoff:MIN-MAX, recursive:DELAY, with durations of at most " +
	"a minute, such as 2ms"

// maxDelay is the longest delay that ParsePolicy accepts. No caller waits that long for a lock.
const maxDelay = time.Minute

// ParsePolicy parses a policy: a name, a colon and a delay. A name alone stands for the policy
// with its default delay.
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
		return nil, fmt.Errorf("unknown waiting policy %q (%s)", text, policyForms)
	}
	switch name {
	case "line":
		return &Line{Delay: from}, nil
	case "fixed":
		return Fixed{from}, nil
	case "backoff":
		return Backoff{from, to}, nil
	}
	return Recursive{Fixed{from}}, nil
}

// defaultDelays contains the delay of each policy that is given by its name alone. The delay of
// line is short, because at most one caller per process polls.
var defaultDelays = map[string]string{
	"line":      "2ms",
	"fixed":     "50ms",
	"backoff":   "1ms-64ms",
	"recursive": "50ms",
}

// Recursive makes a well-known mistake on purpose: a caller that does not get the lock sleeps and
// calls itself. When the inner call returns, having done the work, the outer call continues and
// does the work again, without the lock, and without the context through which the lock could stop
// it. A buyer that waited n times buys n+1 times, with any lock. The stack also grows with each
// wait. The mistake is in the code that runs the section, so Distributed calls run instead of
// Acquire. The embedded policy itself waits correctly.
type Recursive struct{ Fixed }

func (r Recursive) String() string { return "recursive:" + r.Delay.String() }

func (r Recursive) run(ctx context.Context, h *handle, section func(context.Context) error) error {
	ok, err := h.try(ctx)
	if !ok && err == nil {
		err = Sleep(ctx, r.Delay)
	}
	if err != nil {
		if !h.entered {
			h.stats.Waited = time.Since(h.begun)
		}
		return err
	}
	if !ok {
		if err := r.run(ctx, h, section); err != nil {
			return err
		}
		// The flaw: a return is missing here, or an else.
	}
	return h.run(ctx, section)
}
