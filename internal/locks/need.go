package locks

import "slices"

// Need is what a strategy takes besides one Redis and a database.
type Need string

// The needs.
const (
	NeedsNothing   Need = ""
	NeedsNodes     Need = "redlock"     // independent Redis servers: Options.Nodes
	NeedsEtcd      Need = "etcd"        // Options.Etcd
	NeedsZooKeeper Need = "zookeeper"   // Options.ZooKeeper
	NeedsRueidis   Need = "rueidislock" // Options.Rueidislock

	// NeedsReplicas is met by the Redis of the Options, or not: the lock finds out.
	NeedsReplicas Need = "replicas"
)

// has reports whether the options meet a need, now or later.
func (o Options) has(n Need) bool {
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
	}
	return true
}

// With returns the strategies that can be had with the options.
func (c Catalog) With(o Options) Catalog {
	return slices.DeleteFunc(slices.Clone(c), func(s Strategy) bool { return !o.has(s.Needs) })
}

// Needs returns what the strategies with these names need, each need once. A name
// that is not in the catalog needs nothing.
func (c Catalog) Needs(names []string) []Need {
	var needs []Need
	for _, s := range c {
		if s.Needs != NeedsNothing && slices.Contains(names, s.Name) && !slices.Contains(needs, s.Needs) {
			needs = append(needs, s.Needs)
		}
	}
	return needs
}
