package guard

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// oneLock is the state that all fake locks of a test share. At most one of them is held.
type oneLock struct {
	mu       sync.Mutex
	held     bool
	asked    int
	released int
	freeErr  error
}

// fakeLock is one holder's handle on a oneLock.
type fakeLock struct{ *oneLock }

func (l fakeLock) TryLock(context.Context) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked++
	if l.held {
		return false, nil
	}
	l.held = true
	return true, nil
}

func (l fakeLock) Unlock(context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held = false
	l.released++
	return l.freeErr
}

func (l *oneLock) isHeld() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held
}

func (l *oneLock) timesAsked() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.asked
}

// guard returns a guard that uses l and waits according to policy.
func (l *oneLock) guard(policy Policy) Guard {
	return &Distributed{New: func(string) Lock { return fakeLock{l} }, Policy: policy, NotHeld: errGone}
}

var (
	errGone = errors.New("the lease was gone")
	errLate = errors.New("too late")
)

// entry is the Entry that callers in the tests use.
var entry = Entry{Key: "k", Owner: "o"}

// inside counts the callers that are in a section at the same time.
type inside struct {
	mu        sync.Mutex
	now, most int
	done      int
	stay      time.Duration
	entries   []int
}

// section returns the section of the caller with this id.
func (i *inside) section(id int) func(context.Context) error {
	return func(context.Context) error {
		i.mu.Lock()
		i.now++
		i.most = max(i.most, i.now)
		i.entries = append(i.entries, id)
		i.mu.Unlock()
		time.Sleep(i.stay)
		i.mu.Lock()
		i.now--
		i.done++
		i.mu.Unlock()
		return nil
	}
}
