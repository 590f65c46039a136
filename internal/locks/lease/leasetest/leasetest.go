// Package leasetest checks what the locks in etcd and in ZooKeeper promise alike. It runs on
// real servers, in real time; package locktest does the same for locks in Redis.
package leasetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"oversell/internal/fault"
	"oversell/internal/locks/locktest"
)

const (
	// Calm is a ttl longer than any test with a healthy server takes.
	Calm = 20 * time.Second

	// Slack is added to the time limit of a wait, because the machine may be busy.
	Slack = 6 * time.Second
)

// ErrEnough is the cause of the end of a wait.
var ErrEnough = errors.New("waited long enough")

// Mutex is the handle of one holder.
type Mutex interface {
	TryLock(ctx context.Context) (bool, error)
	Lock(ctx context.Context) error
	Unlock(ctx context.Context) error
	Context(parent context.Context) context.Context
	Token() int64
}

// Processes are processes that use one lock of the test's own.
type Processes struct {
	New    func(process int) Mutex // a new handle
	Other  func(process int) Mutex // a handle of another lock
	Places func() int              // how many places the lock's queue has on the server
	Leases func() int              // how many leases or sessions the server has; nil to trust it
}

// A Lock is what is checked.
type Lock struct {
	Start func(t *testing.T, processes int, ttl time.Duration) Processes
	// Apart starts process 0 behind a network that may fail, and process 1 beside it.
	Apart   func(t *testing.T, ttl time.Duration) (*fault.Relay, Processes)
	TTL     time.Duration // the shortest that the server allows
	Answer  time.Duration // the limit for an answer of the server
	NotHeld error         // the error of Unlock when there is nothing to release
	Lost    error         // the cause of the end of a lost hold
}

// Run checks each promise in a subtest.
func Run(t *testing.T, lock Lock) {
	t.Helper()
	for name, scenario := range map[string]func(t *testing.T, lock Lock){
		"one holder at a time":                            exclusive,
		"first come, first served among processes":        fifo,
		"a waiter that gives up leaves nothing behind":    givesUp,
		"a wait may end at any moment":                    endsAtAnyMoment,
		"a cancelled caller can still release the lock":   cancelled,
		"Unlock reports that there is nothing to release": nothingHeld,
		"TryLock does not wait, and leaves no place":      tryHeld,
		"work longer than the ttl keeps the lock":         longWork,
		"tokens grow, however the lock is acquired":       tokensGrow,
	} {
		t.Run(name, func(t *testing.T) { scenario(t, lock) })
	}
	for name, scenario := range map[string]func(t *testing.T, lock Lock, fail func(*fault.Relay)){
		"a short outage does no harm":              shortOutage,
		"a waiter is told when the server is away": serverAway,
	} {
		for failure, fail := range Failures() {
			t.Run(name+"/"+failure, func(t *testing.T) { scenario(t, lock, fail) })
		}
	}
	t.Run("Unlock is told when the server is away", func(t *testing.T) { unlockWhileAway(t, lock) })
	t.Run("a dead holder's lock is free after the ttl", func(t *testing.T) { deadHolder(t, lock) })
}

// Failures returns the ways in which the network fails: silently or not.
func Failures() map[string]func(*fault.Relay) {
	return map[string]func(*fault.Relay){"hole": (*fault.Relay).Hole, "cut": (*fault.Relay).Cut}
}

func exclusive(t *testing.T, l Lock) {
	ps := l.Start(t, 2, Calm)
	var witness locktest.Witness
	var wg sync.WaitGroup
	for p := range 2 {
		for i := range 4 {
			wg.Go(func() {
				who, m := fmt.Sprint("process ", p, " holder ", i), ps.New(p)
				for n := range 15 {
					if n%3 == 0 {
						for !TryLock(t, m) {
							if t.Failed() {
								return
							}
							time.Sleep(time.Millisecond)
						}
					} else if !Wait(t, m) {
						return
					}
					leave := witness.Enter(who)
					time.Sleep(100 * time.Microsecond)
					leave()
					Unlock(t, m)
				}
			})
		}
	}
	wg.Wait()
	for _, overlap := range witness.Overlaps() {
		t.Error(overlap)
	}
}

