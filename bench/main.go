// Bench sends 5,000 concurrent requests to a flash sale under each strategy of
// guarding its stock, and reports what was oversold.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"syscall"

	"github.com/redis/go-redis/v9/logging"

	"oversell/internal/backend"
	"oversell/internal/backend/local"
	"oversell/internal/backend/lockservers"
	"oversell/internal/bench"
	"oversell/internal/bench/chaos"
	"oversell/internal/bench/holdsale"
	"oversell/internal/bench/lockbench"
	"oversell/internal/bench/report"
	"oversell/internal/catalog"
	pagetexts "oversell/internal/page/texts"
)

// The exit codes. Programs rely on them.
const (
	exitExpected   = 0 // every row matched the catalog's expectation
	exitUnexpected = 1 // at least one did not
	exitFailed     = 2 // it could not run, or was interrupted
)

func main() {
	logging.Disable() // errors are returned, and reported once
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second Ctrl-C is not waited for
	if len(os.Args) == 2 && processes()[os.Args[1]] != nil {
		os.Exit(serve(ctx, processes()[os.Args[1]]))
	}
	if len(os.Args) > 1 && os.Args[1] == compareArg {
		os.Exit(compareReports(os.Args[2:], os.Stdout, os.Stderr))
	}
	if len(os.Args) > 1 && os.Args[1] == auditArg {
		os.Exit(auditSale(ctx, os.Args[2:], os.Stdout, os.Stderr))
	}
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// The arguments that make this program one of its own processes.
const (
	instanceArg  = "instance"  // a shop
	contenderArg = "contender" // of workload lock
	holdShopArg  = "holdshop"  // a shop of workload hold
	providerArg  = "provider"  // the payment provider of that
)

// process is what one of the program's own processes runs.
type process func(ctx context.Context, in io.Reader, out, log io.Writer) error

func processes() map[string]process {
	return map[string]process{
		instanceArg: func(ctx context.Context, in io.Reader, out, log io.Writer) error {
			return bench.Serve(ctx, in, out, log, nil)
		},
		contenderArg: func(ctx context.Context, in io.Reader, out, _ io.Writer) error {
			return lockbench.Serve(ctx, lockbench.Contenders(), in, out)
		},
		holdShopArg: holdsale.ServeShop,
		providerArg: holdsale.ServeProvider,
	}
}

// serve runs one of the program's own processes, and returns its exit code.
func serve(ctx context.Context, run process) int {
	if err := run(ctx, os.Stdin, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return exitFailed
	}
	return exitExpected
}

func command() (*exec.Cmd, error) { return self(instanceArg) }

// self returns the command that runs this program as one of its own processes.
func self(arg string) (*exec.Cmd, error) {
	path, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding this program's file: %w", err)
	}
	return exec.Command(path, arg), nil
}

// options are the flags.
type options struct {
	bench.Config
	redis, db  string
	servers    lockservers.Specs
	json, html string
	lang       string
	language   *pagetexts.Language // nil: English
	given      []string            // flags that were set, without secrets
	lock       *lockbench.Config   // of workload lock, or nil; then there is no other
	hold       *holdsale.Config    // of workload hold, or nil; without Strategies there is no other
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parse(args)
	if errors.Is(err, flag.ErrHelp) {
		help(stdout)
		return exitExpected
	}
	expected := false
	if err == nil {
		expected, err = o.run(ctx, stdout, stderr)
	}
	switch {
	case err != nil:
		fmt.Fprintln(stderr, "bench:", err)
		return exitFailed
	case !expected:
		return exitUnexpected
	}
	return exitExpected
}

// run runs the bench, writes the report of the finished rows even after an error, and
// returns whether all rows were as expected.
func (o options) run(ctx context.Context, stdout, stderr io.Writer) (bool, error) {
	out, err := o.open(stdout, stderr)
	if err != nil {
		return false, err
	}
	report, err := measure(ctx, o, stderr)
	written := out.report(len(report.Rows), func() error { return out.write(report) })
	return report.AsExpected(), errors.Join(err, written)
}

// measure opens the backends and runs the rows.
func measure(ctx context.Context, o options, stderr io.Writer) (report report.Report, err error) {
	redis, db, others, stop, err := o.serve(ctx)
	defer func() { err = errors.Join(err, stop()) }()
	if err != nil {
		return report, err
	}
	var progress bench.Progress = bench.Silent{}
	if terminal(stderr) {
		bar := bench.NewBar(stderr)
		defer bar.Close()
		progress = bar
	}
	parts := o.parts(redis, db)
	report.Manifest = parts[0].manifest
	report.Manifest.Servers = others
	report.Manifest.Flags = o.given
	for _, p := range parts[1:] {
		report.Manifest.Also = append(report.Manifest.Also, p.manifest)
	}
	report.Rows, err = runParts(ctx, parts, progress)
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("interrupted after %d finished rows: %w", len(report.Rows), err)
	}
	return report, err
}

// serve opens the backends, and returns their names. The caller must call stop, also after an error.
func (o *options) serve(ctx context.Context) (redis, db string, others []string, stop func() error, err error) {
	var stops []func() error
	stop = func() (err error) {
		for _, one := range slices.Backward(stops) {
			err = errors.Join(err, one())
		}
		return err
	}
	if len(o.Targets) > 0 {
		return "of the shops", "of the shops", nil, stop, nil
	}
	redis, db = o.redis, o.db
	needs := o.Catalog.Needs(o.Strategies)
	switch {
	case o.failsOver():
		set, err := local.StartSentinels(ctx)
		if err != nil {
			return redis, db, nil, stop, err
		}
		stops = append(stops, set.Close)
		o.Failovers, redis = set, set.URL()
	case slices.Contains(o.Conditions, catalog.Chaos):
		harmed, err := chaos.Serve(ctx, o.redis, o.db)
		if err != nil {
			return redis, db, nil, stop, err
		}
		stops = append(stops, harmed.Close)
		o.Chaos, redis, db = harmed, harmed.RedisURL, harmed.DBURL
	case o.lock != nil:
		db, needs = "embedded", o.lock.Catalog.Needs(o.lock.Names) // it has no database
	}
	servers, err := backend.Serve(ctx, redis, db)
	if err != nil {
		return redis, db, nil, stop, err
	}
	stops = append(stops, servers.Close)
	o.RedisURL, o.DBURL = servers.RedisURL, servers.DBURL
	more, err := lockservers.Serve(ctx, o.servers, needs...)
	if err != nil {
		return redis, db, nil, stop, err
	}
	stops = append(stops, more.Close)
	o.Servers = more.Addresses
	return servers.RedisName, servers.DBName, more.Names, stop, nil
}
