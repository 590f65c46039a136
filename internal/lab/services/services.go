// Package services has the servers, other than Redis, that keep locks which the lab tries:
// etcd and ZooKeeper. It is apart from package lab so that only programs that reach such
// servers are built with their clients.
package services

import (
	"context"

	"oversell/internal/catalog"
	"oversell/internal/lab"
)

// At returns how to connect to etcd at its endpoints, and to ZooKeeper at its servers
// (host:port), for lab.Config. Either may be empty.
func At(etcd, zooKeeper []string) map[catalog.Need]lab.ConnectService {
	at := make(map[catalog.Need]lab.ConnectService)
	if len(etcd) > 0 {
		at[catalog.NeedsEtcd] = func(ctx context.Context) (lab.Service, error) { return atEtcd(ctx, etcd) }
	}
	if len(zooKeeper) > 0 {
		at[catalog.NeedsZooKeeper] = func(ctx context.Context) (lab.Service,
			error) {
			return atZooKeeper(ctx, zooKeeper)
		}
	}
	return at
}
