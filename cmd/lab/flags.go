package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"oversell/internal/backend/lockservers"
	"oversell/internal/catalog"
	"oversell/internal/guard"
	"oversell/internal/lab"
	"oversell/internal/lab/show"
	pagetexts "oversell/internal/page/texts"
)

const usage = `Lab breaks each lock, each stage of a hold, and each way of writing orders and
repairing a stock on purpose, in the same way every time, and shows how: three
tables of anomalies against strategies in which every cell is the outcome of a
run of the real code.

Usage: lab [flags]

Examples:
  go run ./cmd/lab                                         the whole table, in virtual time
  go run ./cmd/lab -run check-then-delete -strategy v3_uuid  the timeline of one cell
  go run ./cmd/lab -run starvation,retry-storm             some rows
  go run ./cmd/lab -strategy redsync,v4_lua                some columns
  go run ./cmd/lab -strategy yours                         grades your own lock: docs/your-lock.md
  go run ./cmd/lab -strategy mine -record internal/lab/record.json  what a new strategy is to come to from now on
  go run ./cmd/lab -run late-payment -strategy h2_status    a cell of the table of holds
  go run ./cmd/lab -run database-reply-lost -strategy overwrite  a cell of the table of repairs and consumers
  go run ./cmd/lab -search v3_uuid                         every schedule of two buyers: docs/lab.md
  go run ./cmd/lab -html lab.html                          one file with every timeline
  go run ./cmd/lab -site public                            the page without a shop, for any server of files: docs/page.md
  go run ./cmd/lab -lang zh                                in Chinese
  go run ./cmd/lab -redis local                            on private servers, started from the PATH, in real time
  go run ./cmd/lab -strategies etcd,zookeeper              locks on other servers, in real time

Exit code: 0 if every cell has the recorded outcome, 1 if one has not, or if it
has none (yours needs none, and with -record they are written), 2 if the lab
could not run.

Flags; OVERSELL_REDIS and OVERSELL_DB in the environment are the defaults of
-redis and -db:
`

// options are the flags.
type options struct {
	mode       mode
	redis      string
	servers    lockservers.Specs
	tables     []lab.Table // those of the program, with what is to be run of each
	db         string      // for subjects that sell
	json, html string
	readme     string
	check      bool
	record     string
	ttl        time.Duration
	schedules  schedules
	site       string
	lang       string
	language   *pagetexts.Language // nil: English
}

// texts are the flags that hold names, which are looked up later.
type texts struct {
	anomalies, strategies, same string
}

// flags declares the flags.
func flags(o *options, t *texts) *flag.FlagSet {
	fs := flag.NewFlagSet("lab", flag.ContinueOnError)
	fs.SetOutput(io.Discard) // an error is reported once, by the caller
	fs.Usage = func() {}
	fs.StringVar(&t.anomalies, "run", "", "`ANOMALIES` to try, separated by commas (default all; see -list)")
	fs.StringVar(&t.strategies, "strategy", "", "`STRATEGIES` to try them on, separated by commas (default all but yours; see -list)")
	fs.StringVar(&t.same, "strategies", "", "`STRATEGIES`, the same as -strategy")
	fs.StringVar(&o.servers.Redlock, "redlock", "", "`NODES` of redlock: embedded or local, which start five, or the addresses of yours, separated by commas (default as -redis, if that is embedded or local)")
	fs.StringVar(&o.servers.Etcd, "etcd", "local", "`WHERE` etcd is, for the strategy of that name: local, or the addresses of yours, as http://host:port")
	fs.StringVar(&o.servers.ZooKeeper, "zookeeper", "local", "`WHERE` ZooKeeper is, for the strategy of that name: local, or the addresses of yours, as host:port")
	fs.StringVar(&o.redis, "redis", fromEnv("OVERSELL_REDIS"), "`WHERE` Redis is: embedded, local, or redis:// or rediss:// with one address")
	fs.StringVar(&o.db, "db", fromEnv("OVERSELL_DB"), "`WHERE` the database is, for holds, repairs and consumers: embedded, local, sqlite:FILE or user:password@tcp(host:3306)/name; the cells of locks do not use it")
	fs.StringVar(&o.json, "json", "", "`FILE` to write the report to as JSON; - for standard output, with nothing else there")
	fs.StringVar(&o.html, "html", "", "`FILE` to write the table and all timelines to, for a browser")
	fs.StringVar(&o.readme, "readme", "", "`FILE` in which to rewrite the table of strategies, between its two marks, from this run")
	fs.StringVar(&o.record, "record", "", "`FILE` to bring up to date with what the run finds: "+
		"internal/lab/record.json, or with -search internal/lab/search/record.json")
	fs.BoolVar(&o.check, "check", false, "with -readme: change nothing, and exit with 1 if the table is stale")
	fs.Bool("list", false, "list anomalies and strategies")
	fs.StringVar(&o.lang, "lang", pagetexts.English, "`LANGUAGE` of tables, timelines, -list and -html: en or zh; names, commands, errors, the grade of yours and JSON are in English")
	fs.DurationVar(&o.ttl, "ttl", 0, "lease of a lock (default 3s in virtual time, 1s in real time)")
	fs.StringVar(&o.site, "site", "", "`FOLDER` to write the page to, with recordings and the lab compiled for a browser, for any server of files; it takes a few minutes and the go command")
	o.schedules.define(fs)
	return fs
}

