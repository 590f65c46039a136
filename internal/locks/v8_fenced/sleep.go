package lock

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// While no message arrives, the pause between two polls doubles up to maxPause. It is
// at least pausePerWaiter times the number of waiters, so that a client sends at most
// 50,000 LPOPs a second.
const (
	minPause       = 500 * time.Microsecond
	pausePerWaiter = 20 * time.Microsecond
	maxPause       = 20 * time.Millisecond
)

// sleepers holds the waiters of one client. At most half of the client's connections
// block in BLPOP, so that Unlock always gets one. One goroutine polls the lists of
// all further waiters, in one pipeline.
type sleepers struct {
	rdb      redis.UniversalClient
	blocking int        // number of waiters that block in BLPOP
	polled   []*sleeper // the other waiters, whose lists are polled
}

// A sleeper is a waiter whose list is polled.
type sleeper struct {
	list  string
	until time.Time
	woken chan *redis.StringCmd // receives the LPOP that ended the wait
}

var (
	sleepMu sync.Mutex                              // guards asleep and all sleepers
	asleep  = map[redis.UniversalClient]*sleepers{} // by client, while it has a waiter
)

// receive takes a message off the list. It waits for at most limit plus one pause. If
// no message arrives, it returns redis.Nil.
func receive(rdb redis.UniversalClient, list string, limit time.Duration) (string, error) {
	sleepMu.Lock()
	s := asleep[rdb]
	if s == nil {
		s = &sleepers{rdb: rdb}
		asleep[rdb] = s
	}
	if s.blocking < poolSize(rdb)/2 {
		s.blocking++
		sleepMu.Unlock()
		defer s.unblock()
		reply, err := rdb.Do(context.Background(), "blpop", list, limit.Seconds()).StringSlice()
		if err != nil || len(reply) != 2 {
			return "", err
		}
		return reply[1], nil
	}
	w := &sleeper{list, time.Now().Add(limit), make(chan *redis.StringCmd, 1)}
	s.polled = append(s.polled, w)
	if len(s.polled) == 1 {
		go s.poll()
	}
	sleepMu.Unlock()
	return (<-w.woken).Result()
}

// unblock counts a BLPOP that has ended.
func (s *sleepers) unblock() {
	sleepMu.Lock()
	defer sleepMu.Unlock()
	s.blocking--
	s.forget()
}

// forget removes s if no waiter is left. The caller of forget, or of wake, must hold sleepMu.
func (s *sleepers) forget() {
	if s.blocking == 0 && len(s.polled) == 0 {
		delete(asleep, s.rdb)
	}
}

// poll asks Redis for the messages of all polled waiters, again and again, until no
// such waiter is left.
func (s *sleepers) poll() {
	ctx, pause := context.Background(), time.Duration(0)
	for {
		sleepMu.Lock()
		asked := slices.Clone(s.polled)
		sleepMu.Unlock()
		pipe, replies := s.rdb.Pipeline(), make([]*redis.StringCmd, len(asked))
		for i, w := range asked {
			replies[i] = pipe.LPop(ctx, w.list)
		}
		_, _ = pipe.Exec(ctx) // each reply has its own error

		sleepMu.Lock()
		if s.wake(asked, replies) {
			pause = 0
		}
		if len(s.polled) == 0 {
			s.forget()
			sleepMu.Unlock()
			return
		}
		pause = min(max(2*pause, minPause), maxPause)
		most := max(pause, time.Duration(len(s.polled))*pausePerWaiter)
		first := slices.MinFunc(s.polled, func(a, b *sleeper) int { return a.until.Compare(b.until) })
		sleepMu.Unlock()
		time.Sleep(min(most, time.Until(first.until)))
	}
}

// wake ends the wait of each waiter that has a message, an error, or no time left, and
// reports whether a message arrived. No command is in flight for a waiter that wake
// drops, so every message taken off a list reaches its waiter.
func (s *sleepers) wake(asked []*sleeper, replies []*redis.StringCmd) (came bool) {
	now := time.Now()
	waiting := s.polled[len(asked):] // the waiters that joined after the poll began
	for i, w := range asked {
		if errors.Is(replies[i].Err(), redis.Nil) && now.Before(w.until) {
			waiting = append(waiting, w)
			continue
		}
		came = came || replies[i].Err() == nil
		w.woken <- replies[i]
	}
	s.polled = waiting
	return came
}

// poolSize returns the maximum number of connections of rdb (on a cluster, to each node).
func poolSize(rdb redis.UniversalClient) int {
	switch c := rdb.(type) {
	case interface{ Options() *redis.Options }:
		return c.Options().PoolSize
	case interface{ Options() *redis.ClusterOptions }:
		return c.Options().PoolSize
	case interface{ Options() *redis.RingOptions }:
		return c.Options().PoolSize
	}
	return 0 // unknown, so all waiters are polled
}
