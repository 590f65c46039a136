package shop

import (
	"context"
	"fmt"

	"gorm.io/gorm"

	"oversell/internal/backend"
	"oversell/internal/locks"
)

// offered returns the strategies of a catalog that the shop can run, and of all
// others, by name, why it cannot. A Redis that does not tell how many replicas it has
// is taken to have some: the lock finds out.
func offered(ctx context.Context, catalog locks.Catalog, o locks.Options, db *gorm.DB) (can locks.Catalog, absent map[string]string) {
	replicas, err := backend.RedisReplicas(ctx, o.Redis)
	alone := err == nil && replicas == 0
	served := catalog.With(o)
	absent = make(map[string]string)
	for _, s := range locks.Strategies() {
		absent[s.Name] = takes(s)
	}
	for _, s := range served {
		if s.Needs == locks.NeedsReplicas && alone || s.NeedsMySQL() && db.Name() != "mysql" {
			continue
		}
		can = append(can, s)
		delete(absent, s.Name)
	}
	return can, absent
}

// takes says what a strategy takes that a shop may not have.
func takes(s locks.Strategy) string {
	switch {
	case s.NeedsMySQL():
		return "it takes MySQL or MariaDB, and the shop's database is SQLite"
	case s.Needs == locks.NeedsReplicas:
		return "it takes a Redis with replicas, and the shop's has none"
	case s.Needs == locks.NeedsNodes, s.Needs == locks.NeedsEtcd, s.Needs == locks.NeedsZooKeeper:
		return fmt.Sprintf("it takes -%s, without which the shop was started", s.Needs)
	}
	return "the shop was started without it"
}

// meet has the need of the default strategy met: it will be used, and a shop that cannot
// have what it takes is not to open.
func meet(ctx context.Context, catalog locks.Catalog, name string, o locks.Options) error {
	s, err := catalog.Find(name)
	if err != nil {
		return err
	}
	if later := o.Later[s.Needs]; later != nil {
		_, err = later(ctx, o)
	}
	return err
}

// servers names what a strategy's lock lives on, if that is neither Redis nor the
// database.
func servers(s locks.Strategy) string {
	switch s.Needs {
	case locks.NeedsNodes:
		return "the majority of redlock's nodes"
	case locks.NeedsEtcd:
		return "etcd"
	case locks.NeedsZooKeeper:
		return "ZooKeeper"
	}
	return ""
}
