package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"time"

	"oversell/internal/backend"
	"oversell/internal/backend/lockservers"
	"oversell/internal/bench"
	"oversell/internal/bench/lockbench"
	"oversell/internal/bench/report"
)

// workloadLock is the workload that has no shop: see package lockbench.
const workloadLock = "lock"

// stopped is how long a process is stopped under pause.
const stopped = 3 * time.Second

// faults are the faults of the workload's conditions.
func faults() map[string]lockbench.Fault {
	return map[string]lockbench.Fault{
		"calm":        {},
		"crash":       {Kill: true},
		"pause":       {Stop: stopped},
		"crash+pause": {Kill: true, Stop: stopped},
	}
}

// crowd is the configuration of the workload.
type crowd struct {
	lockbench.Config
	conditions []string
	repeat     int
}

// interpretLock parses the flags for the workload.
func (o *options) interpretLock(fs *flag.FlagSet, t texts) error {
	c := &crowd{conditions: split(t.conditions), repeat: o.Repeat, Config: lockbench.Config{
		RedisURL: o.redis, Contenders: o.Requests, Processes: 1, Wait: o.Wait,
		Names: split(t.strategies), Command: func() (*exec.Cmd, error) { return self(contenderArg) },
	}}
	if given(fs, "ttl") {
		c.TTL = o.TTL
	}
	if given(fs, "instances") {
		c.Processes = o.Instances
	}
	for i, name := range c.Names {
		c.Names[i] = lockbench.Contenders().Expand(name)
	}
	if len(c.conditions) == 0 {
		c.conditions = []string{"calm"}
	}
	if len(c.Names) == 0 {
		c.Names = lockbench.Usual()
	}
	if c.repeat < 1 || c.repeat > bench.MaxRepeat {
		return fmt.Errorf("-repeat is %d, and must be 1 to %d", c.repeat, bench.MaxRepeat)
	}
	for i, condition := range c.conditions {
		if slices.Contains(c.conditions[:i], condition) {
			return fmt.Errorf("-conditions: %s is named twice", condition)
		}
		d, known := faults()[condition]
		if !known {
			return fmt.Errorf("-conditions: unknown name of a condition: %q (allowed with -workload %s: calm, crash, pause, crash+pause)", condition, workloadLock)
		}
		c.Fault = d
		if err := c.WithDefaults().Check(); err != nil {
			return err
		}
	}
	for i, name := range c.Names {
		if slices.Contains(c.Names[:i], name) {
			return fmt.Errorf("-strategies: %s is named twice", name)
		}
	}
	c.Config = c.WithDefaults()
	o.crowd = c
	return nil
}

// lockReport is the report of workload lock.
type lockReport struct {
	Manifest report.Manifest `json:"manifest"`
	Rows     []lockRow       `json:"rows"`
	Summary  []lockGroup     `json:"summary"`
}

// lockRow is one run of one contender under one condition.
type lockRow struct {
	Strategy  string `json:"strategy"`
	Condition string `json:"condition"`
	Workload  string `json:"workload"`
	Repeat    int    `json:"repeat"` // number of this run of the row, from 1
	lockbench.Row
}

// runLock runs all rows once, then again, writes the report of the finished rows even
// after an error, and returns whether every lock held.
func (o options) runLock(ctx context.Context, stdout, stderr io.Writer) (bool, error) {
	out, err := o.open(stdout, stderr)
	if err != nil {
		return false, err
	}
	report, err := o.measureLock(ctx, stderr)
	written := out.report(len(report.Rows), func() error { return report.write(out, *o.crowd) })
	return report.sound(), errors.Join(err, written)
}

func (o options) measureLock(ctx context.Context, stderr io.Writer) (report lockReport, err error) {
	server, err := backend.ServeRedis(ctx, o.redis)
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	var show lockbench.Progress = lockbench.Silent{}
	if terminal(stderr) {
		bar := bench.NewBar(stderr)
		defer bar.Close()
		show = crowdBar{bar}
	}
	c := *o.crowd
	others, err := lockservers.Serve(ctx, o.servers, lockbench.Contenders().Needs(c.Names)...)
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, others.Close()) }()
	c.RedisURL, c.Servers = server.URL, others.Addresses
	rdb, err := backend.DialRedis(ctx, server.URL, 1)
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, rdb.Close()) }()
	name, err := backend.RedisName(ctx, rdb, server.URL)
	if err != nil {
		return report, err
	}
	report.Manifest = c.manifest(name, o.given)
	report.Manifest.Servers = others.Names
	for round := range c.repeat {
		for _, condition := range c.conditions {
			c.Fault = faults()[condition]
			rows, err := lockbench.Run(ctx, c.Config, show)
			for _, row := range rows {
				report.Rows = append(report.Rows, lockRow{row.Contender, condition, workloadLock, round + 1, row})
			}
			if err != nil && ctx.Err() != nil {
				err = fmt.Errorf("interrupted after %d finished rows: %w", len(report.Rows), err)
			}
			if err != nil {
				return report, err
			}
		}
	}
	return report, nil
}

// manifest says what the rows were run with.
func (c crowd) manifest(redis string, given []string) report.Manifest {
	m := report.NewManifest(redis, "none")
	m.Requests, m.Instances, m.Workload = c.Contenders, c.Processes, workloadLock
	m.TTL, m.Wait, m.Repeat, m.Flags = c.TTL.String(), c.Wait.String(), c.repeat, given
	m.Planned = c.repeat * len(c.conditions) * len(c.Names)
	return m
}

// sound reports whether no lock had two holders at once and no updates were lost, other
// than by a process that had been stopped.
func (r lockReport) sound() bool {
	return !slices.ContainsFunc(r.Rows, func(row lockRow) bool { return row.Verdict == lockbench.Broken && row.Contender != lockbench.Bare })
}

// crowdBar adapts the bench's bar to the progress of locks.
type crowdBar struct{ *bench.Bar }

func (b crowdBar) Row(n, all int, name string) { b.Bar.Row(n, all, name, workloadLock) }

func (b crowdBar) Done(row lockbench.Row) {
	b.Finished(fmt.Sprintf("%-28s %s", row.Contender, row.Verdict))
}

// write writes the report as a table and as JSON.
func (r lockReport) write(out output, c crowd) error {
	r.Summary = r.groups()
	_, err := io.WriteString(out.table, r.table(c, out.style))
	if out.json != nil {
		e := json.NewEncoder(out.json)
		e.SetIndent("", "  ")
		err = errors.Join(err, e.Encode(r))
	}
	return err
}
