package main

import (
	"errors"
	"flag"
	"fmt"
	"os/exec"
	"slices"
	"strings"

	"oversell/internal/bench"
	"oversell/internal/bench/holdsale"
	"oversell/internal/catalog"
	"oversell/internal/fleet"
)

// newHold returns a config of the workload, without sizes and conditions.
func (o *options) newHold(stages []string) *holdsale.Config {
	c := &holdsale.Config{
		Stages: stages, Instances: o.Instances, Repeat: o.Repeat,
		Shop:     func() (*exec.Cmd, error) { return self(holdShopArg) },
		Provider: func() (*exec.Cmd, error) { return self(providerArg) },
	}
	switch o.redis {
	case "embedded":
	case "local":
		c.Failovers = struct{ bench.Failovers }{} // a placeholder: it is started if it is needed
	default:
		c.RedisURL = o.redis
	}
	return c
}

// interpretHold parses the flags for the workload.
func (o *options) interpretHold(fs *flag.FlagSet, t texts) error {
	c := o.newHold(split(t.strategies))
	if o.html == "-" {
		return errHTML
	}
	for name, zero := range map[string]bool{"ttl": o.TTL == 0, "requests": o.Requests == 0, "stock": o.Stock == 0, "instances": o.Instances == 0, "repeat": o.Repeat == 0} {
		if given(fs, name) && zero {
			return fmt.Errorf("-%s is 0 (-h shows what is allowed)", name)
		}
	}
	if given(fs, "ttl") {
		c.TTL = o.TTL
	}
	if given(fs, "requests") {
		c.Buyers = o.Requests
	}
	if given(fs, "stock") {
		c.Stock = o.Stock
	}
	for _, name := range split(t.conditions) {
		condition, err := catalog.ParseCondition(name)
		if err != nil {
			return fmt.Errorf("-conditions: %w", err)
		}
		c.Conditions = append(c.Conditions, condition)
	}
	var others []fleet.Seam
	if c.Seams, others = seams(t.seam); len(others) > 0 {
		return fmt.Errorf("-seam: %w of a seam of workload %s: %q (allowed: %v)", catalog.ErrName, catalog.Hold, others[0], holdsale.Seams())
	}
	if slices.Equal(c.Stages, []string{allStrategies}) {
		c.Stages = nil
	}
	*c = c.WithDefaults()
	o.hold, o.Strategies = c, nil
	return c.Check()
}

// seams are the seams of a sale by holds that a flag names, and the others.
func seams(text string) (all, others []fleet.Seam) {
	if text == allStrategies {
		return holdsale.Seams(), nil
	}
	for _, name := range split(text) {
		at := fleet.Seam(name)
		if slices.Contains(holdsale.Seams(), at) {
			all = append(all, at)
		} else {
			others = append(others, at)
		}
	}
	return all, others
}

// list lists seams.
func list(seams []fleet.Seam) string {
	names := make([]string, len(seams))
	for i, at := range seams {
		names[i] = string(at)
	}
	return strings.Join(names, ",")
}

var errHTML = errors.New("-html is -, and must be a file: standard output is for the table")

// seamUsage is the usage of -seam.
func seamUsage() string {
	return "`SEAMS` at which condition crash kills a process, separated by commas, or all; of workload hold: " + list(holdsale.Seams()) +
		" (default all for h3_claim, capture,order for the others); of lua_stream: " + list(bench.Seams()) +
		" (default: in the work before the script)"
}
