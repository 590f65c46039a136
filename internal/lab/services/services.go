// Package services has the servers, other than Redis, that keep locks which the lab tries:
// etcd and ZooKeeper. It is apart from package lab so that only programs that reach such
// servers are built with their clients.
package services

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
	clientv3 "go.etcd.io/etcd/client/v3"

	"oversell/internal/backend/coordination"
	"oversell/internal/catalog"
	"oversell/internal/lab"
	"oversell/internal/locks/etcdlock"
	"oversell/internal/locks/zklock"
)

// At returns how to connect to etcd at its endpoints, and to ZooKeeper at its servers
// (host:port), for lab.Config. Either may be empty.
func At(etcd, zooKeeper []string) map[catalog.Need]lab.ConnectService {
	at := make(map[catalog.Need]lab.ConnectService)
	if len(etcd) > 0 {
		at[catalog.NeedsEtcd] = func(ctx context.Context) (lab.Service, error) { return atEtcd(ctx, etcd) }
	}
	if len(zooKeeper) > 0 {
		at[catalog.NeedsZooKeeper] = func(ctx context.Context) (lab.Service, error) {
			return atZooKeeper(ctx, zooKeeper)
		}
	}
	return at
}

type etcdService struct {
	endpoints []string
	client    *clientv3.Client // looks on, past all faults
}

func atEtcd(ctx context.Context, endpoints []string) (lab.Service, error) {
	client, err := coordination.DialEtcd(ctx, endpoints)
	if err != nil {
		return nil, err
	}
	return etcdService{endpoints, client}, nil
}

func (s etcdService) Name() string { return "etcd" }

func (s etcdService) Dial(ctx context.Context, ttl time.Duration) (*lab.Member, error) {
	var targets []string
	for _, endpoint := range s.endpoints {
		targets = append(targets, strings.TrimPrefix(endpoint, "http://"))
	}
	return lab.NewMember(targets, func(m *lab.Member, relayed []string) error {
		for i := range relayed {
			relayed[i] = "http://" + relayed[i]
		}
		client, err := coordination.DialEtcd(ctx, relayed)
		if err != nil {
			return err
		}
		source := etcdlock.NewSource(client, ttl)
		m.Lock = func(key string) lab.ServiceLock { return etcdlock.New(source, key) }
		m.Close = []func() error{source.Close, client.Close}
		return nil
	})
}

func (s etcdService) Granted(ctx context.Context, ttl time.Duration) (time.Duration, error) {
	lease, err := s.client.Grant(ctx, int64(math.Ceil(ttl.Seconds())))
	if err != nil {
		return 0, fmt.Errorf("asking etcd for a lease: %w", err)
	}
	_, err = s.client.Revoke(ctx, lease.ID)
	return time.Duration(lease.TTL) * time.Second, err
}

// prefix is where etcdlock keeps the places of a lock.
func (s etcdService) prefix(key string) string { return url.PathEscape(key) + "/" }

func (s etcdService) First(ctx context.Context, key string) (string, error) {
	r, err := s.client.Get(ctx, s.prefix(key), append(clientv3.WithFirstCreate(), clientv3.WithKeysOnly())...)
	if err != nil || len(r.Kvs) == 0 {
		return "", err
	}
	return string(r.Kvs[0].Key), nil
}

func (s etcdService) Lose(ctx context.Context, place string) error {
	_, err := s.client.Delete(ctx, place)
	return err
}

func (s etcdService) Close() { _ = s.client.Close() }

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

func (s zkService) Close() { s.conn.Close() }