func fifo(t *testing.T, l Lock) {
	ps := l.Start(t, 4, Calm)
	inOrder(t, []Mutex{ps.New(0), ps.New(1), ps.New(2), ps.New(3)}, func(n int) {
		Eventually(t, "a place in the queue", func() bool { return ps.Places() == n+1 })
	})
}

// inOrder lets the first mutex hold the lock while the others arrive one by one; arrived waits
// until n of them wait. They must be served in order of arrival.
func inOrder(t *testing.T, mutexes []Mutex, arrived func(n int)) {
	t.Helper()
	MustLock(t, mutexes[0])
	served := make(chan int, len(mutexes))
	var wg sync.WaitGroup
	for n, m := range mutexes[1:] {
		wg.Go(func() {
			if Wait(t, m) {
				served <- n
				Unlock(t, m)
			}
		})
		arrived(n + 1)
	}
	Unlock(t, mutexes[0])
	wg.Wait()
	close(served)
	want := 0
	for n := range served {
		if n != want {
			t.Errorf("waiter %d goes in as number %d", n, want)
		}
		want++
	}
	if want != len(mutexes)-1 {
		t.Errorf("%d went in; want %d", want, len(mutexes)-1)
	}
}

func givesUp(t *testing.T, l Lock) {
	ps := l.Start(t, 2, Calm)
	a, b := ps.New(0), ps.New(1)
	MustLock(t, a)
	for range 3 {
		ctx, cancel := context.WithCancelCause(t.Context())
		failed := make(chan error, 1)
		go func() { failed <- b.Lock(ctx) }()
		Eventually(t, "b's place", func() bool { return ps.Places() == 2 })
		cancel(ErrEnough)
		if err := <-failed; !errors.Is(err, ErrEnough) {
			t.Errorf("Lock = %v; want %v", err, ErrEnough)
		}
		Eventually(t, "b's place gone", func() bool { return ps.Places() == 1 })
		l.mustNotHold(t, b)
	}
	Unlock(t, a)
	MustLock(t, b)
	Unlock(t, b)
	if n := ps.Places(); n > 0 {
		t.Errorf("%d places left behind", n)
	}
}

// A cancelled attempt may be cut off at any point.
func endsAtAnyMoment(t *testing.T, l Lock) {
	ps := l.Start(t, 2, Calm)
	for i := range 60 {
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Duration(i)*100*time.Microsecond, ErrEnough)
		m := ps.New(0)
		switch err := m.Lock(ctx); {
		case err == nil:
			Unlock(t, m)
		case !errors.Is(err, ErrEnough):
			t.Errorf("Lock = %v; want %v", err, ErrEnough)
		}
		cancel()
	}
	b := ps.New(1)
	InTime(t, Slack, func() { MustLock(t, b) }) // long before the ttl has run out
	Unlock(t, b)
	Eventually(t, "no places", func() bool { return ps.Places() == 0 })
	if ps.Leases != nil {
		Eventually(t, "one lease for each process at most", func() bool { return ps.Leases() <= 2 })
	}
}

func cancelled(t *testing.T, l Lock) {
	ps := l.Start(t, 2, Calm)
	a, b := ps.New(0), ps.New(1)
	ctx, cancel := context.WithCancel(t.Context())
	if err := a.Lock(ctx); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := a.Unlock(ctx); err != nil {
		t.Error("Unlock:", err)
	}
	if !TryLock(t, b) {
		t.Error("the lock is held, want it free")
	}
	Unlock(t, b)
}

