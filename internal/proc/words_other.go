//go:build !unix

package proc

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
)

// LiveWords says that what one process writes the others read at once. Here it goes
// through the file when it is flushed, and what a process that was killed had
// written is lost.
const LiveWords = false

func mapWords(_ *os.File, n int) ([]int64, func() error, error) {
	return make([]int64, n), func() error { return nil }, nil
}

// Flush writes all words to the file, for the other processes.
func (w *Words) Flush() error {
	var out bytes.Buffer
	for i := range w.words {
		_ = binary.Write(&out, binary.LittleEndian, w.Load(i)) // a Buffer takes all
	}
	if err := os.WriteFile(w.path, out.Bytes(), 0o600); err != nil {
		return fmt.Errorf("writing shared memory: %w", err)
	}
	return nil
}

// Fetch reads what another process has flushed. Nobody may use the words
// meanwhile.
func (w *Words) Fetch() error {
	raw, err := os.ReadFile(w.path)
	if err != nil {
		return fmt.Errorf("reading shared memory: %w", err)
	}
	if err := binary.Read(bytes.NewReader(raw), binary.LittleEndian, w.words); err != nil {
		return fmt.Errorf("reading shared memory: %w", err)
	}
	return nil
}
