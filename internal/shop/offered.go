package shop

import (
	"context"
	"fmt"

	"gorm.io/gorm"

	"oversell/internal/catalog"
)

// offered returns the strategies of a catalog that the shop can run, and by name why it
// lacks the others.
func offered(list catalog.List, o catalog.Options, db *gorm.DB) (can catalog.List, absent map[string]string) {
	absent = make(map[string]string)
	for _, s := range catalog.Strategies() {
		absent[s.Name] = missing(s)
	}
	for _, s := range list.With(o) {
		if s.NeedsMySQL() && db.Name() != "mysql" {
			continue
		}
		can = append(can, s)
		delete(absent, s.Name)
	}
	return can, absent
}

// missing says what a strategy needs that this shop lacks.
func missing(s catalog.Strategy) string {
	switch {
	case s.NeedsMySQL():
		return "it needs MySQL or MariaDB, and the shop's database is SQLite"
	case s.Needs.OfServers():
		return fmt.Sprintf("it needs -%s, and the shop was started without it", s.Needs)
	}
	return "the shop was started without it"
}

// prepare starts what the default strategy needs, so that a shop that cannot run it does
// not open.
func prepare(ctx context.Context, list catalog.List, name string, o catalog.Options) error {
	s, err := list.Find(name)
	if err != nil {
		return err
	}
	if later := o.Later[s.Needs]; later != nil {
		_, err = later(ctx, o)
	}
	return err
}

// servers names the servers that a strategy's lock needs besides Redis and the database.
func servers(s catalog.Strategy) string {
	switch s.Needs {
	case catalog.NeedsNodes:
		return "the majority of redlock's nodes"
	case catalog.NeedsEtcd:
		return "etcd"
	case catalog.NeedsZooKeeper:
		return "ZooKeeper"
	}
	return ""
}
