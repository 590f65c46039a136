// Command lab breaks locks, stages of holds, and ways of writing orders and repairing a stock on
// purpose, in the same way every time. It shows the results in three tables of anomalies against
// strategies, in which every cell is the outcome of a run.
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
	"strings"
	"syscall"

	"github.com/redis/go-redis/v9/logging"

	"oversell/internal/backend"
	"oversell/internal/backend/lockservers"
	"oversell/internal/catalog"
	"oversell/internal/cmdline"
	"oversell/internal/lab"
	"oversell/internal/lab/anomalies"
)

// The exit codes. Scripts rely on them.
const (
	exitExpected   = 0 // every cell has the recorded outcome
	exitUnexpected = 1 // a cell has another outcome, or a file that -check checks is stale
	exitFailed     = 2 // it could not run, or was interrupted
)

func main() {
	logging.Disable() // errors are returned, and reported once
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	if len(os.Args) == 2 && os.Args[1] == instanceArg {
		os.Exit(instance(ctx))
	}
	p := program{tables: tables(), stdout: os.Stdout, stderr: os.Stderr}
	os.Exit(p.run(ctx, os.Args[1:]))
}

// tables returns all tables of the lab: of locks, of holds, and of repairs and consumers.
func tables() []lab.Table {
	return []lab.Table{anomalies.Locks(), anomalies.Holds(), anomalies.Behind()}
}

// program is the command with its tables and its outputs.
type program struct {
	tables         []lab.Table
	firstOnly      bool // a site shows only the first preset of the bench, to save time in a test
	stdout, stderr io.Writer
}

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
	if _, _, err := o.replace(o.put(lab.Report{})); err != nil {
		return p.complain(err) // fail before the run, not after it
	}
	return p.exit(p.report(ctx, o))
}

func (p program) exit(asExpected bool, err error) int {
	switch {
	case err != nil:
		return p.complain(err)
	case !asExpected:
		return exitUnexpected
	}
	return exitExpected
}

// report runs the chosen cells and shows the report. It returns false if a cell does not have the
// recorded outcome, or if a table that -check checks is stale.
func (p program) report(ctx context.Context, o options) (asExpected bool, err error) {
	to, err := p.open(o)
	defer func() {
		for _, f := range to {
			err = errors.Join(err, f.Close()) // a file that was not filled is removed
		}
	}()
	if err != nil {
		return false, err
	}
	report, err := p.measure(ctx, o)
	if err != nil {
		return false, err
	}
	fresh, err := p.present(o, to, report)
	if err != nil {
		return false, err
	}
	return p.compare(o, report) && fresh, nil
}

// compare reports whether all cells have their recorded outcomes. If -record has updated the record,
// it reports whether all outcomes are known.
func (p program) compare(o options, r lab.Report) (asExpected bool) {
	if o.record != "" {
		return !slices.ContainsFunc(r.Everything(), func(c lab.Cell) bool { return c.Outcome == lab.Unknown })
	}
	var unknown []string // strategies
	for _, c := range r.Everything() {
		if c.Expected == lab.NoRecord && c.Strategy != lab.Yours().Name && !slices.Contains(unknown, c.Strategy) {
			unknown = append(unknown, c.Strategy)
		}
	}
	if len(unknown) > 0 {
		fmt.Fprintf(p.stderr, "lab: nothing is on record for cells of %s: "+
			"if their outcomes are right, add -record internal/lab/record.json\n", strings.Join(unknown, ", "))
	}
	return len(unknown) == 0 && r.AsExpected()
}

func (p program) complain(err error) int {
	fmt.Fprintln(p.stderr, "lab:", err)
	return exitFailed
}

// measure opens the servers and runs the cells. It returns the report on the first table that has
// cells. The fields of this report hold the reports on the other tables.
func (p program) measure(ctx context.Context, o options) (report lab.Report, err error) {
	var on *backend.Servers
	if o.tables[1].Cells()+o.tables[2].Cells() > 0 {
		on, err = backend.Serve(ctx, o.redis, o.db)
	} else {
		on, err = backend.ServeRedisAlone(ctx, o.redis)
	}
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, on.Close()) }()
	locks := lab.Config{Redis: lab.Embedded, RedisName: on.RedisName, TTL: o.ttl}
	if o.redis != lab.Embedded {
		locks.Redis = on.RedisURL
	}
	sales := locks
	sales.DatabaseName = on.DBName
	if o.db != lab.Embedded {
		sales.Database = on.DBURL
	}
	others, err := lockservers.New(ctx, o.servers, o.needs()...)
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, others.Close()) }()
	at, names, err := others.Open(ctx, o.needs()...)
	if err != nil {
		return report, err
	}
	locks.Nodes, locks.Servers = at[catalog.NeedsNodes], names
	locks.Services = anomalies.Services(at[catalog.NeedsEtcd], at[catalog.NeedsZooKeeper])
	return p.runAll(ctx, o.tables, []lab.Config{locks, sales, sales})
}

func (p program) runAll(ctx context.Context, tables []lab.Table, with []lab.Config) (lab.Report, error) {
	total := 0
	for _, t := range tables {
		total += t.Cells()
	}
	step, done := func(lab.Cell) {}, 0
	if cmdline.Terminal(p.stderr) {
		step = func(c lab.Cell) {
			done++
			fmt.Fprintf(p.stderr, "\r\x1b[K%d/%d %s, %s", done, total, c.Anomaly, c.Strategy)
		}
		defer fmt.Fprint(p.stderr, "\r\x1b[K")
	}
	reports := make([]*lab.Report, len(tables))
	for i, t := range tables {
		if t.Cells() == 0 {
			continue
		}
		with[i].Subjects, with[i].Scenarios = t.Subjects, t.Scenarios
		r, err := lab.Run(ctx, with[i], step)
		if err != nil {
			return r, err
		}
		reports[i] = &r
	}
	return beside(reports[0], reports[1], reports[2]), nil
}

// beside returns the first report that is not nil. The fields of this report hold the others.
func beside(locks, holds, behind *lab.Report) (r lab.Report) {
	switch {
	case locks != nil:
		r = *locks
	case holds != nil:
		r, holds = *holds, nil
	default:
		r, behind = *behind, nil
	}
	r.Holds, r.Behind = holds, behind
	return r
}
