package proc

import (
	"fmt"
	"os"
	"sync/atomic"
)

// Words are memory that processes on one machine share through a file: 64-bit words,
// all zero at first, each of which is read and written as a whole. What a process has
// written is not lost when it is killed, and can be read while it is stopped. Words
// are safe for concurrent use, by goroutines and by processes.
type Words struct {
	path    string
	words   []int64
	release func() error
}

// wordSize is in bytes.
const wordSize = 8

// CreateWords makes the file at path, which must not exist, with n words.
func CreateWords(path string, n int) (w *Words, err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fmt.Errorf("making shared memory: %w", err)
	}
	defer func() {
		_ = f.Close() // what is mapped stays so
		if err != nil {
			_ = os.Remove(path)
		}
	}()
	// A file that is merely said to be so long takes its room on the disk when it
	// is used, and that there is none is a crash then.
	if _, err := f.Write(make([]byte, n*wordSize)); err != nil {
		return nil, fmt.Errorf("making shared memory: %w", err)
	}
	return newWords(f, n)
}

// OpenWords opens the n words that CreateWords made, in another process.
func OpenWords(path string, n int) (*Words, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("opening shared memory: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("opening shared memory: %w", err)
	}
	// What lies beyond the end of a mapped file cannot be read without a crash.
	if want := int64(n) * wordSize; info.Size() != want {
		return nil, fmt.Errorf("opening shared memory: %s has %d bytes, not %d", path, info.Size(), want)
	}
	return newWords(f, n)
}

func newWords(f *os.File, n int) (*Words, error) {
	words, release, err := mapWords(f, n)
	if err != nil {
		return nil, fmt.Errorf("mapping shared memory: %w", err)
	}
	return &Words{path: f.Name(), words: words, release: release}, nil
}

// Load returns a word.
func (w *Words) Load(i int) int64 { return atomic.LoadInt64(&w.words[i]) }

// Store sets a word.
func (w *Words) Store(i int, v int64) { atomic.StoreInt64(&w.words[i], v) }

// Add adds to a word, and returns what it is then.
func (w *Words) Add(i int, d int64) int64 { return atomic.AddInt64(&w.words[i], d) }

// CompareAndSwap sets a word if it is what it is thought to be.
func (w *Words) CompareAndSwap(i int, from, to int64) bool {
	return atomic.CompareAndSwapInt64(&w.words[i], from, to)
}

// Close gives the memory back in this process, which must not use it any more.
// The file stays.
func (w *Words) Close() error {
	if err := w.release(); err != nil {
		return fmt.Errorf("closing shared memory: %w", err)
	}
	return nil
}

// Remove removes the file. Where the memory is LiveWords, those who have opened it
// keep it.
func (w *Words) Remove() error {
	if err := os.Remove(w.path); err != nil {
		return fmt.Errorf("removing shared memory: %w", err)
	}
	return nil
}
