package main

import (
	"context"
	"os/exec"
	"strings"

	"oversell/internal/bench"
	"oversell/internal/bench/lockbench"
	"oversell/internal/bench/report"
	"oversell/internal/catalog"
	"oversell/internal/fleet"
)

// flagsOf returns the flags that each workload takes.
func flagsOf() map[catalog.Workload][]string {
	return map[catalog.Workload][]string{
		catalog.Deduct: strings.Fields(`workload strategies conditions requests stock instances ttl repeat
			redis db redlock etcd zookeeper target token rate duration in-flight items skew seed faults seam
			work wait retry keys keeper unfenced accept-replicas json html lang`),
		catalog.Cache: strings.Fields(`workload strategies conditions requests instances ttl repeat
			redis db redlock etcd zookeeper target token in-flight work wait retry second-look json html lang`),
		catalog.Hold: strings.Fields(`workload strategies conditions requests stock instances ttl repeat
			redis db seam json html lang`),
		report.WorkloadLock: strings.Fields(`workload strategies conditions requests instances ttl repeat
			redis redlock etcd zookeeper wait json lang`),
	}
}

// A run that names no workload can have two parts: first a sale under the strategies of the
// deduct workload, then a sale by holds under the stages of the hold workload. Each part has
// its own sizes and its own table.

// parts returns the configs of the run's parts, with the run's servers.
func (o options) parts() []bench.Config {
	all := []bench.Config{o.Config}
	if o.holds != nil {
		c := *o.holds
		c.RedisURL, c.DBURL, c.Failovers = o.RedisURL, o.DBURL, o.Failovers
		all = append(all, c)
	}
	for i := range all {
		arg := asInstance
		if all[i].Workload == report.WorkloadLock {
			arg = asContender
		}
		all[i].Command = func() (*exec.Cmd, error) { return fleet.Self(context.Background(), arg) }
	}
	return all
}

// manifest returns the manifest of the first part. Its field Also holds those of the other parts.
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
		more, err := runPart(ctx, part, partOf{p, len(rows), planned})
		rows = append(rows, more...)
		if err != nil {
			return rows, err
		}
	}
	return rows, nil
}

func runPart(ctx context.Context, c bench.Config, p bench.Progress) ([]report.Row, error) {
	if c.Workload == report.WorkloadLock {
		return lockbench.Run(ctx, lockbench.Contenders(), c, p)
	}
	return bench.Run(ctx, c, p)
}

// partOf is the Progress of one part: it numbers the part's rows among those of all parts.
type partOf struct {
	bench.Progress
	before, all int
}

// Row implements bench.Progress.
func (p partOf) Row(n, _ int, strategy string, c catalog.Condition) {
	p.Progress.Row(p.before+n, p.all, strategy, c)
}
