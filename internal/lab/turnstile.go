package lab

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/redis/go-redis/v9"
)

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

// turn is a command that waits.
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

// pass waits for a turn.
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

// DialHook implements redis.Hook.
func (t *turnstile) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements redis.Hook.
func (t *turnstile) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		t.pass(ctx, cmd)
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook implements redis.Hook.
func (t *turnstile) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		t.pass(ctx, cmds...)
		return next(ctx, cmds)
	}
}

// callKey is the key of the number of a call in a context.
type callKey struct{}

// innerCall marks what is sent from here on as that of a call within the one of ctx.
func innerCall(ctx context.Context) context.Context {
	return context.WithValue(ctx, callKey{}, callOf(ctx)+1)
}

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