// parse reads the flags. It writes the help to stderr when asked for it, and
// returns flag.ErrHelp then.
func (p program) parse(args []string) (options, error) {
	var o options
	var t texts
	fs := flags(&o, &t)
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			fmt.Fprint(p.stderr, usage)
			fs.SetOutput(p.stderr)
			fs.PrintDefaults()
			return o, flag.ErrHelp
		}
		return o, fmt.Errorf("%w (-h shows the flags)", err)
	}
	if fs.NArg() > 0 {
		return o, fmt.Errorf("unexpected arguments %q: lab takes only flags (-h shows them)", fs.Args())
	}
	var err error
	if o.mode, err = modeOf(fs); err != nil {
		return o, err
	}
	if err := checkGiven(fs); err != nil {
		return o, err
	}
	if err := o.speak(); err != nil {
		return o, err
	}
	switch o.mode {
	case modeSearch, modeReplay:
		return o, o.schedules.interpret(o.mode)
	case modeTable:
		strategies := guard.ExpandAll(split(cmp.Or(t.strategies, t.same)), p.names())
		return o, p.interpret(&o, split(t.anomalies), strategies)
	}
	return o, nil
}

// fromEnv is the default of -redis and -db. The other flags have no variable: a
// ttl that is set for a shop, for example, is not meant for the lab.
func fromEnv(name string) string { return cmp.Or(os.Getenv(name), lab.Embedded) }

// given reports whether a flag was set.
func given(fs *flag.FlagSet, name string) (found bool) {
	fs.Visit(func(f *flag.Flag) { found = found || f.Name == name })
	return found
}

