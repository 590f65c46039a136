package turnstile

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/redis/go-redis/v9"
)

// sent is the order in which a turnstile lets through what several goroutines send at once.
func sent(t *testing.T, commands map[string]context.Context) (order []string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		noticed := 0
		turns := New(t.Context(), func() { noticed++ })
		send := turns.ProcessHook(func(_ context.Context, cmd redis.Cmder) error {
			order = append(order, strings.Join(strings.Fields(cmd.String())[:2], " "))
			return nil
		})
		for text, ctx := range commands {
			synctest.Wait()
			go func() {
				words := strings.Fields(text)
				_ = send(ctx, redis.NewCmd(ctx, words[0], words[1], words[2]))
			}()
		}
		synctest.Wait()
		if len(order) > 0 || noticed != len(commands) {
			t.Errorf("%q went through before their turn; %d of %d were noticed", order, noticed, len(commands))
		}
		for turns.Next() {
			synctest.Wait()
		}
	})
	return order
}

// The outer call is first, then the text decides. What is random does not count.
func TestOrder(t *testing.T) {
	outer := t.Context()
	inner := Inner(outer)
	want := []string{"del b", "get a", "get c", "del a", "get b"}
	for range 20 {
		got := sent(t, map[string]context.Context{
			"get b 1": Inner(inner), "del a 1": inner,
			"get c 0f8fad5b-d9cb-469f-a165-70867728950e": outer, "get a fad8b4d9-7d2c-4e8b-9f53-1a0c2b3d4e5f": outer, "del b 1": outer,
		})
		if !slices.Equal(got, want) {
			t.Fatalf("%q, want %q", got, want)
		}
	}
}

// Two commands that differ in what is random alone are told apart by their calls.
func TestRandomWordsAreMasked(t *testing.T) {
	a := text([]redis.Cmder{redis.NewCmd(t.Context(), "set", "lock", "0f8fad5b-d9cb-469f-a165-70867728950e")})
	b := text([]redis.Cmder{redis.NewCmd(t.Context(), "set", "lock", "fad8b4d9-7d2c-4e8b-9f53-1a0c2b3d4e5f")})
	other := text([]redis.Cmder{redis.NewCmd(t.Context(), "set", "other", "fad8b4d9-7d2c-4e8b-9f53-1a0c2b3d4e5f")})
	if a != b || b == other {
		t.Errorf("%q, %q, %q", a, b, other)
	}
	first := text([]redis.Cmder{redis.NewCmd(t.Context(), "evalsha", strings.Repeat("a", 40), 1, "lock")})
	second := text([]redis.Cmder{redis.NewCmd(t.Context(), "evalsha", strings.Repeat("b", 40), 1, "lock")})
	if first == second {
		t.Errorf("two scripts are both %q", first)
	}
}

// Nobody waits for a turn when the life of the client is over.
func TestEndOfLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		life, end := context.WithCancel(t.Context())
		turns := New(life, func() {})
		through := 0
		send := turns.ProcessPipelineHook(func(context.Context, []redis.Cmder) error { through++; return nil })
		go func() { _ = send(life, []redis.Cmder{redis.NewCmd(life, "ping")}) }()
		synctest.Wait()
		if through != 0 {
			t.Error("it went through before its turn")
		}
		end()
		synctest.Wait()
		if err := send(life, nil); err != nil || through != 2 {
			t.Errorf("%d went through, %v", through, err)
		}
	})
}
