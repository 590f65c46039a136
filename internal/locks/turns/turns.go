// Package turns lets the goroutines of a process come to a lock one by one, first
// come, first served, so that its servers see one of them at a time.
package turns

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"
)

// Lines has a line for each key. The zero value is ready, and safe for concurrent
// use.
type Lines struct {
	mu    sync.Mutex
	lines map[string]*line
}

// line is those who have the turn for a key or want it. It is forgotten when
// nobody does.
type line struct {
	turn  *semaphore.Weighted
	users int
}

// Turn is one caller's turn.
type Turn struct {
	of   *Lines
	key  string
	line *line
}

// Wait returns when it is the caller's turn, or the cause of ctx when that ends.
func (s *Lines) Wait(ctx context.Context, key string) (*Turn, error) {
	t := s.join(key)
	if err := t.line.turn.Acquire(ctx, 1); err != nil {
		t.quit()
		return nil, context.Cause(ctx)
	}
	return t, nil
}

// Try returns nil unless it is the caller's turn at once.
func (s *Lines) Try(key string) *Turn {
	t := s.join(key)
	if !t.line.turn.TryAcquire(1) {
		t.quit()
		return nil
	}
	return t
}

// Key returns what the turn is for.
func (t *Turn) Key() string { return t.key }

// Pass ends the turn. It must be called once.
func (t *Turn) Pass() {
	t.line.turn.Release(1)
	t.quit()
}

// Keys is how many keys somebody has the turn for, or wants it.
func (s *Lines) Keys() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.lines)
}

// Users is how many have the turn for the key or want it.
func (s *Lines) Users(key string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.lines[key]; l != nil {
		return l.users
	}
	return 0
}

func (s *Lines) join(key string) *Turn {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lines == nil {
		s.lines = make(map[string]*line)
	}
	l := s.lines[key]
	if l == nil {
		l = &line{turn: semaphore.NewWeighted(1)}
		s.lines[key] = l
	}
	l.users++
	return &Turn{s, key, l}
}

func (t *Turn) quit() {
	t.of.mu.Lock()
	defer t.of.mu.Unlock()
	if t.line.users--; t.line.users == 0 {
		delete(t.of.lines, t.key)
	}
}
