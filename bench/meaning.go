package main

import (
	"flag"
	"fmt"
	"slices"
	"strings"

	"oversell/internal/catalog"
)

// checkMeaning refuses flags that have no effect on this run. A setting from the
// environment alone is ignored: it may be meant for other runs.
func (o options) checkMeaning(line *flag.FlagSet) error {
	if o.crowd != nil || len(o.Strategies) == 0 {
		return nil // checkLine has done it
	}
	for _, m := range o.meanings() {
		if given(line, m.flag) && !m.has {
			return fmt.Errorf("-%s has no effect here: it is for %s", m.flag, m.with)
		}
	}
	return nil
}

// meaning says whether a flag has an effect on a run, and on which runs it has.
type meaning struct {
	flag string
	has  bool
	with string
}

func (o options) meanings() []meaning {
	needs := o.Catalog.Needs(o.Strategies)
	anyOf := func(is func(catalog.Strategy) bool) bool {
		return slices.ContainsFunc(o.Catalog, func(s catalog.Strategy) bool { return is(s) && slices.Contains(o.Strategies, s.Name) })
	}
	var fenced []string
	for _, s := range o.Catalog {
		if s.HasToken() {
			fenced = append(fenced, s.Name)
		}
	}
	deduct, chaos := o.Workload == catalog.Deduct, slices.Contains(o.Conditions, catalog.Chaos)
	polls := func(s catalog.Strategy) bool { return s.Kind == catalog.Guarded && !s.OwnWait }
	return []meaning{
		{"second-look", o.Workload == catalog.Cache, "-workload cache"},
		{"keeper", deduct, "-workload deduct"},
		{"stock", deduct, "-workload deduct"},
		{"retry", anyOf(polls), "a strategy that polls for its lock"},
		{"keys", deduct, "-workload deduct"},
		{"seed", chaos || o.Items > 1, "-conditions chaos, or several -items"},
		{"skew", o.Items > 1, "several -items"},
		{"faults", chaos, "-conditions chaos"},
		{"requests", !chaos, "other conditions than chaos, which takes -rate and -duration"},
		{"unfenced", deduct && anyOf(catalog.Strategy.HasToken), "-workload deduct and a strategy with fencing tokens: " + strings.Join(fenced, ", ")},
		{"accept-replicas", deduct && anyOf(func(s catalog.Strategy) bool { return s.Kind == catalog.Streamed }), "-workload deduct and -strategies lua_stream"},
		{"redlock", slices.Contains(needs, catalog.NeedsNodes), "-strategies redlock"},
		{"etcd", slices.Contains(needs, catalog.NeedsEtcd), "-strategies etcd"},
		{"zookeeper", slices.Contains(needs, catalog.NeedsZooKeeper), "-strategies zookeeper"},
	}
}
