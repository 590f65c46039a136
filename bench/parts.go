package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"

	"oversell/internal/bench"
	"oversell/internal/bench/holdsale"
	"oversell/internal/bench/lockbench"
	"oversell/internal/bench/report"
	"oversell/internal/catalog"
)

// A run whose workload is not named sells under the strategies of workload deduct, and then
// by holds under the stages of workload hold. Each part has its own sizes and its own table.

// divide decides the workload by the strategies: stages of holds alone are workload hold, and
// stages beside other strategies are set apart.
func (t *texts) divide() {
	var others []string
	for _, name := range split(t.strategies) {
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

// holdsBeside are the conditions of a sale by holds beside other rows, unless others are given.
var holdsBeside = []catalog.Condition{catalog.Calm, catalog.Crash, catalog.Pause}

// addHolds adds the rows of a sale by holds to a run whose workload was not named. If the run
// cannot have them it is an error only for stages that were named.
func (o *options) addHolds(fs *flag.FlagSet, t texts) error {
	stages, named := t.stages, len(t.stages) > 0
	switch {
	case given(fs, "workload"):
		return nil
	case named:
	case !given(fs, "strategies"):
		stages = []string{catalog.DefaultHoldStage}
	case strings.TrimSpace(t.strategies) == allStrategies:
		stages = catalog.HoldNames()
	default:
		return nil
	}
	var why error
	switch {
	case len(o.Targets) > 0:
		why = errors.New("it needs shops that the bench starts")
	case o.Items > 1:
		why = errors.New("it sells one item, and -items says several")
	case o.Rate > 0:
		why = errors.New("its buyers do not come at a -rate")
	default:
		c := o.newHold(stages)
		c.Conditions = o.holdConditions(fs, named)
		if len(c.Conditions) == 0 {
			return nil
		}
		c.Seams, _ = seams(t.seam)
		*c = c.WithDefaults()
		if why = c.Check(); why == nil {
			o.hold = c
			return nil
		}
	}
	if !named {
		return nil
	}
	return fmt.Errorf("%s is of workload %s: %w", strings.Join(stages, ","), catalog.Hold, why)
}

// holdConditions are the conditions of a sale by holds beside other rows. Stages that were
// not named do without the conditions that they do not have.
func (o *options) holdConditions(fs *flag.FlagSet, named bool) []catalog.Condition {
	if !given(fs, "conditions") {
		return slices.Clone(holdsBeside)
	}
	if named {
		return o.Conditions
	}
	return slices.DeleteFunc(slices.Clone(o.Conditions), func(c catalog.Condition) bool {
		return !slices.Contains(catalog.HoldConditions(), c)
	})
}

// failsOver reports whether any part of the run has rows with a failover.
func (o options) failsOver() bool {
	return slices.Contains(o.Conditions, catalog.Failover) || o.hold != nil && slices.Contains(o.hold.Conditions, catalog.Failover)
}

// part is the rows of one workload.
type part struct {
	manifest report.Manifest
	run      func(context.Context, bench.Progress) ([]report.Row, error)
}

// parts returns the parts of the run, on the backends that redis and db describe.
func (o options) parts(redis, db string) []part {
	var all []part
	if len(o.Strategies) > 0 {
		all = append(all, part{o.Manifest(redis, db), func(ctx context.Context, p bench.Progress) ([]report.Row, error) {
			return bench.Run(ctx, o.Config, p)
		}})
	}
	if o.lock != nil {
		c := *o.lock
		c.RedisURL, c.Servers = o.RedisURL, o.Servers
		all = append(all, part{c.Manifest(redis), func(ctx context.Context, p bench.Progress) ([]report.Row, error) {
			return lockbench.Run(ctx, c, p)
		}})
	}
	if o.hold != nil {
		c := *o.hold
		c.RedisURL, c.DBURL, c.Failovers = o.RedisURL, o.DBURL, o.Failovers
		all = append(all, part{c.Manifest(redis, db), func(ctx context.Context, p bench.Progress) ([]report.Row, error) {
			return holdsale.Run(ctx, c, p)
		}})
	}
	return all
}

// runParts runs the parts one after the other, and returns the finished rows even after an
// error.
func runParts(ctx context.Context, parts []part, p bench.Progress) (rows []report.Row, err error) {
	planned := 0
	for _, one := range parts {
		planned += one.manifest.Planned
	}
	for _, one := range parts {
		more, err := one.run(ctx, partOf{p, len(rows), planned})
		rows = append(rows, more...)
		if err != nil {
			return rows, err
		}
	}
	return rows, nil
}

// Step is part of bench.Stepper.
func (p partOf) Step(doing string, left func() int64) {
	if s, ok := p.Progress.(bench.Stepper); ok {
		s.Step(doing, left)
	}
}

// partOf counts the rows of a part among those of all parts.
type partOf struct {
	bench.Progress
	before, all int
}

// Row is part of bench.Progress.
func (p partOf) Row(n, _ int, strategy string, c catalog.Condition) {
	p.Progress.Row(p.before+n, p.all, strategy, c)
}
