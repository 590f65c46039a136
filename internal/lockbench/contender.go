package lockbench

import (
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"oversell/internal/locks"
)

// Contender is a lock and a way of waiting for it: what a row measures.
type Contender struct {
	Name  string
	Waits string // how a waiter comes by the lock, in a few words
	About string // what is set, and why

	// Tracking says that the server must have CLIENT TRACKING.
	Tracking bool

	// Make makes the guard through which all contenders of a process go. It is
	// called once in each process. A guard that is an io.Closer is closed when
	// the row is over.
	Make func(p Process) (locks.Guard, error)
}

// Process is what a process has for its guard.
type Process struct {
	Redis redis.UniversalClient // one pool for the lock and the counter
	Key   string                // of the lock; its further keys must begin with it
	TTL   time.Duration         // for locks that have no lease of their own
}

// Catalog is a list of contenders.
type Catalog []Contender

// Find returns the contender called name. The error wraps locks.ErrName and
// lists the names that are allowed.
func (c Catalog) Find(name string) (Contender, error) {
	for _, one := range c {
		if one.Name == name {
			return one, nil
		}
	}
	return Contender{}, fmt.Errorf("%w of a contender: %q (allowed: %v)", locks.ErrName, name, c.Names())
}

// Names lists the names of the contenders.
func (c Catalog) Names() []string {
	names := make([]string, len(c))
	for i, one := range c {
		names[i] = one.Name
	}
	return names
}

// Usual lists the names of those that are worth everybody's time: each stage as
// it waits in the shop, the other ways of waiting with one of them, the locks of
// others with their defaults and at their best, and the limits.
func Usual() []string {
	var names []string
	for _, one := range Contenders() {
		polled := strings.Contains(one.Name, "+line:") || strings.HasPrefix(one.Name, "v6_")
		if polled || !strings.HasPrefix(one.Name, "v") || one.Waits == ownQueue {
			names = append(names, one.Name)
		}
	}
	return names
}

// Contenders returns all that the project measures: its own stages, each with
// each way of waiting, the locks of others, with their defaults and with the
// best settings that were found, and the limits of what is possible.
func Contenders() Catalog {
	var all Catalog
	all = append(all, stages()...)
	all = append(all, redsyncs()...)
	all = append(all, redislocks()...)
	all = append(all, rueidislocks()...)
	return append(all, limits()...)
}
