package main

import (
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"

	"oversell/internal/bench"
	"oversell/internal/bench/lockbench"
	"oversell/internal/catalog"
	"oversell/internal/cmdline"
	"oversell/internal/fleet"
	"oversell/internal/naming"
)

// ownSizes returns the config of a workload that has its own defaults. It takes only the flags
// that were set.
func (o *options) ownSizes(fs *flag.FlagSet, t texts) bench.Config {
	c := bench.Config{Strategies: naming.Split(t.strategies), Repeat: o.Repeat}
	for name, set := range map[string]func(){
		"ttl":       func() { c.TTL = o.TTL },
		"requests":  func() { c.Requests = o.Requests },
		"stock":     func() { c.Stock = o.Stock },
		"instances": func() { c.Instances = o.Instances },
	} {
		if cmdline.Given(fs, name) {
			set()
		}
	}
	return c
}

// locks sets and checks the config of the lock workload.
func (o *options) locks(fs *flag.FlagSet, t texts) error {
	c := o.ownSizes(fs, t)
	c.Wait = o.Wait
	for i, name := range c.Strategies {
		c.Strategies[i] = lockbench.Contenders().Expand(name)
	}
	for _, name := range naming.Split(t.conditions) {
		c.Conditions = append(c.Conditions, catalog.Condition(name)) // the workload has its own conditions
	}
	o.Config = lockbench.WithDefaults(c)
	return lockbench.Check(lockbench.Contenders(), o.Config)
}

// onlyHolds sets and checks the config of the hold workload.
func (o *options) onlyHolds(fs *flag.FlagSet, t texts) (err error) {
	c := o.ownSizes(fs, t)
	if slices.Equal(c.Strategies, []string{allStrategies}) {
		c.Strategies = nil
	}
	if c.Conditions, err = parseConditions(t); err != nil {
		return err
	}
	var others []fleet.Seam
	if c.Seams, others = seams(t.seam); len(others) > 0 {
		return fmt.Errorf("-seam: %w", naming.Check("seam of workload hold", string(others[0]), bench.HoldSeams()))
	}
	c.Workload = catalog.Hold
	o.Config = c.WithDefaults()
	return o.withServers(o.Config).Check()
}

// divide chooses the workload by the strategies. If all of them are stages of holds, it chooses the
// hold workload. If only some are, it moves these to t.stages.
func (t *texts) divide() {
	var others []string
	for _, name := range naming.Split(t.strategies) {
		if slices.Contains(catalog.HoldNames(), name) {
			t.stages = append(t.stages, name)
		} else {
			others = append(others, name)
		}
	}
	switch {
	case len(t.stages) == 0:
	case len(others) == 0:
		t.workload, t.stages = string(catalog.Hold), nil
	default:
		t.strategies = strings.Join(others, ",")
	}
}

// addHolds adds the rows of a sale by holds to a run that names no workload. If the run cannot
// have them, that is an error only if stages were named.
func (o *options) addHolds(fs *flag.FlagSet, t texts) error {
	stages, named := t.stages, len(t.stages) > 0
	switch {
	case cmdline.Given(fs, "workload"):
		return nil
	case named:
	case !cmdline.Given(fs, "strategies"):
		stages = []string{catalog.DefaultHoldStage}
	case strings.TrimSpace(t.strategies) == allStrategies:
		stages = catalog.HoldNames()
	default:
		return nil
	}
	c := bench.Config{
		Workload: catalog.Hold, Strategies: stages, Conditions: o.holdConditions(fs, named),
		Instances: o.Instances, Repeat: o.Repeat,
	}
	c.Seams, _ = seams(t.seam)
	var why error
	switch {
	case len(o.Targets) > 0:
		why = errors.New("it needs shops that the bench starts")
	case o.Items > 1:
		why = errors.New("it sells one item, and -items says several")
	case o.Rate > 0:
		why = errors.New("its buyers do not arrive at a -rate")
	case len(c.Conditions) == 0:
		return nil
	default:
		c = c.WithDefaults()
		why = o.withServers(c).Check()
	}
	switch {
	case why == nil:
		o.holds = &c
	case named:
		return fmt.Errorf("%s is of workload %s: %w", strings.Join(stages, ","), catalog.Hold, why)
	}
	return nil
}

// holdConditions returns the conditions of a sale by holds in a run with other rows. Unless stages
// were named, it leaves out conditions that a sale by holds does not have.
func (o *options) holdConditions(fs *flag.FlagSet, named bool) []catalog.Condition {
	switch {
	case !cmdline.Given(fs, "conditions"):
		return []catalog.Condition{catalog.Calm, catalog.Crash, catalog.Pause}
	case named:
		return o.Conditions
	}
	return slices.DeleteFunc(slices.Clone(o.Conditions), func(c catalog.Condition) bool {
		return !slices.Contains(catalog.HoldConditions(), c)
	})
}

// seams divides the seams in a flag into those of a sale by holds and the others.
func seams(text string) (ofHolds, others []fleet.Seam) {
	if text == allStrategies {
		return bench.HoldSeams(), nil
	}
	for _, name := range naming.Split(text) {
		at := fleet.Seam(name)
		if slices.Contains(bench.HoldSeams(), at) {
			ofHolds = append(ofHolds, at)
		} else {
			others = append(others, at)
		}
	}
	return ofHolds, others
}

// seamUsage returns the usage text of -seam.
func seamUsage() string {
	list := func(seams []fleet.Seam) string {
		return strings.Trim(strings.ReplaceAll(fmt.Sprint(seams), " ", ","), "[]")
	}
	return "`SEAMS` at which condition crash kills a process, separated by commas, or all; of workload hold: " +
		list(bench.HoldSeams()) + " (default all for h3_claim, capture,order for the others); of lua_stream: " +
		list(bench.Seams()) + " (default: in the work before the script)"
}
