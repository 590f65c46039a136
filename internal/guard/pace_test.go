package guard_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"oversell/internal/guard"
)

func TestBatchSizeFollowsTheDatabase(t *testing.T) {
	p := guard.NewBatchSize(512)
	for range 10 {
		p.Wrote(p.Size(), time.Duration(p.Size())*10*time.Microsecond)
	}
	if n := p.Size(); n != 512 {
		t.Errorf("%d orders in a statement while each takes 10µs, want 512", n)
	}
	p.Wrote(512, 512*50*time.Millisecond)
	if n := p.Size(); n != 10 {
		t.Errorf("%d orders in a statement while each takes 50ms, want 10: half a second's", n)
	}
	p.Wrote(10, 10*time.Second)
	if n := p.Size(); n != 1 {
		t.Errorf("%d orders in a statement while one takes a second, want 1", n)
	}
	for range 10 {
		p.Wrote(p.Size(), time.Millisecond)
	}
	if n := p.Size(); n != 512 {
		t.Errorf("%d orders in a statement when the database is fast again, want 512", n)
	}
	p.Wrote(1, time.Second)
	p.Wrote(0, 0) // an empty batch
	if n := guard.NewBatchSize(4).Size(); n != 4 {
		t.Errorf("%d orders in the first statement, want no more than allowed", n)
	}
}

func TestOneLineASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l guard.LogLimit
		var out strings.Builder
		log := slog.New(slog.NewTextHandler(&out, nil))
		for range 2500 {
			l.Log(log, slog.LevelWarn, "late")
			time.Sleep(time.Millisecond)
		}
		if lines := strings.Count(out.String(), "\n"); lines != 3 || strings.Count(out.String(), "_before=999\n") != 2 {
			t.Errorf("the log of 2.5 s is %s; want 3 lines, and 999 skipped before the last two", out.String())
		}
	})
}

// Wake runs one step. If it is called during a step, one more step follows.
func TestWakeDoesOneStep(t *testing.T) {
	for _, during := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			steps := 0
			var b *guard.Background
			b = &guard.Background{Context: t.Context(), Step: func(context.Context) bool {
				if steps++; steps == 1 && during {
					b.Wake()
				}
				return false
			}}
			b.Wake()
			synctest.Wait()
			if want := map[bool]int{false: 1, true: 2}[during]; steps != want || !b.Idle() {
				t.Errorf("woken during a step: %v: %d steps, want %d", during, steps, want)
			}
		})
	}
}
