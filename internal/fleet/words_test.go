package fleet_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"testing"

	"oversell/internal/fleet"
)

// After Flush on one side and Fetch on the other, the other side reads the written words.
func TestTwoSeeTheSameWords(t *testing.T) {
	mine, err := fleet.CreateWords(t.TempDir(), 3)
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := fleet.OpenWords(mine.Path)
	if err != nil {
		t.Fatal(err)
	}
	mine.Store(0, -7)
	mine.Add(2, 40)
	mine.Add(2, 2)
	mine.Store(1, 5)
	if err := errors.Join(mine.Flush(), theirs.Fetch()); err != nil {
		t.Fatal(err)
	}
	for i, want := range []int64{-7, 5, 42} {
		if got := theirs.Load(i); got != want {
			t.Errorf("word %d is %d; want %d", i, got, want)
		}
	}
	if err := errors.Join(mine.Remove(), mine.Close(), theirs.Close()); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(mine.Path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after Remove: %v", err)
	}
}

// A process whose start is interrupted leaves no file behind.
func TestInterruptedStartLeavesNoFile(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	silent := func() (*exec.Cmd, error) { return command("stubborn"), nil } // it sends no event
	f := fleet.New(func(int) (fleet.Program, error) {
		return fleet.Program{Name: "silent", Words: 1, Command: silent}, nil
	})
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	if _, err := f.Add(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("the process started: %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
