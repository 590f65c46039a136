package fleet_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"oversell/internal/fleet"
)

// After Flush on one side and Fetch on the other, the other side reads the written words.
func TestTwoSeeTheSameWords(t *testing.T) {
	path := filepath.Join(t.TempDir(), "words")
	mine, err := fleet.CreateWords(path, 3)
	if err != nil {
		t.Fatal(err)
	}
	defer mine.Close()
	theirs, err := fleet.OpenWords(path, 3)
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
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
}

func TestOnlyWhatWasMadeIsOpened(t *testing.T) {
	path := filepath.Join(t.TempDir(), "words")
	if _, err := fleet.OpenWords(path, 1); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("before it is made: %v", err)
	}
	words, err := fleet.CreateWords(path, 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fleet.CreateWords(path, 1); !errors.Is(err, fs.ErrExist) {
		t.Errorf("made twice: %v", err)
	}
	if _, err := fleet.OpenWords(path, 2); err == nil {
		t.Error("more words than there are were opened")
	}
	if err := errors.Join(words.Remove(), words.Close()); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after Remove: %v", err)
	}
}
