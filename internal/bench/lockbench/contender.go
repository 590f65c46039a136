package lockbench

import (
	"slices"
	"strings"
	"time"

	"oversell/internal/catalog"
	"oversell/internal/guard"
	v4 "oversell/internal/locks/v4_lua"
	"oversell/internal/naming"
)

// Contender is a lock and a way of waiting for it, which a row measures.
type Contender struct {
	Name  string
	Waits string // how a waiter gets the lock, in a few words
	About string // its settings, and why

	Needs catalog.Need // what it needs besides a plain Redis

	// Make returns the guard that all contenders of a process share. It is called once in each
	// process, with the key of the lock, which is a prefix of its other keys. The options have one
	// pool for the lock and the counter, the TTL for locks that set no lease themselves, and the
	// clients of other servers. A guard that is an io.Closer is closed after the row.
	Make func(key string, o catalog.Options) (guard.Guard, error)
}

// comparable reports whether a row of the contender can be judged on this kind of Redis. That
// depends on the contender's strategy. A limit has no strategy, and can always be judged.
func (c Contender) comparable(embeddedRedis bool) bool {
	strategy, _, _ := strings.Cut(c.Name, ":") // a library's settings follow the colon
	s, err := catalog.Strategies().Find(strategy)
	return err != nil || s.Comparable(embeddedRedis)
}

// Catalog is a list of contenders.
type Catalog []Contender

// Find returns the contender with the given name. The error wraps catalog.ErrName and lists the
// allowed names.
func (c Catalog) Find(name string) (Contender, error) {
	return naming.Find("contender", name, c, c.Names())
}

// Expand returns the full name of a contender. The name of a strategy stands for the strategy with
// its first waiting policy, and may be shortened, as in v4. Expand returns an unknown name
// unchanged.
func (c Catalog) Expand(name string) string {
	strategies := make([]string, len(c))
	for i, one := range c {
		strategies[i], _, _ = strings.Cut(one.Name, "+")
	}
	whole := naming.Expand(name, slices.Compact(slices.Clone(strategies)))
	if i := slices.Index(strategies, whole); i >= 0 && !slices.Contains(c.Names(), name) {
		return c[i].Name
	}
	return name
}

// Needs returns what the named contenders need besides a plain Redis.
func (c Catalog) Needs(names []string) []catalog.Need {
	var needs []catalog.Need
	for _, one := range c {
		if slices.Contains(names, one.Name) && one.Needs != "" && !slices.Contains(needs, one.Needs) {
			needs = append(needs, one.Needs)
		}
	}
	return needs
}

// Names lists the names of the contenders.
func (c Catalog) Names() []string {
	names := make([]string, len(c))
	for i, one := range c {
		names[i] = one.Name
	}
	return names
}

// usual lists the default contenders: each stage with the policy of the shop, one stage with
// the other policies, the libraries with their defaults and their best settings, and the
// limits. Locks that need other servers are left out.
func usual() (names []string) {
	for _, one := range Contenders() {
		polled := strings.Contains(one.Name, "+line:") || strings.HasPrefix(one.Name, "v6_")
		if !one.Needs.OfServers() && (polled || !strings.HasPrefix(one.Name, "v") || one.Waits == ownQueue) {
			names = append(names, one.Name)
		}
	}
	return names
}

// Contenders returns all contenders: the stages and the locks on other servers with each
// waiting policy, the libraries with their defaults and with the best settings that were found,
// and the limits.
func Contenders() Catalog {
	return slices.Concat(stages(), libraries(), limits())
}

const ownQueue = "its own queue"

// stages returns contenders for the locks of package locks, including those that need other
// servers. A lock has one contender for each policy, or only one if it waits in its own way.
func stages() Catalog {
	var all Catalog
	for _, s := range catalog.Strategies() {
		switch {
		case s.Kind != catalog.Guarded || s.Name == "none" || s.Name == "local": // no lock across processes
		case s.Extra && !s.Needs.OfServers(): // libraries have their own contenders
		case s.OwnWait:
			all = append(all, Contender{
				Name: s.Name, Waits: ownQueue, About: s.Adds, Needs: s.Needs,
				Make: stage(s, ""),
			})
		default:
			for _, policy := range []string{"line:2ms", "fixed:50ms", "fixed:5ms", "backoff:1ms-64ms"} {
				all = append(all, Contender{
					Name: s.Name + "+" + policy, Waits: policy, About: s.Adds, Needs: s.Needs,
					Make: stage(s, policy),
				})
			}
		}
	}
	return all
}

// stage returns a function that makes a strategy's guard with a waiting policy; "": its own.
func stage(s catalog.Strategy, policy string) func(string, catalog.Options) (guard.Guard, error) {
	return func(_ string, o catalog.Options) (_ guard.Guard, err error) {
		if policy != "" {
			if o.Policy, err = guard.ParsePolicy(policy); err != nil {
				return nil, err
			}
		}
		return s.NewGuard(o), nil
	}
}

// Bare is the contender without a lock in Redis: with several processes it guards nothing.
const Bare = "mutex+bare"

// limits returns contenders that are upper bounds for locks across processes.
func limits() Catalog {
	return Catalog{
		{
			Name:  "mutex+setnx",
			Waits: "a mutex in the process, whose holder asks every 1 ms",
			About: "a mutex in the process around SET NX PX with a token and the release by a script: the " +
				"contenders of a process never compete in Redis, but each turn takes the lock in Redis anew.",
			Make: func(_ string, o catalog.Options) (guard.Guard, error) {
				return &guard.Local{Inner: &guard.Distributed{
					New:    func(key string) guard.Lock { return v4.New(o.Redis, key, o.TTL) },
					Policy: guard.Fixed{Delay: time.Millisecond}, NotHeld: v4.ErrNotHeld, Undo: true,
				}}, nil
			},
		},
		{
			Name:  Bare,
			Waits: "a mutex in the process",
			About: "a mutex in the process around the GET and the SET, and no lock in Redis: " +
				"the cost of the deduct itself. With several processes it guards nothing.",
			Make: func(string, catalog.Options) (guard.Guard, error) { return new(guard.Local), nil },
		},
	}
}
