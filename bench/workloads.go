package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"

	"oversell/internal/bench"
	"oversell/internal/bench/lockbench"
	"oversell/internal/bench/report"
	"oversell/internal/catalog"
)

// workload is what this program knows of a workload.
type workload struct {
	flags string // that it takes
	run   func(context.Context, bench.Config, bench.Progress) ([]report.Row, error)

	// arg is the argument that makes this program one of the workload's processes, and process
	// what that runs.
	arg     string
	process func(ctx context.Context, in io.Reader, out, log io.Writer) error
}

// workloads are those of -workload.
func workloads() map[catalog.Workload]workload {
	instance := func(ctx context.Context, in io.Reader, out, log io.Writer) error {
		return bench.Serve(ctx, in, out, log, nil)
	}
	return map[catalog.Workload]workload{
		catalog.Deduct: {
			flags: `workload strategies conditions requests stock instances ttl repeat
				redis db redlock etcd zookeeper target token rate duration in-flight items skew seed faults seam
				work wait retry keys keeper unfenced accept-replicas json html lang`,
			run: bench.Run, arg: "instance", process: instance,
		},
		catalog.Cache: {
			flags: `workload strategies conditions requests instances ttl repeat
				redis db redlock etcd zookeeper target token in-flight work wait retry second-look json html lang`,
			run: bench.Run, arg: "instance", process: instance,
		},
		catalog.Hold: {
			flags: "workload strategies conditions requests stock instances ttl repeat redis db seam json html lang",
			run:   bench.Run, arg: "instance", process: instance,
		},
		report.WorkloadLock: {
			flags: `workload strategies conditions requests instances ttl repeat
				redis redlock etcd zookeeper wait json lang`,
			run: func(ctx context.Context, c bench.Config, p bench.Progress) ([]report.Row, error) {
				return lockbench.Run(ctx, lockbench.Contenders(), c, p)
			},
			arg: "contender",
			process: func(ctx context.Context, in io.Reader, out, _ io.Writer) error {
				return lockbench.Serve(ctx, lockbench.Contenders(), in, out)
			},
		},
	}
}

// checkTaken refuses flags that the workload does not take.
func checkTaken(line *flag.FlagSet, name string) (err error) {
	w, known := workloads()[catalog.Workload(name)]
	taken := strings.Fields(w.flags)
	line.Visit(func(f *flag.Flag) {
		if known && !slices.Contains(taken, f.Name) {
			err = fmt.Errorf("-%s is not a flag of workload %s, which takes -%s", f.Name, name,
				strings.Join(taken, ", -"))
		}
	})
	return err
}

// serve runs one of the program's own processes, and returns its exit code, if the argument is
// that of one.
func serve(ctx context.Context, arg string) (code int, found bool) {
	for _, w := range workloads() {
		if w.arg != arg {
			continue
		}
		if err := w.process(ctx, os.Stdin, os.Stdout, os.Stderr); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return exitFailed, true
		}
		return exitExpected, true
	}
	return 0, false
}

// A run whose workload is not named sells under the strategies of workload deduct, and then
// by holds under the stages of workload hold. Each part has its own sizes and its own table.

// parts are the configs of the run's parts, on its servers.
func (o options) parts() []bench.Config {
	all := []bench.Config{o.Config}
	if o.holds != nil {
		c := *o.holds
		c.RedisURL, c.DBURL, c.Failovers = o.RedisURL, o.DBURL, o.Failovers
		all = append(all, c)
	}
	for i := range all {
		arg := workloads()[all[i].Workload].arg
		all[i].Command = func() (*exec.Cmd, error) {
			path, err := os.Executable()
			if err != nil {
				return nil, fmt.Errorf("finding this program's file: %w", err)
			}
			return exec.Command(path, arg), nil
		}
	}
	return all
}

// manifest says what the parts are run with.
func (o options) manifest(redis, db string, servers []string) report.Manifest {
	var all []report.Manifest
	for _, part := range o.parts() {
		all = append(all, part.Manifest(redis, db))
	}
	m := all[0]
	m.Servers, m.Flags, m.Also = servers, o.given, all[1:]
	return m
}

// runParts runs the parts one after the other, and returns the finished rows even after an
// error.
func (o options) runParts(ctx context.Context, p bench.Progress) (rows []report.Row, err error) {
	planned := 0
	for _, part := range o.parts() {
		planned += len(part.Strategies) * len(part.Conditions) * part.Repeat
	}
	for _, part := range o.parts() {
		more, err := workloads()[part.Workload].run(ctx, part, partOf{p, len(rows), planned})
		rows = append(rows, more...)
		if err != nil {
			return rows, err
		}
	}
	return rows, nil
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
