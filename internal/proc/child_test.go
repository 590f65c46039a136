package proc_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"oversell/internal/proc"
)

func TestChildAnswersCommandsWithEvents(t *testing.T) {
	c, err := proc.StartChild[string, string]("child 1", command("echo"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(time.Millisecond) // it does not end with its input
	for _, word := range []string{"a", "b"} {
		if err := c.Send(word); err != nil {
			t.Fatal(err)
		}
		if got, err := proc.Await(t.Context(), c, c.Events, time.Minute); got != word || err != nil {
			t.Errorf("got %q and %v, want %q", got, err, word)
		}
	}
	_, err = proc.Await(t.Context(), c, c.Events, 10*time.Millisecond)
	if !errors.Is(err, proc.ErrLate) || !strings.Contains(err.Error(), "child 1") || !strings.Contains(err.Error(), "not an event: ready") {
		t.Errorf("got %v, want %v and what the child printed", err, proc.ErrLate)
	}
	c.Kill()
	if _, err := proc.Await(t.Context(), c, c.Events, time.Minute); !errors.Is(err, proc.ErrDied) {
		t.Errorf("got %v, want %v", err, proc.ErrDied)
	}
	if err := c.Send("c"); !errors.Is(err, proc.ErrDied) {
		t.Errorf("got %v, want %v", err, proc.ErrDied)
	}
}

func TestListen(t *testing.T) {
	for in, want := range map[string]string{"": "", "1\n2\n": "", "1\n2": "", "1\nx\n": "reading a command"} {
		ctx, over := context.WithCancel(t.Context())
		p := proc.Listen[int, int](ctx, over, strings.NewReader(in), io.Discard)
		n := 0
		for c := range p.Commands {
			n++
			if c != n {
				t.Errorf("%q: command %d is %d", in, n, c)
			}
		}
		<-ctx.Done()
		if n != len(strings.Fields(strings.ReplaceAll(in, "x", ""))) || p.Next(ctx) != 0 {
			t.Errorf("%q: %d commands", in, n)
		}
		if err := p.Err(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", in, err, want)
		}
	}
}
