// Package services has the servers, other than Redis, that keep locks which the lab tries:
// etcd and ZooKeeper. It is apart from package lab so that only programs that reach such
// servers are built with their clients.
package services

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
	clientv3 "go.etcd.io/etcd/client/v3"

	"oversell/internal/backend/coordination"
	"oversell/internal/backend/lockservers"
	"oversell/internal/catalog"
	"oversell/internal/lab"
)

// At returns how to connect to etcd at its endpoints, and to ZooKeeper at its servers
// (host:port), for lab.Config. Either may be empty.
func At(etcd, zooKeeper []string) map[catalog.Need]lab.ConnectService {
	at := make(map[catalog.Need]lab.ConnectService)
	if len(etcd) > 0 {
		at[catalog.NeedsEtcd] = func(ctx context.Context) (lab.Service, error) {
			client, err := coordination.DialEtcd(ctx, etcd)
			if err != nil {
				return nil, err
			}
			return service{catalog.NeedsEtcd, etcd, etcdLooker{client}}, nil
		}
	}
	if len(zooKeeper) > 0 {
		at[catalog.NeedsZooKeeper] = func(ctx context.Context) (lab.Service, error) {
			conn, err := coordination.DialZooKeeper(ctx, zooKeeper, zkLooking)
			if err != nil {
				return nil, err
			}
			return service{catalog.NeedsZooKeeper, zooKeeper, zkLooker{conn}}, nil
		}
	}
	return at
}

// service is etcd or ZooKeeper.
type service struct {
	need    catalog.Need
	servers []string
	looker
}

// looker looks on, past all faults.
type looker interface {
	Name() string
	First(ctx context.Context, key string) (string, error)
	Lose(ctx context.Context, place string) error
	Close()
}

// scheme begins the endpoints of etcd.
const scheme = "http://"

func (s service) addresses(servers []string) lockservers.Addresses {
	return lockservers.Addresses{s.need: servers}
}

func (s service) Dial(ctx context.Context, ttl time.Duration) (*lab.Member, error) {
	var targets []string
	for _, server := range s.servers {
		targets = append(targets, strings.TrimPrefix(server, scheme))
	}
	return lab.NewMember(targets, func(m *lab.Member, relayed []string) error {
		for i := range relayed {
			if s.need == catalog.NeedsEtcd {
				relayed[i] = scheme + relayed[i]
			}
		}
		clients, err := lockservers.Running(s.addresses(relayed)).Dial(ctx, ttl)
		if err != nil {
			return err
		}
		newLock := clients.Add(catalog.Options{}).Etcd
		if s.need == catalog.NeedsZooKeeper {
			newLock = clients.Add(catalog.Options{}).ZooKeeper
		}
		m.Lock, m.Close = newLock, clients.Close
		return nil
	})
}

func (s service) Granted(ctx context.Context, ttl time.Duration) (time.Duration, error) {
	terms, err := lockservers.Ask(ctx, s.addresses(s.servers))
	return terms[s.need].Lease(ttl), err
}

type etcdLooker struct{ client *clientv3.Client }

func (l etcdLooker) Name() string { return "etcd" }

// First looks where etcdlock keeps the places of a lock.
func (l etcdLooker) First(ctx context.Context, key string) (string, error) {
	how := append(clientv3.WithFirstCreate(), clientv3.WithKeysOnly())
	r, err := l.client.Get(ctx, url.PathEscape(key)+"/", how...)
	if err != nil || len(r.Kvs) == 0 {
		return "", err
	}
	return string(r.Kvs[0].Key), nil
}

func (l etcdLooker) Lose(ctx context.Context, place string) error {
	_, err := l.client.Delete(ctx, place)
	return err
}

func (l etcdLooker) Close() { _ = l.client.Close() }

type zkLooker struct{ conn *coordination.ZooKeeper }

// zkLooking is the timeout of the lab's own session, which is to outlast a stall
// of this machine.
const zkLooking = 30 * time.Second

func (l zkLooker) Name() string { return "ZooKeeper" }

// First looks where zklock keeps the places of a lock. The lab's keys have nothing in
// them that would have to be written otherwise.
func (l zkLooker) First(_ context.Context, key string) (string, error) {
	queue := "/oversell/" + key
	names, _, err := l.conn.Children(queue)
	if errors.Is(err, zk.ErrNoNode) || err == nil && len(names) == 0 {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return queue + "/" + slices.MinFunc(names, byNumber), nil
}

// byNumber compares names by the ten digits at their ends, as ZooKeeper numbers them.
func byNumber(a, b string) int { return strings.Compare(a[max(0, len(a)-10):], b[max(0, len(b)-10):]) }

func (l zkLooker) Lose(_ context.Context, place string) error { return l.conn.Delete(place, -1) }

func (l zkLooker) Close() { l.conn.Close() }
