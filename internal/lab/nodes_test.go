package lab

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"oversell/internal/lab/wire"
	"oversell/internal/locks/redlock"
)

// onNodes runs f in a world of redlock's, in virtual time.
func onNodes(t *testing.T, f func(t *testing.T, w *World)) {
	t.Helper()
	c := subject(t, "redlock")
	err := InVirtualTime(func() {
		s := inMemoryFor(c)
		defer s.close()
		w := newWorld(context.Background(), s, c, 3*time.Second)
		defer w.close()
		f(t, w)
	})
	if err != nil {
		t.Error(err)
	}
}

// A fault meets the process at every node, and its commands say which it was.
func TestFaultsMeetEveryNode(t *testing.T) {
	onNodes(t, func(t *testing.T, w *World) {
		p := w.Start("A")
		p.Inject(func(cmd wire.Command) bool { return cmd.Is("SET") }, 1, "", drop)
		if ok, err := p.Holder().Ask(); ok || !errors.Is(err, redlock.ErrNoQuorum) {
			t.Errorf("%v, %v; want %v", ok, err, redlock.ErrNoQuorum)
		}
		w.Settle() // three that failed are enough for the answer
		dropped := make(map[string]bool)
		for _, e := range w.trace.events() {
			if node, _, ok := strings.Cut(e.Text, ": SET "); ok && strings.Contains(e.Reply, errDropped.Error()) {
				dropped[node] = true
			}
		}
		if len(dropped) != nodesInMemory || !dropped["node 0"] || !dropped["node 4"] {
			t.Errorf("dropped on the way to %v; want all of %d nodes", dropped, nodesInMemory)
		}
		p.Cut()
		if ok, err := p.Holder().Ask(); ok || err == nil {
			t.Errorf("cut off: %v, %v", ok, err)
		}
		p.Restore()
		p.Holder().MustLock()
		if n := p.Asked(); n > 5 {
			t.Errorf("%d commands to one node", n)
		}
	})
}

// The lock is whose most nodes have it, and no longer than most of them do.
func TestLockIsWithTheMajority(t *testing.T) {
	a := func(left time.Duration) lockState { return lockState{held: true, value: "a", left: left} }
	b := lockState{held: true, value: "b", left: 9}
	for name, tt := range map[string]struct {
		seen []lockState
		want lockState
	}{
		"one server":      {[]lockState{a(3)}, a(3)},
		"one without":     {[]lockState{{}}, lockState{}},
		"three of five":   {[]lockState{a(1), b, a(2), {}, a(3)}, a(1)},
		"all, the third":  {[]lockState{a(5), a(4), a(3), a(2), a(1)}, a(3)},
		"no end on three": {[]lockState{a(-1), a(-1), a(-1), a(2), a(1)}, a(-1)},
		"two of five":     {[]lockState{a(1), b, a(2), b, {}}, lockState{}},
		"split":           {[]lockState{a(1), b}, lockState{}},
	} {
		if got := byMajority(tt.seen); got != tt.want {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}
