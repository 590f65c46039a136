package lab

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// inWorld runs f in a new world, in virtual time.
func inWorld(t *testing.T, f func(t *testing.T, w *World)) {
	t.Helper()
	inWorldOf(t, "v2_ttl", f)
}

// inWorldOf runs f in a new world with the lock of the strategy.
func inWorldOf(t *testing.T, strategy string, f func(t *testing.T, w *World)) {
	t.Helper()
	c := subject(t, strategy)
	err := InVirtualTime(func() {
		s := inMemoryFor(c)
		defer s.close()
		w := newWorld(context.Background(), s, c, 3*time.Second)
		defer w.close()
		f(t, w)
	})
	if err != nil {
		t.Error(err)
	}
}

// A holder in a cell keeps the lock after Wait has returned, even if its library ends a hold together with
// the context of the wait.
func TestWaitIsNotTheHold(t *testing.T) {
	inWorldOf(t, "rueidislock", func(t *testing.T, w *World) {
		got := w.Start("A").Holder().Wait(2 * w.TTL)
		w.Sleep(w.TTL / 10)
		if held := w.LockHeld(); !got || !held {
			t.Errorf("got the lock: %v; has it after the wait: %v", got, held)
		}
	})
}

// The trace contains the server's replies about the lock, but no passwords.
func TestTraceShowsTheLock(t *testing.T) {
	inWorld(t, func(t *testing.T, w *World) {
		h := w.Start("A").Holder()
		h.MustLock()
		w.Sleep(time.Second)
		_ = h.p.rdb.Get(w.ctx, w.StockKey()).Err()
		_ = h.Unlock()
		var commands []Event
		for _, e := range w.trace.events() {
			if e.Kind == Command {
				commands = append(commands, e)
			}
		}
		if len(commands) != 3 {
			t.Fatalf("%v", commands)
		}
		if e := commands[1]; e.At != 1000 || e.Lock != "A" || e.TTL == nil || *e.TTL != 2000 || e.Reply != "nil" {
			t.Errorf("%+v", e)
		}
		if e := commands[2]; e.Lock != "free" || e.TTL != nil {
			t.Errorf("%+v", e)
		}
	})
}

// leavesNothing checks that a cell leaves no keys in Redis.
func leavesNothing(t *testing.T, subjects []Subject, scenarios []Scenario) {
	err := InVirtualTime(func() {
		s := inMemory()
		defer s.close()
		rdb := redis.NewClient(s.options(s.dial))
		defer rdb.Close()
		r := &run{cfg: Config{Subjects: subjects, Scenarios: scenarios}}
		for i := range len(subjects) * len(scenarios) {
			c, _ := r.cell(context.Background(), s, i, 3*time.Second, time.Hour)
			if keys := rdb.Keys(context.Background(), "*").Val(); len(keys) > 0 {
				t.Errorf("%s on %s leaves %q", c.Anomaly, c.Strategy, keys)
			}
		}
	})
	if err != nil {
		t.Error(err)
	}
}

func TestTraceIsBounded(t *testing.T) {
	tr := trace{start: time.Now()}
	for range maxTrace + 10 {
		tr.begin("A", "GET stock")
	}
	events := tr.events()
	if last := events[len(events)-1]; len(events) != maxTrace+1 || !last.LeftOut ||
		last.Text != "10 more commands, not shown" {
		t.Errorf("%d events, the last is %+v", len(events), last)
	}
}

// What waits in a frozen process goes on when it thaws, even if the process was frozen twice.
func TestFrozenTwice(t *testing.T) {
	inWorld(t, func(t *testing.T, w *World) {
		p := w.Start("A")
		p.Freeze()
		sent := w.Go(func() { _ = p.rdb.Get(w.ctx, w.StockKey()).Err() })
		w.Settle()
		p.Freeze()
		p.Thaw()
		if !w.Await(sent, w.TTL) {
			t.Error("a command that was sent before the second freeze still waits")
		}
	})
}
