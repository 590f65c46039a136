package locktest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
)

// TTL is the ttl of the locks in a World. It is long compared with the short waits of a scenario,
// but passes instantly, because time is virtual.
const TTL = 3 * time.Second

// Tick is added to a sleep so that it ends after a timer of the same length, not at the same time.
const Tick = time.Millisecond

// A World is the setting of a scenario: a Redis, and the processes that use it.
type World struct {
	*Server

	Key string // the key of the lock

	ctx     context.Context
	lock    Lock
	holders []*Holder
	clients []*redis.Client
}

// Scenario runs a scenario as Run does: in a bubble of testing/synctest, where time.Sleep moves the
// clock of Redis and all timers together. The test fails if an expectation is not met, or if a key
// is left in Redis at the end.
func Scenario(t *testing.T, lock Lock, scenario func(w *World)) {
	t.Helper()
	broken, err := play(t, lock, scenario)
	if broken != "" || err != nil {
		t.Error(broken, err)
	}
}

// play runs a scenario. It returns the expectation that was not met, or "" if all were met. An
// error means that the scenario could not be run. Every scenario fails for a lock that does not
// exclude a second holder or that cannot be released, because all scenarios rely on both.
func play(t *testing.T, lock Lock, scenario func(w *World)) (broken string, err error) {
	synctest.Test(t, func(t *testing.T) {
		w := &World{Server: NewServer(), Key: "lock", ctx: t.Context(), lock: lock}
		broken, err = w.run(func() { w.isLock(); scenario(w) })
		left := w.close()
		if broken == "" && len(left) > 0 {
			broken = fmt.Sprint("left in Redis: ", left)
		}
	})
	return broken, err
}

// The values of these types end a scenario early, by panic, so that scenarios need no error handling.
type (
	unmet   string
	failure struct{ error }
)

func (w *World) run(f func()) (broken string, err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case unmet:
			broken = string(r)
		case failure:
			err = r.error
		default:
			panic(r)
		}
	}()
	f()
	return
}

// Expect ends the scenario unless met is true. otherwise and args are the format of the message.
func (w *World) Expect(met bool, otherwise string, args ...any) {
	if !met {
		panic(unmet(fmt.Sprintf(otherwise, args...)))
	}
}

// isLock ends the scenario unless the lock excludes a second holder until it is released. It uses a
// different key.
func (w *World) isLock() {
	key := w.Key
	w.Key = "another lock"
	a, b := w.Holder("a"), w.Holder("b")
	w.Key = key
	a.MustLock()
	w.Expect(!b.TryLock(), "it lets everybody in")
	w.Expect(a.Unlock(), "it cannot be released")
	w.Expect(b.TryLock(), "it is not released")
	w.Expect(b.Unlock() && a.TryLock() && a.Unlock(), "it cannot be released twice")
}

// close ends all holders, and returns the keys that are left in Redis.
func (w *World) close() (left []string) {
	for _, h := range w.holders {
		h.GoOn()
		h.cancel()
	}
	for _, h := range w.holders {
		h.waiting.Wait()
		for range 10 { // the holder may hold the lock more than once
			if h.Mutex.Unlock(h.Ctx) != nil {
				break
			}
		}
	}
	time.Sleep(3 * TTL) // in this time, retries in the background end and keys expire
	left = w.Keys()
	for _, rdb := range w.clients {
		_ = rdb.Close()
	}
	// Renewals in the background notice that their client is closed only after their next pause,
	// which may be a large part of the ttl.
	time.Sleep(2 * TTL)
	_ = w.Server.Close()
	return left
}

// Outlast waits for a little longer than a ttl, so that every lease that is not renewed expires.
func (w *World) Outlast() { time.Sleep(TTL + TTL/10) }

// queue returns the entries of the lock's queue, in order.
func (w *World) queue() []string {
	who, _ := w.List(w.Key + w.lock.Queue)
	return who
}

// MustBeFree ends the scenario if the lock is held, or a waiter is in the queue.
func (w *World) MustBeFree() {
	synctest.Wait()
	w.Expect(!w.Exists(w.Key), "the lock is not free")
	w.Expect(len(w.queue()) == 0, "the queue has %v", w.queue())
}

// An Attempt receives the error of a call when the call returns.
type Attempt <-chan error

// errGoesOn is the error of a call that has not returned in time.
var errGoesOn = errors.New("it has not returned")

// Within returns the error of the call, or errGoesOn if it takes longer than limit.
func (a Attempt) Within(limit time.Duration) error {
	select {
	case err := <-a:
		return err
	case <-time.After(limit):
		return a.Now()
	}
}

// Now returns the error of the call, or errGoesOn if the call needs more (virtual) time to return.
func (a Attempt) Now() error {
	synctest.Wait()
	select {
	case err := <-a:
		return err
	default:
		return errGoesOn
	}
}
