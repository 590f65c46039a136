//go:build !js

package anomalies

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

// Services returns the value of lab.Config.Services for etcd at its endpoints and ZooKeeper at its
// servers (host:port). Either list may be empty. Services is not built for a browser, because the
// clients of etcd and ZooKeeper are not linked in there.
func Services(etcd, zooKeeper []string) map[catalog.Need]func(context.Context) (*lab.Service, error) {
	at := make(map[catalog.Need]func(context.Context) (*lab.Service, error))
	if len(etcd) > 0 {
		at[catalog.NeedsEtcd] = func(ctx context.Context) (*lab.Service, error) { return inEtcd(ctx, etcd) }
	}
	if len(zooKeeper) > 0 {
		at[catalog.NeedsZooKeeper] = func(ctx context.Context) (*lab.Service, error) {
			return inZooKeeper(ctx, zooKeeper)
		}
	}
	return at
}

// inEtcd connects to etcd. It looks for a lock's entries where etcdlock stores them.
func inEtcd(ctx context.Context, endpoints []string) (*lab.Service, error) {
	client, err := coordination.DialEtcd(ctx, endpoints)
	if err != nil {
		return nil, err
	}
	s := serviceOf(catalog.NeedsEtcd, "http://", endpoints)
	s.Name, s.Close = "etcd", func() { _ = client.Close() }
	s.First = func(ctx context.Context, key string) (string, error) {
		how := append(clientv3.WithFirstCreate(), clientv3.WithKeysOnly())
		r, err := client.Get(ctx, url.PathEscape(key)+"/", how...)
		if err != nil || len(r.Kvs) == 0 {
			return "", err
		}
		return string(r.Kvs[0].Key), nil
	}
	s.Lose = func(ctx context.Context, place string) error {
		_, err := client.Delete(ctx, place)
		return err
	}
	return s, nil
}

// zkLooking is the timeout of the lab's own session. It is long enough to survive a stall of this
// machine.
const zkLooking = 30 * time.Second

// inZooKeeper connects to ZooKeeper. It looks for a lock's entries where zklock stores them. The
// lab's keys need no escaping.
func inZooKeeper(ctx context.Context, hosts []string) (*lab.Service, error) {
	conn, err := coordination.DialZooKeeper(ctx, hosts, zkLooking)
	if err != nil {
		return nil, err
	}
	s := serviceOf(catalog.NeedsZooKeeper, "", hosts)
	s.Name, s.Close = "ZooKeeper", func() { conn.Close() }
	s.First = func(_ context.Context, key string) (string, error) {
		queue := "/oversell/" + key
		names, _, err := conn.Children(queue)
		if errors.Is(err, zk.ErrNoNode) || err == nil && len(names) == 0 {
			return "", nil
		}
		if err != nil {
			return "", err
		}
		return queue + "/" + slices.MinFunc(names, byNumber), nil
	}
	s.Lose = func(_ context.Context, place string) error { return conn.Delete(place, -1) }
	return s, nil
}

// byNumber compares nodes by the ten digits that ZooKeeper appends to their names.
func byNumber(a, b string) int { return strings.Compare(a[max(0, len(a)-10):], b[max(0, len(b)-10):]) }

// serviceOf returns the part of a service that processes use. Each process connects through its own
// relays. An address of the service is the scheme and host:port.
func serviceOf(need catalog.Need, scheme string, addresses []string) *lab.Service {
	hosts := make([]string, len(addresses))
	for i, address := range addresses {
		hosts[i] = strings.TrimPrefix(address, scheme)
	}
	return &lab.Service{
		Dial: func(ctx context.Context, ttl time.Duration) (*lab.Member, error) {
			return lab.NewMember(hosts, func(m *lab.Member, relayed []string) error {
				for i := range relayed {
					relayed[i] = scheme + relayed[i]
				}
				clients, err := lockservers.Running(lockservers.Addresses{need: relayed}).Dial(ctx, ttl)
				if err != nil {
					return err
				}
				m.Close = clients.Close
				m.Lock, err = clients.Add(catalog.Options{}).Locks[need](ctx)
				return err
			})
		},
		Granted: func(ctx context.Context, ttl time.Duration) (time.Duration, error) {
			terms, err := lockservers.Ask(ctx, lockservers.Addresses{need: addresses})
			return terms[need].Lease(ttl), err
		},
	}
}
