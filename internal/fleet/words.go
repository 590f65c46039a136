package fleet

import (
	"fmt"
	"os"
	"sync/atomic"
)

// Words are 64-bit words of memory that processes on one machine share through a file. They
// begin as zero and are accessed atomically. The values that a process has written survive
// if the process is killed, and can be read while it is stopped. Words are safe for
// concurrent use by goroutines and processes.
type Words struct {
	Path string // of the file

	words   []int64
	release func() error
}

// wordSize is the size of a word in bytes.
const wordSize = 8

// CreateWords creates a file with n words in dir, or in the default folder for temporary files if
// dir is "".
func CreateWords(dir string, n int) (w *Words, err error) {
	f, err := os.CreateTemp(dir, "oversell-words-")
	if err != nil {
		return nil, fmt.Errorf("making shared memory: %w", err)
	}
	defer func() {
		_ = f.Close() // the memory stays mapped
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	// A sparse file would get disk space only when it is used, and a full disk would
	// then crash the process.
	if _, err := f.Write(make([]byte, n*wordSize)); err != nil {
		return nil, fmt.Errorf("making shared memory: %w", err)
	}
	return newWords(f)
}

// OpenWords opens the words that CreateWords created in another process.
func OpenWords(path string) (*Words, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("opening shared memory: %w", err)
	}
	defer f.Close()
	return newWords(f)
}

func newWords(f *os.File) (*Words, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("mapping shared memory: %w", err)
	}
	words, release, err := mapWords(f, int(info.Size()/wordSize))
	if err != nil {
		return nil, fmt.Errorf("mapping shared memory: %w", err)
	}
	return &Words{Path: f.Name(), words: words, release: release}, nil
}

// Load returns the i-th word.
func (w *Words) Load(i int) int64 { return atomic.LoadInt64(&w.words[i]) }

// Store sets the i-th word.
func (w *Words) Store(i int, v int64) { atomic.StoreInt64(&w.words[i], v) }

// Add adds d to the i-th word, and returns the result.
func (w *Words) Add(i int, d int64) int64 { return atomic.AddInt64(&w.words[i], d) }

// Close unmaps the memory in this process. It does not remove the file.
func (w *Words) Close() error {
	if err := w.release(); err != nil {
		return fmt.Errorf("closing shared memory: %w", err)
	}
	return nil
}

// Remove removes the file. If LiveWords is true, processes that have opened the file keep the memory.
func (w *Words) Remove() error {
	if err := os.Remove(w.Path); err != nil {
		return fmt.Errorf("removing shared memory: %w", err)
	}
	return nil
}
