package lab

import (
	"context"
	"errors"
	"fmt"
	"time"

	"oversell/internal/locks"
)

// sites are the servers that columns are run on in real time.
type sites struct {
	of    map[string]site // by column
	stops []func()
}

// site is where one column is run.
type site struct {
	server *server
	ttl    time.Duration
}

func (s *sites) close() {
	for _, stop := range s.stops {
		stop()
	}
}

// errNoServers is returned, wrapped, for a column whose servers are not given.
var errNoServers = errors.New("the servers of its lock are not given")

// open connects to what the columns that are run in real time need.
func (r *run) open(ctx context.Context) (s sites, err error) {
	s.of = make(map[string]site)
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	redis, err := r.redis(ctx)
	if err != nil {
		return s, err
	}
	s.stops = append(s.stops, redis.close)
	for _, c := range r.cfg.Columns {
		if r.virtual(c) {
			continue
		}
		nodes, other, err := r.lives(ctx, c)
		if err != nil {
			return s, fmt.Errorf("%s: %w", c.Name, err)
		}
		ttl := r.ttl(c)
		if other != nil {
			s.stops = append(s.stops, other.close)
			if ttl, err = other.granted(ctx, ttl); err != nil {
				return s, err
			}
		}
		s.of[c.Name] = site{redis.with(nodes, other), ttl}
		if other != nil || r.cfg.Redis == Embedded {
			r.apart = append(r.apart, apart{c.Name, ttl})
		}
	}
	return s, nil
}

// redis is the one Redis: that in memory if it is all that there is.
func (r *run) redis(ctx context.Context) (*server, error) {
	if r.cfg.Redis == Embedded {
		return inMemory(), nil
	}
	s, err := at(r.cfg.Redis)
	if err != nil {
		return nil, err
	}
	conn, err := s.dial(ctx)
	if err != nil {
		return nil, fmt.Errorf("dialling Redis: %w", err)
	}
	return s, conn.Close()
}

// lives connects to what a column's lock lives on, besides or instead of the one
// Redis.
func (r *run) lives(ctx context.Context, c Column) (nodes []*server, other service, err error) {
	switch c.Needs {
	case locks.NeedsNodes:
		nodes, err = atNodes(r.cfg.Nodes)
		return nodes, nil, err
	case locks.NeedsEtcd:
		if len(r.cfg.Etcd) == 0 {
			return nil, nil, errNoServers
		}
		other, err = atEtcd(ctx, r.cfg.Etcd)
	case locks.NeedsZooKeeper:
		if len(r.cfg.ZooKeeper) == 0 {
			return nil, nil, errNoServers
		}
		other, err = atZooKeeper(ctx, r.cfg.ZooKeeper)
	}
	return nil, other, err
}

func atNodes(urls []string) (nodes []*server, err error) {
	if len(urls) == 0 {
		return nil, errNoServers
	}
	for _, url := range urls {
		node, err := at(url)
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, node)
	}
	return nodes, nil
}
