package locktest

import (
	"context"
	"net"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// A Server is a Redis in memory.
type Server struct {
	*miniredis.Miniredis

	Client *redis.Client
	Hook   *Hook // of Client
}

// NewServer starts a Redis whose keys expire as time passes. Inside a testing/synctest bubble,
// time.Sleep moves the clocks of Redis and its clients together, and takes no real time. Close the
// server before the bubble ends.
func NewServer() *Server {
	s := &Server{Miniredis: miniredis.NewMiniRedis()} // the first Dial starts the server
	s.ClockTTL(true)
	s.Client, s.Hook = s.NewClient()
	return s
}

// NewClient returns another client of the server, as if for another process, and the client's own
// hook. The caller must close the client.
func (s *Server) NewClient() (*redis.Client, *Hook) {
	rdb := redis.NewClient(&redis.Options{
		// Connections are in memory, by net.Pipe. The address is not dialled, but must be an IP: a
		// name would be looked up outside of the bubble.
		Addr:   "127.0.0.1:0",
		Dialer: func(context.Context, string, string) (net.Conn, error) { return s.Dial() },

		// The pool is so large that no caller waits for a connection, because the timers for such
		// waits are reused across bubbles.
		PoolSize: 64,

		// A lock needs a client that observes deadlines, and does not repeat a command whose reply was lost.
		ContextTimeoutEnabled: true,
		MaxRetries:            -1,

		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	hook := new(Hook)
	rdb.AddHook(hook)
	return rdb, hook
}

// Close closes the server and its Client. Clients from NewClient stay open.
func (s *Server) Close() error {
	err := s.Client.Close()
	s.Miniredis.Close()
	return err
}

// Start starts a server for the duration of the test, like NewServer. In a bubble, t must be
// the bubble's.
func Start(t testing.TB) *Server {
	t.Helper()
	s := NewServer()
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}
