package services

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"oversell/internal/backend/coordination"
	"oversell/internal/lab"
	"oversell/internal/locks/zklock"
)

type zkService struct {
	servers []string
	conn    *coordination.ZooKeeper // looks on, past all faults
}

// zkLooking is the timeout of the lab's own session, which is to outlast a stall
// of this machine.
const zkLooking = 30 * time.Second

func atZooKeeper(ctx context.Context, servers []string) (lab.Service, error) {
	conn, err := coordination.DialZooKeeper(ctx, servers, zkLooking)
	if err != nil {
		return nil, err
	}
	return zkService{servers, conn}, nil
}

func (s zkService) Name() string { return "ZooKeeper" }

func (s zkService) Dial(ctx context.Context, ttl time.Duration) (*lab.Member, error) {
	return lab.NewMember(slices.Clone(s.servers), func(m *lab.Member, relayed []string) error {
		conn, err := coordination.DialZooKeeper(ctx, relayed, ttl)
		if err != nil {
			return err
		}
		source := zklock.NewSource(conn.Conn, conn.Timeout)
		m.Lock = func(key string) lab.ServiceLock { return zklock.New(source, key) }
		m.Close = []func() error{source.Close, func() error { conn.Close(); return nil }}
		return nil
	})
}

func (s zkService) Granted(ctx context.Context, ttl time.Duration) (time.Duration, error) {
	conn, err := coordination.DialZooKeeper(ctx, s.servers, ttl)
	if err != nil {
		return 0, err
	}
	conn.Close()
	return conn.Timeout, nil
}

// queue is where zklock keeps the places of a lock. The lab's keys have nothing in
// them that would have to be written otherwise.
func (s zkService) queue(key string) string { return "/oversell/" + key }

func (s zkService) First(_ context.Context, key string) (string, error) {
	names, _, err := s.conn.Children(s.queue(key))
	if errors.Is(err, zk.ErrNoNode) || err == nil && len(names) == 0 {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return s.queue(key) + "/" + slices.MinFunc(names, byNumber), nil
}

// byNumber compares names by the ten digits at their ends, as ZooKeeper numbers them.
func byNumber(a, b string) int { return strings.Compare(a[max(0, len(a)-10):], b[max(0, len(b)-10):]) }

func (s zkService) Lose(_ context.Context, place string) error { return s.conn.Delete(place, -1) }

func (s zkService) Watch(ctx context.Context, key string, gone func(place string)) {
	var before []string
	for ctx.Err() == nil {
		names, changed, err := s.look(key)
		if err != nil { // which is not to say that any place has gone
			select {
			case <-time.After(zkAgain):
			case <-ctx.Done():
			}
			continue
		}
		for _, name := range before {
			if !slices.Contains(names, name) {
				gone(s.queue(key) + "/" + name)
			}
		}
		before = names
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// look returns the places of a lock, and what tells that they have changed. A lock
// that nobody has asked for yet has none.
func (s zkService) look(key string) ([]string, <-chan zk.Event, error) {
	names, _, changed, err := s.conn.ChildrenW(s.queue(key))
	if errors.Is(err, zk.ErrNoNode) {
		var made bool
		if made, _, changed, err = s.conn.ExistsW(s.queue(key)); made {
			err = zk.ErrNodeExists // just now
		}
	}
	return names, changed, err
}

const zkAgain = 100 * time.Millisecond

func (s zkService) Close() { s.conn.Close() }
