// Command lab breaks each lock, each stage of a hold, and each way of writing orders and
// repairing a stock on purpose, in the same way every time, and shows how: three tables of
// anomalies against strategies in which every cell is the outcome of a run.
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
	"golang.org/x/term"

	"oversell/internal/backend"
	"oversell/internal/backend/lockservers"
	"oversell/internal/lab"
	"oversell/internal/lab/anomalies"
	"oversell/internal/lab/sales"
	"oversell/internal/lab/services"
)

// The exit codes. Scripts rely on them.
const (
	exitExpected   = 0 // every cell has the recorded outcome
	exitUnexpected = 1 // one did not, or a file checked by -check is stale
	exitFailed     = 2 // it could not run, or was interrupted
)

func main() {
	logging.Disable() // errors are returned, and reported once
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	if len(os.Args) == 2 && os.Args[1] == instanceArg {
		os.Exit(instance(ctx))
	}
	p := program{
		subjects: lab.Subjects(), scenarios: everything(), stages: sales.Subjects(), pools: sales.Pools(), writers: sales.Writers(),
		stdout: os.Stdout, stderr: os.Stderr,
	}
	os.Exit(p.run(ctx, os.Args[1:]))
}

// everything returns the anomalies of all tables.
func everything() []lab.Scenario { return slices.Concat(anomalies.All(), sales.All(), sales.Behind()) }

// program is the command, with what it can try.
type program struct {
	subjects       []lab.Subject // the locks that are tried by default
	stages         []lab.Subject // of holds
	pools          []lab.Subject // what sells without holds, in the table of holds if it is named
	writers        []lab.Subject // what writes orders, and repairs a stock
	scenarios      []lab.Scenario
	recordings     recordings // of a site
	stdout, stderr io.Writer
}

// run returns the exit code.
func (p program) run(ctx context.Context, args []string) int {
	o, err := p.parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitExpected
	case err != nil:
		return p.complain(err)
	}
	switch o.mode {
	case modeList:
		p.list(o.style(nil))
		return exitExpected
	case modeSite:
		return p.exit(true, p.site(ctx, o.site))
	case modeSearch:
		return p.exit(p.search(ctx, o))
	case modeReplay:
		return p.exit(true, p.replay(o.schedules, o.style(p.stdout)))
	}
	if _, err := o.replace(lab.Report{}, nil); err != nil {
		return p.complain(err) // before the run, not after it
	}
	return p.exit(p.report(ctx, o))
}

// exit returns the exit code for an outcome, after it has told an error.
func (p program) exit(asExpected bool, err error) int {
	switch {
	case err != nil:
		return p.complain(err)
	case !asExpected:
		return exitUnexpected
	}
	return exitExpected
}

// report runs what is asked for and shows it. It returns false if a cell did not
// come out as on record, or if a table that -check checks is stale.
func (p program) report(ctx context.Context, o options) (asExpected bool, err error) {
	to, err := o.open()
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, to.discard()) }()
	report, err := p.measure(ctx, o)
	if err != nil {
		return false, err
	}
	fresh, err := p.present(o, to, report)
	return fresh && report.AsExpected(), err
}

func (p program) complain(err error) int {
	fmt.Fprintln(p.stderr, "lab:", err)
	return exitFailed
}

// measure opens Redis and runs the cells. The report is that of the first table of which there
// are any, with the others beside it.
func (p program) measure(ctx context.Context, o options) (report lab.Report, err error) {
	cfg := lab.Config{Redis: lab.Embedded, TTL: o.ttl}
	server, err := backend.ServeRedis(ctx, o.redis)
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	if cfg.RedisName, err = nameOf(ctx, server.URL); err != nil {
		return report, err
	}
	if o.redis != lab.Embedded {
		cfg.Redis = server.URL
	}
	others, err := lockservers.Serve(ctx, o.servers, o.needs()...)
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, others.Close()) }()
	cfg.Nodes, cfg.Services, cfg.Servers = others.Redlock, services.At(others.Etcd, others.ZooKeeper), others.Names
	bar := newBar(p.stderr, o.locks.cells()+o.holds.cells()+o.behind.cells())
	defer bar.clear()
	held, behind, err := p.measureSales(ctx, o, cfg, bar)
	if err != nil {
		return report, err
	}
	switch {
	case o.locks.cells() > 0:
		report, err = lab.Run(ctx, o.locks.of(cfg), bar.step)
		report.Holds, report.Behind = held, behind
	case held != nil:
		report = *held
		report.Behind = behind
	default:
		report = *behind
	}
	return report, err
}

// measureSales opens the database and runs the cells of holds, and those of repairs and
// consumers. It returns nil for a table without cells.
func (p program) measureSales(ctx context.Context, o options, cfg lab.Config, bar *bar) (held, behind *lab.Report, err error) {
	if o.holds.cells()+o.behind.cells() == 0 {
		return nil, nil, nil
	}
	server, err := backend.ServeDatabase(ctx, o.db)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	db, err := backend.DialDatabase(ctx, server.URL)
	if err != nil {
		return nil, nil, err
	}
	cfg.DatabaseName, err = backend.DatabaseName(ctx, db)
	if pool, poolErr := db.DB(); poolErr == nil {
		err = errors.Join(err, pool.Close())
	}
	if err != nil {
		return nil, nil, err
	}
	if o.db != lab.Embedded {
		cfg.Database = server.URL
	}
	cfg.Nodes, cfg.Services, cfg.Servers = nil, nil, nil
	if held, err = o.holds.run(ctx, cfg, bar); err == nil {
		behind, err = o.behind.run(ctx, cfg, bar)
	}
	return held, behind, err
}

// run runs the cells of a table, if it has any.
func (t table) run(ctx context.Context, cfg lab.Config, bar *bar) (*lab.Report, error) {
	if t.cells() == 0 {
		return nil, nil
	}
	report, err := lab.Run(ctx, t.of(cfg), bar.step)
	return &report, err
}

// nameOf asks a Redis what it is.
func nameOf(ctx context.Context, url string) (string, error) {
	rdb, err := backend.DialRedis(ctx, url, 1)
	if err != nil {
		return "", err
	}
	name, err := backend.RedisName(ctx, rdb, url)
	return name, errors.Join(err, rdb.Close())
}

func terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// coloured reports whether w wants colour; see https://no-color.org.
func coloured(w io.Writer) bool {
	return terminal(w) && os.Getenv("NO_COLOR") == ""
}
