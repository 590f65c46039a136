package etcdlock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"golang.org/x/sync/semaphore"
)

var errClosed = errors.New("etcdlock: the source is closed")

// A Source is what all holders of a process share: a client, a lease, and for each
// lock the line of those who want it. It is safe for concurrent use.
type Source struct {
	client  *clientv3.Client
	ttl     time.Duration
	ctx     context.Context // ends with Close
	end     context.CancelCauseFunc
	opening *semaphore.Weighted // one asks for a lease at a time

	mu      sync.Mutex // guards what follows
	session *session   // new holds hang on it; nil before the first
	lines   map[string]*line
	closed  bool
	running sync.WaitGroup
}

// NewSource returns a source of locks that expire ttl after their process stops
// renewing them. etcd counts in seconds, and has a least ttl, of one or two seconds
// as a rule: the ttl is rounded up. The client stays the caller's.
func NewSource(client *clientv3.Client, ttl time.Duration) *Source {
	ctx, end := context.WithCancelCause(context.Background())
	return &Source{
		client: client, ttl: ttl, ctx: ctx, end: end,
		opening: semaphore.NewWeighted(1),
		lines:   map[string]*line{},
	}
}

// Close gives up the lease, and with it whatever is still held. It has to come
// before the client's own Close, and may be called more than once.
func (s *Source) Close() error {
	s.mu.Lock()
	s.closed = true
	current := s.session
	s.session = nil
	s.mu.Unlock()
	s.end(fmt.Errorf("%w: %w", ErrLost, errClosed))
	if current != nil {
		current.revoke()
	}
	ended := make(chan struct{})
	go func() {
		s.running.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return nil
	case <-time.After(answerTimeout):
		return errors.New("etcdlock: etcd does not answer; what is under way ends with the client")
	}
}

// start runs f, for which Close will wait.
func (s *Source) start(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.running.Go(f)
	return true
}

// A line is those of this process who hold one lock or want it, first come first.
type line struct {
	source *Source
	key    string
	turn   *semaphore.Weighted
	users  int // forgotten when it is 0
}

func (s *Source) join(key string) *line {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.lines[key]
	if l == nil {
		l = &line{source: s, key: key, turn: semaphore.NewWeighted(1)}
		s.lines[key] = l
	}
	l.users++
	return l
}

func (s *Source) quit(l *line) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.users--; l.users == 0 {
		delete(s.lines, l.key)
	}
}

// pass ends a turn.
func (l *line) pass() {
	l.turn.Release(1)
	l.source.quit(l)
}

// takeFunc is one of the two ways in that the client's mutex has.
type takeFunc func(*concurrency.Mutex, context.Context) error

// An attempt is one try to take a lock in etcd.
type attempt struct {
	line    *line
	session *session // nil: it came to nothing before it began
	mutex   *concurrency.Mutex
}

// attempt tries to take the lock until ctx ends. It cancels ctx when the session
// ends: the client's mutex would sleep through that.
func (s *Source) attempt(ctx context.Context, cancel context.CancelCauseFunc, l *line, take takeFunc) (attempt, error) {
	a := attempt{line: l}
	var err error
	if a.session, err = s.use(ctx); err != nil {
		return a, err
	}
	defer context.AfterFunc(a.session.ctx, func() { cancel(a.session.lost()) })()

	a.mutex = concurrency.NewMutex(a.session.identity, l.key)
	err = take(a.mutex, ctx)
	switch {
	case a.session.over():
		return a, a.session.lost()
	case err != nil && !errors.Is(err, concurrency.ErrLocked):
		return a, fmt.Errorf("etcdlock: %w", err)
	}
	return a, err
}

// settle removes what an attempt that failed may have left behind, and ends the turn.
//
// The client's mutex removes its key itself, but gives up at the first error; and
// a request that was cut off may be carried out later, when the key has been
// looked for already. Such an attempt costs the session: the lease is given up
// once nobody uses it any more, and nothing can be created with it afterwards.
func (a attempt) settle() {
	defer a.line.pass()
	if a.session == nil {
		return
	}
	defer a.session.leave()
	if !a.isClean() {
		a.session.retire()
		key := a.mutex.Key()
		_ = a.session.insist(a.session.ctx, func(ctx context.Context) error {
			_, err := a.session.source.client.Delete(ctx, key)
			return err
		})
	}
}

// isClean reports whether a failed attempt is known to have left nothing behind:
// a mutex that has removed its key calls it by the byte 0 from then on.
func (a attempt) isClean() bool { return a.session == nil || a.mutex.Key() == "\x00" }

// A hold is a lock that is had.
type hold struct {
	attempt
	token int64
	ctx   context.Context // ends with the hold
	end   context.CancelCauseFunc
}

func (a attempt) hold() *hold {
	h := &hold{attempt: a}
	owner := a.mutex.IsOwner()
	if rev, ok := owner.GetCompare().GetTargetUnion().(*pb.Compare_CreateRevision); ok {
		h.token = rev.CreateRevision
	}
	h.ctx, h.end = context.WithCancelCause(a.session.ctx)
	return h
}

// giveBack ends the hold in etcd and then in this process.
func (h *hold) giveBack(ctx context.Context) error {
	h.end(context.Canceled)
	if h.session.over() {
		h.session.leave()
		h.line.pass()
		return ErrNotHeld // its key goes with the lease
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerTimeout)
	defer cancel()
	removed := make(chan error, 1)
	if !h.session.source.start(func() {
		removed <- h.remove()
		h.session.leave()
		h.line.pass()
	}) {
		h.session.leave()
		h.line.pass()
		return ErrNotHeld // the source was closed just now
	}
	select {
	case err := <-removed:
		return err
	case <-ctx.Done():
		return fmt.Errorf("etcdlock: unlock: %w", ctx.Err())
	}
}

// remove deletes the hold's key, and no other that came to have its name.
func (h *hold) remove() error {
	tries := 0
	found := false
	err := h.session.insist(h.session.ctx, func(ctx context.Context) error {
		tries++
		r, err := h.session.source.client.Txn(ctx).
			If(h.mutex.IsOwner()).
			Then(clientv3.OpDelete(h.mutex.Key())).
			Commit()
		if err == nil {
			found = r.Succeeded
		}
		return err
	})
	switch {
	case err != nil: // the lease has run out meanwhile
		return errors.Join(ErrNotHeld, err)
	case !found && tries == 1: // later it may have been an earlier try
		return ErrNotHeld
	}
	return nil
}
