package fleet_test

import (
	"errors"
	"io/fs"
	"os"
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
