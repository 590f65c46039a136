// Bench sends 5,000 concurrent requests to a flash sale under each strategy for guarding its stock,
// and reports what was oversold.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/redis/go-redis/v9/logging"

	"oversell/internal/backend"
	"oversell/internal/backend/local"
	"oversell/internal/backend/lockservers"
	"oversell/internal/bench"
	"oversell/internal/bench/lockbench"
	"oversell/internal/bench/report"
	"oversell/internal/catalog"
	"oversell/internal/cmdline"
	pagetexts "oversell/internal/page/texts"
)

// The exit codes. Scripts rely on them.
const (
	exitExpected   = 0 // every row matched the catalog's expectation
	exitUnexpected = 1 // at least one row did not match
	exitFailed     = 2 // it could not run, or was interrupted
)

func main() {
	logging.Disable() // errors are returned, and reported once
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the program immediately
	os.Exit(start(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// The first arguments that name another command. The bench starts this program again with the first
// two, as one of its processes.
const (
	asInstance  = "instance"
	asContender = "contender"
	compareArg  = "compare" // compares reports
	auditArg    = "audit"   // checks a sale in a running shop
)

// start runs a command, reports its error in one line, and returns the exit code.
func start(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	command, rest := "", args
	if len(args) > 0 {
		command, rest = args[0], args[1:]
	}
	says, expected, err := "bench: ", true, error(nil)
	switch command {
	case asInstance:
		says, err = "", bench.Serve(ctx, os.Stdin, stdout, stderr, nil)
	case asContender:
		says, err = "", lockbench.Serve(ctx, lockbench.Contenders(), os.Stdin, stdout)
	case compareArg:
		says, err = "bench: compare: ", compareReports(rest, stdout)
	case auditArg:
		says = "bench: audit: "
		expected, err = auditSale(ctx, rest, stdout)
	default:
		expected, err = run(ctx, args, stdout, stderr)
	}
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitExpected
	case err != nil:
		fmt.Fprintln(stderr, says+err.Error())
		return exitFailed
	case !expected:
		return exitUnexpected
	}
	return exitExpected
}

// options holds the values of the flags.
type options struct {
	bench.Config
	redis, db  string
	servers    lockservers.Specs
	json, html string
	lang       string
	language   *pagetexts.Language // nil: English
	given      []string            // flags that were set, without secrets
	holds      *bench.Config       // nil unless a sale by holds follows
}

// run runs the bench, and writes the report of the finished rows even after an error. It reports
// whether all rows were as expected.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) (expected bool, err error) {
	o, err := parse(args)
	if errors.Is(err, flag.ErrHelp) {
		helpText.Write(stdout, flags(new(options), new(texts)), args)
	}
	if err != nil {
		return false, err
	}
	out, err := o.open(stdout, stderr)
	if err != nil {
		return false, err
	}
	report, err := measure(ctx, o, stderr)
	return report.AsExpected(), errors.Join(err, out.write(report))
}

// measure opens the backends and runs the rows.
func measure(ctx context.Context, o options, stderr io.Writer) (report report.Report, err error) {
	redis, db, others, stop, err := o.serve(ctx)
	defer func() { err = errors.Join(err, stop()) }()
	if err != nil {
		return report, err
	}
	var progress bench.Progress = bench.Silent{}
	if cmdline.Terminal(stderr) {
		bar := bench.NewBar(stderr)
		defer bar.Close()
		progress = bar
	}
	report.Manifest = o.manifest(redis, db, others)
	report.Rows, err = o.runParts(ctx, progress)
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("interrupted after %d finished rows: %w", len(report.Rows), err)
	}
	return report, err
}

// serve opens the backends, and returns their names. The caller must call stop, even after an error.
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
	conditions, needs := o.Conditions, catalog.Strategies().Needs(o.Strategies)
	if o.holds != nil {
		conditions = slices.Concat(conditions, o.holds.Conditions)
	}
	backends := func() (*backend.Servers, error) { return backend.Serve(ctx, redis, db) }
	switch {
	case o.Workload == report.WorkloadLock:
		needs = lockbench.Contenders().Needs(o.Strategies)
		backends = func() (*backend.Servers, error) { return backend.ServeRedisAlone(ctx, redis) }
	case slices.Contains(conditions, catalog.Failover):
		set, err := local.StartSentinels(ctx)
		if err != nil {
			return redis, db, nil, stop, err
		}
		stops = append(stops, set.Close)
		o.Failovers, redis = set, set.URL()
	case slices.Contains(conditions, catalog.Chaos):
		backends = func() (_ *backend.Servers, err error) {
			if o.Chaos, err = bench.ServeChaos(ctx, redis, db); err != nil {
				return nil, err
			}
			return o.Chaos.Servers, nil
		}
	}
	servers, err := backends()
	if err != nil {
		return redis, db, nil, stop, err
	}
	end := servers.Close
	if o.Chaos != nil {
		end = o.Chaos.Close // closes the servers, too
	}
	stops = append(stops, end)
	o.RedisURL, o.DBURL = servers.RedisURL, servers.DBURL
	more, err := lockservers.New(ctx, o.servers, needs...)
	if err != nil {
		return redis, db, nil, stop, err
	}
	stops = append(stops, more.Close)
	o.Servers, others, err = more.Open(ctx, needs...)
	return servers.RedisName, servers.DBName, others, stop, err
}
