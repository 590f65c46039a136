package main

import (
	"flag"
	"fmt"
	"slices"
	"strings"

	"oversell/internal/locks"
)

// checkMeaning refuses flags that are given and change nothing in what is run: who
// gives one expects a difference. What only the environment says may be meant for other
// runs, and is let pass.
func (o options) checkMeaning(line *flag.FlagSet) error {
	if o.crowd != nil {
		return nil // checkLine has seen to it
	}
	for _, m := range o.meanings() {
		if given(line, m.flag) && !m.has {
			return fmt.Errorf("-%s is given and means nothing here: it goes with %s", m.flag, m.with)
		}
	}
	return nil
}

// meaning says whether a flag means anything in a run, and in what run it would.
type meaning struct {
	flag string
	has  bool
	with string
}

func (o options) meanings() []meaning {
	needs := o.Catalog.Needs(o.Strategies)
	fenced := o.fenced()
	return []meaning{
		{"second-look", o.Workload == locks.Cache, "-workload cache"},
		{"keeper", o.Workload == locks.Deduct, "-workload deduct"},
		{"stock", o.Workload == locks.Deduct, "-workload deduct"},
		{"retry", slices.ContainsFunc(o.strategies(), polls), "a strategy whose lock is polled for"},
		{"keys", o.Workload == locks.Deduct, "-workload deduct"},
		{"seed", slices.Contains(o.Conditions, locks.Chaos), "-conditions chaos"},
		{"faults", slices.Contains(o.Conditions, locks.Chaos), "-conditions chaos"},
		{"requests", !slices.Contains(o.Conditions, locks.Chaos), "other conditions than chaos, under which -rate and -duration say how many there are"},
		{"unfenced", o.Workload == locks.Deduct && slices.ContainsFunc(o.Strategies, func(name string) bool { return slices.Contains(fenced, name) }),
			"-workload deduct and a strategy that has tokens: " + strings.Join(fenced, ", ")},
		{"redlock", slices.Contains(needs, locks.NeedsNodes), "-strategies redlock"},
		{"etcd", slices.Contains(needs, locks.NeedsEtcd), "-strategies etcd"},
		{"zookeeper", slices.Contains(needs, locks.NeedsZooKeeper), "-strategies zookeeper"},
	}
}

// polls reports whether those who want the lock of the strategy wait by the policy.
func polls(s locks.Strategy) bool { return s.Kind == locks.Guarded && !s.OwnWait }

// strategies are those that are run.
func (o options) strategies() []locks.Strategy {
	var all []locks.Strategy
	for _, s := range o.Catalog {
		if slices.Contains(o.Strategies, s.Name) {
			all = append(all, s)
		}
	}
	return all
}

// fenced names the strategies whose tokens the stock looks at.
func (o options) fenced() []string {
	var names []string
	for _, s := range o.Catalog {
		if s.HasToken() {
			names = append(names, s.Name)
		}
	}
	return names
}
