package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"oversell/internal/lab"
)

const usage = `Lab breaks each lock on purpose, the same way every time, and shows how: a
table of anomalies against strategies in which every cell is the outcome of a
run of the real code.

Usage: lab [flags]

Examples:
  go run ./cmd/lab                                         the whole table, in virtual time
  go run ./cmd/lab -run check-then-delete -strategy v3_uuid  the timeline of one cell
  go run ./cmd/lab -run starvation,retry-storm             some rows
  go run ./cmd/lab -strategy redsync,v4_lua                some columns
  go run ./cmd/lab -strategy yours                         grades your own lock: docs/your-lock.md
  go run ./cmd/lab -html lab.html                          one file with every timeline
  go run ./cmd/lab -redis local                            on a private redis-server from the PATH, in real time

Exit code: 0 if every cell came out as is on record, 1 if one did not, 2 if
the lab could not run.

Flags; OVERSELL_REDIS and OVERSELL_DB in the environment are the defaults of
-redis and -db:
`

// options are the flags.
type options struct {
	redis      string
	columns    []lab.Column
	scenarios  []lab.Scenario
	json, html string
	readme     string
	check      bool
	list       bool
	ttl        time.Duration
}

// parse reads the flags. It writes the help to stderr when asked for it, and
// returns flag.ErrHelp then.
func (p program) parse(args []string) (options, error) {
	var o options
	var anomalies, strategies, db string
	fs := flag.NewFlagSet("lab", flag.ContinueOnError)
	fs.SetOutput(io.Discard) // an error is reported once, by the caller
	fs.StringVar(&anomalies, "run", "", "`ANOMALIES` to try, separated by commas (default all; see -list)")
	fs.StringVar(&strategies, "strategy", "", "`STRATEGIES` to try them on, separated by commas (default all but yours; see -list)")
	fs.StringVar(&o.redis, "redis", fromEnv("OVERSELL_REDIS"), "`WHERE` Redis is: embedded, local, or redis:// or rediss:// with one address")
	fs.StringVar(&db, "db", fromEnv("OVERSELL_DB"), "`WHERE` the database is: taken as by shop and bench, and not used, for the lab keeps its orders in memory")
	fs.StringVar(&o.json, "json", "", "`FILE` to write the report to as JSON; - for standard output, and nothing else there")
	fs.StringVar(&o.html, "html", "", "`FILE` to write the table and all timelines to, to be opened in a browser")
	fs.StringVar(&o.readme, "readme", "", "`FILE` whose table of strategies, between its two marks, is to be rewritten from this run")
	fs.BoolVar(&o.check, "check", false, "with -readme: change nothing, and exit with 1 if the table is stale")
	fs.BoolVar(&o.list, "list", false, "list anomalies and strategies")
	fs.DurationVar(&o.ttl, "ttl", 0, "lease of a lock (default 3s in virtual time, 1s in real time)")
	fs.Usage = func() {}
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			fmt.Fprint(p.stderr, usage)
			fs.SetOutput(p.stderr)
			fs.PrintDefaults()
			return o, flag.ErrHelp
		}
		return o, fmt.Errorf("%w (-h shows what is allowed)", err)
	}
	if fs.NArg() > 0 {
		return o, fmt.Errorf("there is nothing to do with %q: all is said by flags (-h shows them)", fs.Args())
	}
	if err := checkGiven(fs); err != nil {
		return o, err
	}
	return o, p.interpret(&o, split(anomalies), split(strategies))
}

// fromEnv is the default of -redis and -db. The other flags are not read from
// the environment: what is set there for a shop, as its ttl, is not for the lab.
func fromEnv(name string) string { return cmp.Or(os.Getenv(name), lab.Embedded) }

// checkGiven refuses what is given and says nothing.
func checkGiven(fs *flag.FlagSet) (err error) {
	fs.Visit(func(f *flag.Flag) {
		value := f.Value.String()
		switch f.Name {
		case "run", "strategy":
			if len(split(value)) == 0 {
				err = fmt.Errorf("-%s %q names nothing (-list shows what there is)", f.Name, value)
			}
		case "ttl":
			if value == "0s" {
				err = fmt.Errorf("-ttl is 0s, and must be at least %v", minTTL)
			}
		}
	})
	return err
}

// interpret finds what is named, and checks the whole.
func (p program) interpret(o *options, anomalies, strategies []string) (err error) {
	o.columns, o.scenarios = p.columns, p.scenarios
	if len(strategies) > 0 {
		if o.columns, err = lab.FindColumns(append(p.columns, lab.Yours()), strategies); err != nil {
			return err
		}
	}
	if len(anomalies) > 0 {
		if o.scenarios, err = lab.FindScenarios(p.scenarios, anomalies); err != nil {
			return err
		}
	}
	if err := lab.CheckRedis(o.redis); err != nil {
		return fmt.Errorf("-redis: %w", err)
	}
	switch {
	case o.ttl < 0 || o.ttl > 0 && o.ttl < minTTL:
		return fmt.Errorf("-ttl is %v, and must be at least %v", o.ttl, minTTL)
	case o.check && o.readme == "":
		return errors.New("-check is for -readme, which is not given")
	case o.readme != "" && (len(anomalies) > 0 || len(strategies) > 0):
		return errors.New("-readme needs the whole table: it goes with neither -run nor -strategy")
	}
	return nil
}

// minTTL is what a machine can keep in real time.
const minTTL = 300 * time.Millisecond

// split cuts a list at its commas, and drops white space around its parts.
func split(list string) []string {
	var parts []string
	for part := range strings.SplitSeq(list, ",") {
		if part = strings.TrimSpace(part); part != "" {
			parts = append(parts, part)
		}
	}
	return parts
}

// list says what there is to try.
func (p program) list() {
	fmt.Fprintln(p.stdout, "Anomalies:")
	for _, s := range p.scenarios {
		fmt.Fprintf(p.stdout, "  %-30s %s\n", s.Name, s.Sentence)
	}
	fmt.Fprintln(p.stdout, "Strategies:")
	for _, c := range append(p.columns, lab.Yours()) {
		fmt.Fprintf(p.stdout, "  %-30s %s\n", c.Name, c.About)
	}
}
