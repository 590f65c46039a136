package shop

import (
	"context"
	"fmt"

	"oversell/internal/catalog"
	"oversell/internal/message"
)

// offer returns the strategies that the shop can run with o. For each other strategy it records why
// the shop lacks it, for the API. It also starts the servers that the default strategy needs: a
// shop that cannot run its default strategy must not open.
func (c *Config) offer(ctx context.Context, o catalog.Options) (can catalog.List, err error) {
	c.Web.Absent = make(map[string]message.Message)
	for _, s := range catalog.Strategies() {
		if !o.Meets(s.Needs) || s.NeedsMySQL() && c.Stock.DB.Name() != "mysql" {
			c.Web.Absent[s.Name] = missing(s)
			continue
		}
		can = append(can, s)
	}
	if why, absent := c.Web.Absent[c.Strategy]; absent {
		return nil, fmt.Errorf("the strategy %s is not available: %s", c.Strategy, why)
	}
	s, err := can.Find(c.Strategy)
	if connect := o.Locks[s.Needs]; connect != nil {
		_, err = connect(ctx)
	}
	return can, err
}

// missing returns why this shop cannot run a strategy.
func missing(s catalog.Strategy) message.Message {
	switch {
	case s.NeedsMySQL():
		return message.Text("it needs MySQL or MariaDB, and the shop's database is SQLite")
	case s.Needs.OfServers():
		return message.Newf("it needs -%s, and the shop was started without it", s.Needs)
	}
	return message.Text("the shop was started without it")
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
