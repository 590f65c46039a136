package netfault

import (
	"bytes"
	"testing"
	"time"
)

func TestQueueKeepsOrderAndHasRoomForSoMuch(t *testing.T) {
	q := newQueue()
	const chunk, chunks = 1 << 16, 3 * maxHeld >> 16
	all := make(chan struct{})
	go func() {
		defer close(all)
		defer q.end()
		for i := range chunks {
			q.add(bytes.Repeat([]byte{byte(i)}, chunk))
		}
	}()
	select {
	case <-all:
		t.Fatal("there is room for everything")
	case <-time.After(aWhile):
	}
	var got []byte
	for said, more := q.take(nil); more; said, more = q.take(said) {
		if len(said) > maxHeld {
			t.Fatalf("%d bytes were held, want at most %d", len(said), maxHeld)
		}
		got = append(got, said...)
	}
	if len(got) != chunk*chunks {
		t.Fatalf("took %d bytes of %d", len(got), chunk*chunks)
	}
	for i, b := range got {
		if b != byte(i/chunk) {
			t.Fatalf("byte %d is of chunk %d", i, b)
		}
	}
}
