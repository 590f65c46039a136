//go:build !unix

package fleet

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
)

// LiveWords says whether other processes see a write immediately. On this operating
// system they see it after Flush and Fetch, and writes that a killed process has not
// flushed are lost.
const LiveWords = false

func mapWords(_ *os.File, n int) ([]int64, func() error, error) {
	return make([]int64, n), func() error { return nil }, nil
}

// Flush writes all words to the file.
func (w *Words) Flush() error {
	var out bytes.Buffer
	for i := range w.words {
		_ = binary.Write(&out, binary.LittleEndian, w.Load(i)) // writing to a Buffer does not fail
	}
	if err := os.WriteFile(w.Path, out.Bytes(), 0o600); err != nil {
		return fmt.Errorf("writing shared memory: %w", err)
	}
	return nil
}

// Fetch reads the words that another process has flushed. The words must not be used during the call.
func (w *Words) Fetch() error {
	raw, err := os.ReadFile(w.Path)
	if err != nil {
		return fmt.Errorf("reading shared memory: %w", err)
	}
	if err := binary.Read(bytes.NewReader(raw), binary.LittleEndian, w.words); err != nil {
		return fmt.Errorf("reading shared memory: %w", err)
	}
	return nil
}
