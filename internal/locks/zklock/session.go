package zklock

import (
	"context"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"

	"oversell/internal/locks/lease"
)

// A server is one process's connection to ZooKeeper.
type server struct {
	conn    *zk.Conn
	timeout time.Duration
}

// A session is a part of the connection's session in ZooKeeper: the time in which, by this
// machine's clock, that session is known to be alive. After too long a gap between answers a new
// session begins, even if ZooKeeper has not noticed the gap.
type session struct {
	*lease.Session
	server  *server
	id      int64
	closing context.Context // ends when the source is closed
}

// open waits until ZooKeeper answers, and then begins to renew the session.
func (s *server) open(ctx context.Context, source *lease.Source) (*lease.Session, error) {
	for {
		id := s.conn.SessionID()
		sent := time.Now()
		failed := make(chan error, 1)
		go func() { failed <- s.ask() }() // it ends, at the latest, when the connection is closed
		var err error
		select {
		case err = <-failed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		if err == nil && id != 0 && id == s.conn.SessionID() {
			return s.begin(source, id, sent)
		}
		if cause := lease.Rest(ctx, s.timeout); cause != nil {
			return nil, errors.Join(cause, err)
		}
	}
}

func (s *server) begin(source *lease.Source, id int64, sent time.Time) (*lease.Session, error) {
	n := &session{source.NewSession(sent, s.timeout), s, id, source.Ctx}
	n.Place = n.place
	if !source.Go(func() { n.Keep(n.renew) }) {
		n.End(lease.ErrClosed)
		return nil, lease.ErrClosed
	}
	return n.Session, nil
}

// ask makes the server catch up with its leader. A server that is cut off from the other
// servers answers simpler requests for a while, although the other servers end the
// session.
func (s *server) ask() error {
	_, err := s.conn.Sync(root)
	return err
}

// renew gets an answer from ZooKeeper. The client library keeps its session alive by itself, but
// does not say when the server last heard from it.
func (n *session) renew() error {
	err := n.server.ask()
	if err == nil && n.server.conn.SessionID() != n.id { // the answer belongs to another session
		return ErrLost
	}
	return err
}
