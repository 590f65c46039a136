package guard

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"
)

// KeyedMutex is a FIFO mutex for each key: the goroutines of a process get it one at a time, in
// order of arrival. The zero value is ready to use. KeyedMutex is safe for concurrent use.
type KeyedMutex struct {
	mu   sync.Mutex
	keys map[string]*keyEntry
}

// keyEntry is the mutex of one key. It is deleted when nobody holds it or waits for it.
type keyEntry struct {
	held  *semaphore.Weighted
	users int // the holder and the waiters
}

// KeyHold is one caller's hold of the mutex of a key.
type KeyHold struct {
	mutex *KeyedMutex
	key   string
	entry *keyEntry
}

// Lock waits for the mutex of the key. If ctx ends first, Lock returns the cause.
func (m *KeyedMutex) Lock(ctx context.Context, key string) (*KeyHold, error) {
	h := m.join(key)
	if h.entry.held.Acquire(ctx, 1) != nil {
		h.leave()
		return nil, context.Cause(ctx)
	}
	return h, nil
}

// TryLock locks the mutex of the key if it is free. If it is not, TryLock returns nil.
func (m *KeyedMutex) TryLock(key string) *KeyHold {
	h := m.join(key)
	if !h.entry.held.TryAcquire(1) {
		h.leave()
		return nil
	}
	return h
}

// Key returns the key of the mutex.
func (h *KeyHold) Key() string { return h.key }

// Unlock hands the mutex to the first waiter. It must be called exactly once.
func (h *KeyHold) Unlock() {
	h.entry.held.Release(1)
	h.leave()
}

func (m *KeyedMutex) join(key string) *KeyHold {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.keys == nil {
		m.keys = make(map[string]*keyEntry)
	}
	e := m.keys[key]
	if e == nil {
		e = &keyEntry{held: semaphore.NewWeighted(1)}
		m.keys[key] = e
	}
	e.users++
	return &KeyHold{m, key, e}
}

func (h *KeyHold) leave() {
	h.mutex.mu.Lock()
	defer h.mutex.mu.Unlock()
	if h.entry.users--; h.entry.users == 0 {
		delete(h.mutex.keys, h.key)
	}
}
