package lockservers

import (
	"context"
	"errors"
	"testing"
	"time"

	"oversell/internal/backend"
	"oversell/internal/backend/backendtest"
	"oversell/internal/catalog"
	"oversell/internal/guard"
	"oversell/internal/locks/redlock"
)

// clients returns the connections of a new process, which are closed at the end of the test.
func clients(t *testing.T, l *Servers) *Clients {
	t.Helper()
	c, err := l.Dial(t.Context(), time.Minute)
	backendtest.Must(t, err)
	backendtest.CloseAfter(t, c)
	return c
}

// sells runs a section under the lock of a strategy and returns its error. It tries again if the nodes of
// redlock do not answer within their 50 ms, so that the test does not fail because the machine is busy.
func sells(t *testing.T, c *Clients, name string) error {
	t.Helper()
	o := c.Add(catalog.Options{TTL: time.Minute, Policy: guard.Fixed{Delay: time.Millisecond}})
	list := catalog.Strategies().With(o)
	s, err := list.Find(name)
	backendtest.Must(t, err)
	wait, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	nothing := func(context.Context) error { return nil }
	for {
		_, err := s.NewGuard(o).Do(wait, guard.Entry{Key: "one", Owner: t.Name()}, nothing)
		if !errors.Is(err, redlock.ErrNoQuorum) {
			return err
		}
	}
}

// If a private etcd has failed, its strategy immediately reports the cause.
func TestServerThatFailedSinceIsTold(t *testing.T) {
	backendtest.System(t)
	broken := make(chan struct{})
	cause := errors.New("no more files")
	l := &Servers{late: map[catalog.Need]bool{catalog.NeedsEtcd: true}, of: map[catalog.Need]*onDemand[*server]{
		catalog.NeedsEtcd: newOnDemand(func(ctx context.Context) (*server, error) {
			s, err := Specs{Etcd: "local"}.serve(ctx, catalog.NeedsEtcd)
			if err != nil {
				return nil, err
			}
			s.ended = func() error {
				select {
				case <-broken:
					return cause
				default:
					return nil
				}
			}
			return s, nil
		}),
	}}
	defer func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}()
	c := clients(t, l)
	defer c.Close()
	if l.of[catalog.NeedsEtcd].last != nil {
		t.Error("it is started before it is used")
	}
	backendtest.Must(t, sells(t, c, "etcd"))
	close(broken)
	if err := sells(t, c, "etcd"); !errors.Is(err, cause) {
		t.Errorf("got %v; want %v", err, cause)
	}
	if _, _, err := l.Open(t.Context(), catalog.NeedsEtcd); !errors.Is(err, cause) {
		t.Errorf("Open: got %v; want %v", err, cause)
	}
}

// New fails if the user's own servers cannot be reached, or if a server that would be started later is not
// installed.
func TestWhatCannotBeHadIsToldAtOnce(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv("ZOOKEEPER_HOME", "")
	for _, tt := range []struct {
		specs Specs
		need  catalog.Need
		is    error
	}{
		{Specs{Redlock: "127.0.0.1:1,127.0.0.1:2,127.0.0.1:3"}, catalog.NeedsNodes, backend.ErrUnreachable},
		{Specs{Redlock: "local"}, catalog.NeedsNodes, backend.ErrMissing},
		{Specs{Etcd: "local"}, catalog.NeedsEtcd, backend.ErrMissing},
		{Specs{ZooKeeper: "local"}, catalog.NeedsZooKeeper, backend.ErrMissing},
	} {
		if _, err := New(t.Context(), tt.specs, tt.need); !errors.Is(err, tt.is) {
			t.Errorf("%+v: got %v, want %v", tt.specs, err, tt.is)
		}
	}
}
