package cache

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

const stay = 10 * time.Second

// wantKeys checks how many keys may leave something in Redis.
func wantKeys(t *testing.T, m *misses, want int) {
	t.Helper()
	if len(m.keys) != want || len(m.ended) > want {
		t.Errorf("%d keys, %d of them to be forgotten; want %d keys", len(m.keys), len(m.ended), want)
	}
}

func TestMissesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMisses(3, stay)
		for i := range 100 {
			entered := m.enter(fmt.Sprint("key-", i))
			if entered != (i < 3) {
				t.Errorf("key %d may leave something: %v", i, entered)
			}
			if entered {
				m.leave(fmt.Sprint("key-", i), false)
			}
		}
		wantKeys(t, m, 3)
		time.Sleep(stay - 1)
		if m.enter("late") {
			t.Error("one more key came before the first was forgotten")
		}
		time.Sleep(time.Nanosecond)
		if !m.enter("late") {
			t.Error("no key came after the first were forgotten")
		}
		wantKeys(t, m, 1)
	})
}

// A key counts once, as long as it has readers. A crowd that reads an existing value counts
// as one key, and not at all afterwards.
func TestMissesCountKeysAndNotReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMisses(2, stay)
		for range 1000 {
			if !m.enter("hot") {
				t.Fatal("a reader of a key that counts already was refused")
			}
		}
		wantKeys(t, m, 1)
		time.Sleep(3 * stay)
		if !m.enter("cold") || m.enter("other") {
			t.Error("a key that is being read does not count")
		}
		for range 1000 {
			m.leave("hot", true)
		}
		m.leave("cold", false)
		wantKeys(t, m, 1)
	})
}

// A key that is read again and again counts for longer, and does not keep others.
func TestMissThatIsReadAgainStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMisses(10, stay)
		again := func() {
			if !m.enter("again") {
				t.Error("a key that counts was refused")
			}
			m.leave("again", false)
		}
		again()
		for i := range 9 {
			m.enter(fmt.Sprint("key-", i))
			m.leave(fmt.Sprint("key-", i), false)
		}
		time.Sleep(stay / 2)
		again()
		m.enter("key-0")
		m.leave("key-0", true) // it exists now, and its marker is still there
		wantKeys(t, m, 10)
		time.Sleep(stay / 2)
		again()
		wantKeys(t, m, 1)
		time.Sleep(2 * stay)
		again()
		wantKeys(t, m, 1)
	})
}
