// Package leasetest helps to test the locks on etcd and ZooKeeper with real servers and in real time. It
// provides the servers, and an unreliable network between them and their clients.
package leasetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"oversell/internal/locks/lease"
)

// Calm is a ttl that is longer than any test with a healthy server.
const Calm = 20 * time.Second

// ErrEnough is the cause that a test uses to end a wait.
var ErrEnough = errors.New("waited long enough")

// Network is the network between a process and the server: a fault.Relay, or its equivalent in
// memory.
type Network interface {
	Hole()    // silently drops all messages
	Cut()     // breaks all connections, and refuses new ones
	Restore() // ends the failure
}

// Failures returns the ways in which a network can fail, by name.
func Failures() map[string]func(Network) {
	return map[string]func(Network){"hole": Network.Hole, "cut": Network.Cut}
}

// Wait waits for the lock, and reports whether m acquires it within Calm. If not, Wait marks the
// test as failed.
func Wait(t *testing.T, m *lease.Mutex) bool {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), Calm, ErrEnough)
	defer cancel()
	if err := m.Lock(ctx); err != nil {
		t.Error("Lock:", err)
		return false
	}
	return true
}

// MustLock acquires the lock. If that takes longer than Calm, the test fails and ends.
func MustLock(t *testing.T, m *lease.Mutex) {
	t.Helper()
	if !Wait(t, m) {
		t.FailNow()
	}
}
