package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"

	"oversell/internal/backend"
	"oversell/internal/bench"
	"oversell/internal/bench/holdsale"
	"oversell/internal/bench/report"
	"oversell/internal/catalog"
)

// The arguments that make this program a shop or the payment provider of workload hold.
const (
	holdShopArg = "holdshop"
	providerArg = "provider"
)

// serveHold runs a process of workload hold.
func serveHold(ctx context.Context, serve func(ctx context.Context, in io.Reader, out, log io.Writer) error, in io.Reader, stdout, stderr io.Writer) int {
	if err := serve(ctx, in, stdout, stderr); err != nil {
		fmt.Fprintln(stderr, err)
		return exitFailed
	}
	return exitExpected
}

// forHold are the flags that the workload uses.
var forHold = []string{"redis", "db", "requests", "stock", "instances", "workload", "strategies", "conditions", "ttl", "repeat", "seam", "json", "html"}

// interpretHold parses the flags for the workload.
func (o *options) interpretHold(fs *flag.FlagSet, t texts) error {
	c := &holdsale.Config{
		Stages: split(t.strategies), Instances: o.Instances, Repeat: o.Repeat,
		Shop:     func() (*exec.Cmd, error) { return self(holdShopArg) },
		Provider: func() (*exec.Cmd, error) { return self(providerArg) },
	}
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
	if given(fs, "seam") {
		if !slices.Contains(c.Conditions, catalog.Crash) && len(c.Conditions) > 0 {
			return fmt.Errorf("-seam has no effect here: it is for -conditions %s", catalog.Crash)
		}
		if c.Seams = seams(t.seam); t.seam == allStrategies {
			c.Seams = holdsale.Seams()
		}
	}
	if slices.Equal(c.Stages, []string{allStrategies}) {
		c.Stages = nil
	}
	*c = c.WithDefaults()
	o.hold = c
	return c.Check()
}

// seams are the seams that a flag names.
func seams(text string) (all []holdsale.Seam) {
	for _, name := range split(text) {
		all = append(all, holdsale.Seam(name))
	}
	return all
}

var errHTML = errors.New("-html is -, and must be a file: standard output is for the table")

// seamUsage is the usage of -seam.
func seamUsage() string {
	var names []string
	for _, at := range holdsale.Seams() {
		names = append(names, string(at))
	}
	return "`SEAMS` of a sale by holds at which condition crash kills a shop, in turn, separated by commas: " + strings.Join(names, ",") + ", or all (default all for h3_claim, capture,order for the others)"
}

// runHold runs the workload, as run does the others.
func (o options) runHold(ctx context.Context, stdout, stderr io.Writer) (bool, error) {
	out, err := o.open(stdout, stderr)
	if err != nil {
		return false, err
	}
	report, err := o.measureHold(ctx, stderr)
	written := out.report(len(report.Rows), func() error { return out.write(report) })
	return report.AsExpected(), errors.Join(err, written)
}

func (o options) measureHold(ctx context.Context, stderr io.Writer) (r report.Report, err error) {
	servers, err := backend.Serve(ctx, o.redis, o.db)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, servers.Close()) }()
	c := *o.hold
	c.RedisURL, c.DBURL = servers.RedisURL, servers.DBURL
	var progress holdsale.Progress = bench.Silent{}
	if terminal(stderr) {
		bar := bench.NewBar(stderr)
		defer bar.Close()
		progress = bar
	}
	r.Manifest = c.Manifest(servers.RedisName, servers.DBName)
	r.Manifest.Flags = o.given
	r.Rows, err = holdsale.Run(ctx, c, progress)
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("interrupted after %d finished rows: %w", len(r.Rows), err)
	}
	return r, err
}