func nothingHeld(t *testing.T, l Lock) {
	m := l.Start(t, 1, Calm).New(0)
	l.mustNotHold(t, m)
	if err := context.Cause(m.Context(t.Context())); !errors.Is(err, l.NotHeld) {
		t.Errorf("Context: %v; want %v", err, l.NotHeld)
	}
	MustLock(t, m)
	ctx := m.Context(t.Context())
	if ctx.Err() != nil || m.Token() == 0 {
		t.Errorf("held, with %v and token %d", ctx.Err(), m.Token())
	}
	Unlock(t, m)
	<-ctx.Done()
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("after Unlock: %v; want %v", err, context.Canceled)
	}
	l.mustNotHold(t, m)
}

func tryHeld(t *testing.T, l Lock) {
	ps := l.Start(t, 2, Calm)
	a, b, c := ps.New(0), ps.New(0), ps.New(1)
	MustLock(t, a)
	if TryLock(t, b) || TryLock(t, c) {
		t.Error("the lock is free, want it held")
	}
	if n := ps.Places(); n != 1 {
		t.Errorf("%d places; want the holder's", n)
	}
	Unlock(t, a)
	if !TryLock(t, c) {
		t.Error("the lock is held, want it free")
	}
	Unlock(t, c)
}

func longWork(t *testing.T, l Lock) {
	ps := l.Start(t, 2, l.TTL)
	a, b := ps.New(0), ps.New(1)
	MustLock(t, a)
	work := a.Context(t.Context())
	ctx, cancel := context.WithTimeoutCause(t.Context(), 3*l.TTL, ErrEnough)
	defer cancel()
	if err := b.Lock(ctx); !errors.Is(err, ErrEnough) {
		t.Errorf("Lock = %v; want %v", err, ErrEnough)
	}
	if work.Err() != nil {
		t.Errorf("the work was ended: %v", context.Cause(work))
	}
	Unlock(t, a)
}

func tokensGrow(t *testing.T, l Lock) {
	const processes = 3
	ps := l.Start(t, processes, Calm)
	var mu sync.Mutex // for the race detector, which cannot see synchronisation through a server
	var last int64
	grows := func(m Mutex) {
		mu.Lock()
		defer mu.Unlock()
		if token := m.Token(); token <= last {
			t.Errorf("token %d after %d", token, last)
		} else {
			last = token
		}
	}
	for i := range 12 {
		m := ps.New(i % processes)
		if i%2 == 0 {
			MustLock(t, m)
		} else if !TryLock(t, m) {
			t.Fatal("the lock is held, want it free")
		}
		grows(m)
		Unlock(t, m)
	}
	var wg sync.WaitGroup
	for i := range 24 {
		wg.Go(func() {
			m := ps.New(i % processes)
			if Wait(t, m) {
				grows(m)
				Unlock(t, m)
			}
		})
	}
	wg.Wait()
}

// LossIsToldFirst checks that a holder is told of a loss before the next one has the lock.
func LossIsToldFirst(t *testing.T, lock Lock) {
	for failure, fail := range Failures() {
		t.Run(failure, func(t *testing.T) { toldFirst(t, lock, fail) })
	}
}

// The holder's network fails; the waiter's does not.
func toldFirst(t *testing.T, l Lock, fail func(*fault.Relay)) {
	relay, ps := l.Apart(t, l.TTL)
	a, b := ps.New(0), ps.New(1)
	MustLock(t, a)
	told := make(chan time.Time, 1)
	ctx := a.Context(t.Context())
	context.AfterFunc(ctx, func() { told <- time.Now() })
	time.Sleep(l.TTL / 2) // long enough for a renewal
	fail(relay)
	failed := time.Now()
	MustLock(t, b)
	in := time.Now()
	select {
	case at := <-told:
		t.Logf("told %v after the failure, %v before the next one was in", at.Sub(failed).Round(time.Millisecond), in.Sub(at).Round(time.Millisecond))
	default:
		t.Error("the next one is in, and the holder does not know")
	}
	if err := context.Cause(ctx); !errors.Is(err, l.Lost) {
		t.Errorf("the cause is %v; want %v", err, l.Lost)
	}
	InTime(t, l.Answer, func() { l.mustNotHold(t, a) })
	relay.Restore()
	Unlock(t, b)
	MustLock(t, a) // with a new lease
	Unlock(t, a)
}

