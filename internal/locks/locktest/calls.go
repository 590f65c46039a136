package locktest

import (
	"errors"
	"testing"
	"time"
)

// These functions call a Mutex outside of a World, in the context of the test.

// TryLock reports whether the lock was free. An error fails the test.
func TryLock(t testing.TB, m Mutex) bool {
	t.Helper()
	ok, err := m.TryLock(t.Context())
	if err != nil {
		t.Error("TryLock:", err)
	}
	return ok
}

// MustTryLock takes the lock, which must be free.
func MustTryLock(t testing.TB, m Mutex) {
	t.Helper()
	if !TryLock(t, m) {
		t.Fatal("the lock is held, want it free")
	}
}

// MustNotLock expects that another holder has the lock.
func MustNotLock(t testing.TB, m Mutex) {
	t.Helper()
	if TryLock(t, m) {
		t.Fatal("the lock is free, want it held")
	}
}

// Unlock releases the lock. An error fails the test.
func Unlock(t testing.TB, m Mutex) {
	t.Helper()
	if err := m.Unlock(t.Context()); err != nil {
		t.Error("Unlock:", err)
	}
}

// MustNotHold expects that there is nothing to release, and that Unlock says so with the error
// notHeld.
func MustNotHold(t testing.TB, m Mutex, notHeld error) {
	t.Helper()
	if err := m.Unlock(t.Context()); !errors.Is(err, notHeld) {
		t.Errorf("Unlock = %v; want %v", err, notHeld)
	}
}

// InTime fails the test if the call takes longer than limit.
func InTime(t testing.TB, limit time.Duration, call func()) {
	t.Helper()
	start := time.Now()
	call()
	if took := time.Since(start); took > limit {
		t.Errorf("it took %v; want %v at most", took, limit)
	}
}
