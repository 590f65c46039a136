package services

import (
	"context"
	"fmt"
	"math"
	"net/url"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"oversell/internal/backend/coordination"
	"oversell/internal/lab"
	"oversell/internal/locks/etcdlock"
)

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

func (s etcdService) Watch(ctx context.Context, key string, gone func(place string)) {
	for told := range s.client.Watch(ctx, s.prefix(key), clientv3.WithPrefix(), clientv3.WithFilterPut()) {
		for _, e := range told.Events {
			gone(string(e.Kv.Key))
		}
	}
}

func (s etcdService) Close() { _ = s.client.Close() }
