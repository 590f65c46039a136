package wire_test

import (
	"errors"
	"io"
	"testing"
	"time"

	"oversell/internal/lab/wire"
)

// That the other end is closed is told by the read, as EOF, whether a deadline was set before or
// after it was closed.
func TestPipeTellsItsEndByTheRead(t *testing.T) {
	for _, deadlineFirst := range []bool{true, false} {
		mine, theirs := wire.Pipe()
		set := func() {
			if err := mine.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
				t.Errorf("deadline first %v: %v", deadlineFirst, err)
			}
		}
		if deadlineFirst {
			set()
		}
		theirs.Close()
		if !deadlineFirst {
			set()
		}
		if _, err := mine.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("deadline first %v: the read says %v, want EOF", deadlineFirst, err)
		}
		mine.Close()
	}
}
