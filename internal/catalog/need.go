package catalog

import (
	"slices"

	"oversell/internal/locks/nativelock"
)

// Need is what a strategy needs besides one Redis and a database.
type Need string

// The needs.
const (
	NeedsNothing   Need = ""
	NeedsNodes     Need = "redlock"     // independent Redis servers: Options.Nodes
	NeedsEtcd      Need = "etcd"        // Options.Etcd
	NeedsZooKeeper Need = "zookeeper"   // Options.ZooKeeper
	NeedsRueidis   Need = "rueidislock" // Options.Rueidislock

	// NeedsReplicas is a need of Options.Redis itself. The lock finds out whether it is
	// met.
	NeedsReplicas Need = "replicas"

	// The needs of newer commands of Options.Redis, see Options.WithCommands.
	NeedsCompare Need = "compare" // SET IFEQ, and DELEX or DELIFEQ: Options.Release
	NeedsIncrex  Need = "increx"  // INCREX: Options.Increx
)

// OfServers reports whether the need is of servers beside the one Redis and the database.
func (n Need) OfServers() bool {
	return n == NeedsNodes || n == NeedsEtcd || n == NeedsZooKeeper
}

// Commands says in a few words which commands of Redis the need is of, with the versions that
// have them; "" if it is of none.
func (n Need) Commands() string {
	switch n {
	case NeedsCompare:
		return "SET IFEQ with DELEX (Redis 8.4) or DELIFEQ (Valkey 9.0)"
	case NeedsIncrex:
		return "INCREX (Redis 8.8, Valkey 9.2)"
	}
	return ""
}

const increx = "INCREX"

// NewCommands returns the commands whose presence Options.WithCommands wants to know. A server
// with DELEX or DELIFEQ has SET IFEQ, too.
func NewCommands() []string {
	return []string{string(nativelock.DELEX), string(nativelock.DELIFEQ), increx}
}

// WithCommands returns o for a Redis of which it is known which of NewCommands it has.
func (o Options) WithCommands(has map[string]bool) Options {
	o.Release, o.Increx = "", has[increx]
	for _, release := range []nativelock.Release{nativelock.DELEX, nativelock.DELIFEQ} {
		if o.Release == "" && has[string(release)] {
			o.Release = release
		}
	}
	return o
}

// Meets reports whether the options meet a need, now or by Later. A need of replicas counts as
// met: the lock finds out.
func (o Options) Meets(n Need) bool {
	if o.Later[n] != nil {
		return true
	}
	switch n {
	case NeedsNodes:
		return len(o.Nodes) > 0
	case NeedsEtcd:
		return o.Etcd != nil
	case NeedsZooKeeper:
		return o.ZooKeeper != nil
	case NeedsRueidis:
		return o.Rueidislock != nil
	case NeedsCompare:
		return o.Release != ""
	case NeedsIncrex:
		return o.Increx
	}
	return true
}

// With returns the strategies whose needs the options meet.
func (c List) With(o Options) List {
	return slices.DeleteFunc(slices.Clone(c), func(s Strategy) bool { return !o.Meets(s.Needs) })
}

// Needs returns the needs of the strategies with these names, each once. It ignores names
// that are not in the catalog.
func (c List) Needs(names []string) []Need {
	var needs []Need
	for _, s := range c {
		if s.Needs != NeedsNothing && slices.Contains(names, s.Name) && !slices.Contains(needs, s.Needs) {
			needs = append(needs, s.Needs)
		}
	}
	return needs
}