func shortOutage(t *testing.T, l Lock, fail func(*fault.Relay)) {
	ttl := 4 * l.TTL
	relay, ps := l.Apart(t, ttl)
	a, b := ps.New(0), ps.New(1)
	MustLock(t, a)
	ctx := a.Context(t.Context())
	fail(relay)
	time.Sleep(ttl / 8)
	relay.Restore()
	time.Sleep(ttl)
	if ctx.Err() != nil {
		t.Errorf("lost: %v", context.Cause(ctx))
	}
	if TryLock(t, b) {
		t.Error("the lock is free, want it held")
	}
	Unlock(t, a)
}

// No caller has a deadline.
func serverAway(t *testing.T, l Lock, fail func(*fault.Relay)) {
	relay, ps := l.Apart(t, l.TTL)
	waiter, holder := ps.New(0), ps.New(1)
	MustLock(t, holder)
	failed := make(chan error, 1)
	go func() { failed <- waiter.Lock(t.Context()) }()
	Eventually(t, "the waiter's place", func() bool { return ps.Places() == 2 })
	fail(relay)
	InTime(t, l.TTL+Slack, func() {
		if err := <-failed; !errors.Is(err, l.Lost) {
			t.Errorf("Lock = %v; want %v", err, l.Lost)
		}
	})
	InTime(t, l.Answer+Slack, func() {
		if ok, err := ps.Other(0).TryLock(t.Context()); ok || err == nil {
			t.Errorf("TryLock = %v, %v; want an error", ok, err)
		}
	})
	relay.Restore()
	Unlock(t, holder)
	MustLock(t, waiter)
	Unlock(t, waiter)
}

func unlockWhileAway(t *testing.T, l Lock) {
	relay, ps := l.Apart(t, l.TTL)
	a, b := ps.New(0), ps.New(1)
	MustLock(t, a)
	relay.Hole()
	InTime(t, l.Answer+Slack, func() {
		if err := a.Unlock(t.Context()); err == nil {
			t.Error("Unlock said that it had been heard")
		}
	})
	MustLock(t, b) // the lease has expired
	relay.Restore()
	Unlock(t, b)
}

func deadHolder(t *testing.T, l Lock) {
	relay, ps := l.Apart(t, l.TTL)
	a, b := ps.New(0), ps.New(1)
	MustLock(t, a)
	relay.Cut() // as the death of the process would
	MustLock(t, b)
	relay.Restore()
	Unlock(t, b)
}

// Wait reports whether the mutex got the lock in time.
func Wait(t *testing.T, m Mutex) bool {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), Calm, ErrEnough)
	defer cancel()
	if err := m.Lock(ctx); err != nil {
		t.Error("Lock:", err)
		return false
	}
	return true
}

// MustLock waits for the lock.
func MustLock(t *testing.T, m Mutex) {
	t.Helper()
	if !Wait(t, m) {
		t.FailNow()
	}
}

// TryLock reports whether the lock was free.
func TryLock(t *testing.T, m Mutex) bool {
	t.Helper()
	ok, err := m.TryLock(t.Context())
	if err != nil {
		t.Error("TryLock:", err)
	}
	return ok
}

// Unlock releases the lock.
func Unlock(t *testing.T, m Mutex) {
	t.Helper()
	if err := m.Unlock(t.Context()); err != nil {
		t.Error("Unlock:", err)
	}
}

func (l Lock) mustNotHold(t *testing.T, m Mutex) {
	t.Helper()
	if err := m.Unlock(t.Context()); !errors.Is(err, l.NotHeld) {
		t.Errorf("Unlock = %v; want %v", err, l.NotHeld)
	}
}

// Eventually waits until is returns true.
func Eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(Slack); !is(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("not in time: ", what)
		}
	}
}

// InTime fails the test if the call takes longer than limit.
func InTime(t *testing.T, limit time.Duration, call func()) {
	t.Helper()
	start := time.Now()
	call()
	if took := time.Since(start); took > limit {
		t.Errorf("it took %v", took)
	}
}
