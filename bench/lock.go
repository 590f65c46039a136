package main

import (
	"flag"
	"fmt"
	"os/exec"

	"oversell/internal/bench"
	"oversell/internal/bench/lockbench"
	"oversell/internal/bench/report"
	"oversell/internal/catalog"
)

// workloadLock is the workload that has no shop: see package lockbench.
const workloadLock = string(report.WorkloadLock)

// interpretLock parses the flags for the workload.
func (o *options) interpretLock(fs *flag.FlagSet, t texts) error {
	c := lockbench.Config{
		Contenders: o.Requests, Wait: o.Wait, Repeat: o.Repeat, Names: split(t.strategies),
		Command: func() (*exec.Cmd, error) { return self(contenderArg) },
	}
	if given(fs, "ttl") {
		c.TTL = o.TTL
	}
	if given(fs, "instances") {
		c.Processes = o.Instances
	}
	for i, name := range c.Names {
		c.Names[i] = lockbench.Contenders().Expand(name)
	}
	for _, name := range split(t.conditions) {
		c.Conditions = append(c.Conditions, catalog.Condition(name))
	}
	if c.Repeat < 1 || c.Repeat > bench.MaxRepeat {
		return fmt.Errorf("-repeat is %d, and must be 1 to %d", c.Repeat, bench.MaxRepeat)
	}
	c = c.WithDefaults()
	o.lock, o.Strategies = &c, nil
	return c.Check()
}
