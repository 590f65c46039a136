package lockbench

import (
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"oversell/internal/catalog"
	"oversell/internal/guard"
)

// Contender is a lock and a way of waiting for it, which a row measures.
type Contender struct {
	Name  string
	Waits string // how a waiter gets the lock, in a few words
	About string // its settings, and why

	// Tracking says that it needs a server with CLIENT TRACKING.
	Tracking bool

	// Make makes the guard that all contenders of a process share. It is called once in
	// each process. A guard that is an io.Closer is closed after the row.
	Make func(p Process) (guard.Guard, error)
}

// Process is what a guard can use.
type Process struct {
	Redis redis.UniversalClient // one pool for the lock and the counter
	Key   string                // of the lock; a prefix of its other keys
	TTL   time.Duration         // for locks without a lease of their own
}

// Catalog is a list of contenders.
type Catalog []Contender

// Find returns the contender called name. The error wraps catalog.ErrName and
// lists the names that are allowed.
func (c Catalog) Find(name string) (Contender, error) {
	for _, one := range c {
		if one.Name == name {
			return one, nil
		}
	}
	return Contender{}, fmt.Errorf("%w of a contender: %q (allowed: %v)", catalog.ErrName, name, c.Names())
}

// Names lists the names of the contenders.
func (c Catalog) Names() []string {
	names := make([]string, len(c))
	for i, one := range c {
		names[i] = one.Name
	}
	return names
}

// Usual lists the default contenders: each stage with the policy of the shop, one stage with
// the other policies, the libraries with their defaults and their best settings, and the
// limits.
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

// Contenders returns all contenders: the stages with each waiting policy, the libraries
// with their defaults and with the best settings that were found, and the limits.
func Contenders() Catalog {
	var all Catalog
	all = append(all, stages()...)
	all = append(all, redsyncs()...)
	all = append(all, redislocks()...)
	all = append(all, rueidislocks()...)
	return append(all, limits()...)
}