// checkGiven refuses flags that are empty, given twice, or given without another.
func checkGiven(fs *flag.FlagSet) (err error) {
	if given(fs, "strategy") && given(fs, "strategies") {
		return errors.New("-strategy and -strategies are the same flag: give one of them, with all strategies")
	}
	if given(fs, "check") && !given(fs, "readme") {
		return errors.New("-check needs -readme")
	}
	fs.Visit(func(f *flag.Flag) {
		value := f.Value.String()
		switch f.Name {
		case "run", "strategy", "strategies", "redlock", "etcd", "zookeeper", "search", "replay", "goal", "readme", "record", "site":
			if len(split(value)) == 0 {
				err = fmt.Errorf("-%s %q names nothing (-h shows what it takes)", f.Name, value)
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
	if o.tables, err = lab.Pick(p.tables, anomalies, strategies); err != nil {
		return err
	}
	if err := lab.CheckRedis(o.redis); err != nil {
		return fmt.Errorf("-redis: %w", err)
	}
	if err := o.giveNodes(len(strategies) > 0); err != nil {
		return err
	}
	switch {
	case o.html == "-":
		return errors.New("-html must be a file, not -: standard output is for the table")
	case o.ttl < 0 || o.ttl > 0 && o.ttl < minTTL:
		return fmt.Errorf("-ttl is %v, and must be at least %v", o.ttl, minTTL)
	case o.readme != "" && (len(anomalies) > 0 || len(strategies) > 0):
		return errors.New("-readme needs the whole table: leave out -run and -strategy")
	case o.record != "" && slices.Contains(strategies, lab.Yours().Name):
		return errors.New("-record: yours has no record; copy it to a strategy of its own: CONTRIBUTING.md")
	}
	return nil
}

// giveNodes chooses redlock's nodes to match -redis. With the user's own Redis
// redlock is left out, unless it is named.
func (o *options) giveNodes(named bool) error {
	if o.servers.Redlock != "" {
		return nil
	}
	if o.redis == lab.Embedded || o.redis == local {
		o.servers.Redlock = o.redis
		return nil
	}
	onNodes := func(c lab.Subject) bool { return c.Needs == catalog.NeedsNodes }
	locks := &o.tables[0]
	if (named || o.readme != "") && slices.ContainsFunc(locks.Subjects, onNodes) {
		return errors.New("redlock needs nodes of its own: with your own -redis, name them with -redlock")
	}
	locks.Subjects = slices.DeleteFunc(slices.Clone(locks.Subjects), onNodes)
	return nil
}

// local is the value of -redis and -redlock that starts private servers.
const local = "local"

// needs returns the servers that the subjects' locks need. The lab itself makes
// redlock's nodes in memory, in virtual time.
func (o options) needs() []catalog.Need {
	var needs []catalog.Need
	for _, c := range o.tables[0].Subjects {
		inMemory := c.Needs == catalog.NeedsNodes && o.redis == lab.Embedded && o.servers.Redlock == lab.Embedded
		if c.Needs.OfServers() && !inMemory {
			needs = append(needs, c.Needs)
		}
	}
	return needs
}

// names lists the names of all strategies, and of those that only shop and bench have, which
// are refused with a reason.
func (p program) names() []string {
	names := catalog.Strategies().Names()
	for _, t := range p.tables {
		for _, c := range t.All() {
			if !slices.Contains(names, c.Name) {
				names = append(names, c.Name)
			}
		}
	}
	return names
}

// minTTL is the shortest lease that a machine can keep in real time.
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

// list prints what can be tried.
func (p program) list(style show.Style) {
	fmt.Fprintln(p.stdout, style.Say("Anomalies:"))
	for _, t := range p.tables {
		for _, s := range t.Scenarios {
			fmt.Fprintf(p.stdout, "  %-30s %s\n", s.Name, style.Brief(s.Anomaly))
		}
	}
	fmt.Fprintln(p.stdout, style.Say("Strategies:"))
	for _, t := range p.tables {
		for _, c := range t.All() {
			fmt.Fprintf(p.stdout, "  %-30s %s\n", c.Name, style.Say(c.About))
		}
	}
}

// mode is what the program does. Each one but the table is named by its flag.
type mode string

const (
	modeTable  mode = "the table"
	modeList   mode = "-list"
	modeSearch mode = "-search"
	modeReplay mode = "-replay"
	modeSite   mode = "-site"
)

// flagsOf lists the flags that each mode takes.
var flagsOf = map[mode][]string{
	modeTable: strings.Fields(`run strategy strategies redis db redlock etcd zookeeper ttl
		json html readme check record lang`),
	modeList:   strings.Fields("list lang"),
	modeSearch: strings.Fields("search goal buyers record readme check lang"),
	modeReplay: strings.Fields("replay goal buyers lang"),
	modeSite:   strings.Fields("site"),
}

// modeOf finds the mode that the flags ask for, and refuses those that it does not take.
func modeOf(fs *flag.FlagSet) (m mode, err error) {
	m = modeTable
	for _, named := range []mode{modeSite, modeSearch, modeReplay, modeList} {
		if given(fs, string(named[1:])) {
			m = named
			break
		}
	}
	fs.Visit(func(f *flag.Flag) {
		if taken := flagsOf[m]; !slices.Contains(taken, f.Name) {
			err = fmt.Errorf("-%s is not a flag of %s, which takes -%s", f.Name, m, strings.Join(taken, ", -"))
		}
	})
	return m, err
}
