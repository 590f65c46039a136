//go:build !unix

package contend

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
)

// shared says that what one process writes on a board the other reads at once.
// Here the board goes through its file when the row is over, and what a process
// that was killed had written is lost.
const shared = false

func mapBoard(_ *os.File, size int) (*board, error) {
	return &board{words: make([]int64, size/8), close: func() error { return nil }}, nil
}

// flush writes the board to its file, for the other process.
func (b *board) flush(path string) error {
	var out bytes.Buffer
	for i := range b.words {
		_ = binary.Write(&out, binary.LittleEndian, b.get(i)) // a Buffer takes all
	}
	if err := os.WriteFile(path, out.Bytes(), 0o600); err != nil {
		return fmt.Errorf("writing the board: %w", err)
	}
	return nil
}

// fetch reads what the other process has flushed.
func (b *board) fetch(path string) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("reading the board: %w", err)
	}
	if err := binary.Read(bytes.NewReader(raw), binary.LittleEndian, b.words); err != nil {
		return fmt.Errorf("reading the board: %w", err)
	}
	return nil
}
