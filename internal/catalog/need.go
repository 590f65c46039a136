package catalog

import "slices"

// Need is what a strategy needs besides one Redis and a database.
type Need string

// The needs.
const (
	NeedsNothing   Need = ""
	NeedsNodes     Need = "redlock"     // independent Redis servers: Options.Nodes
	NeedsEtcd      Need = "etcd"        // Options.Etcd
	NeedsZooKeeper Need = "zookeeper"   // Options.ZooKeeper
	NeedsRueidis   Need = "rueidislock" // Options.Rueidislock
)

// OfServers reports whether the need is of servers beside the one Redis and the database.
func (n Need) OfServers() bool {
	return n == NeedsNodes || n == NeedsEtcd || n == NeedsZooKeeper
}

// Meets reports whether the options meet a need, now or by Later.
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
