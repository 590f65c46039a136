package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"oversell/internal/backend/lockservers"
	"oversell/internal/catalog"
	"oversell/internal/cmdline"
	"oversell/internal/lab"
	"oversell/internal/lab/show"
	"oversell/internal/naming"
	pagetexts "oversell/internal/page/texts"
)

// options holds the values of the flags.
type options struct {
	mode       mode
	anomalies  string // names, which are looked up later
	strategies string // names, which are looked up later
	redis      string
	servers    lockservers.Specs
	tables     []lab.Table // the tables, with only the cells to run
	db         string      // for the tables of sales
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

// flags declares the flags. The text after a semicolon is shown only by -h all.
func flags(o *options) *flag.FlagSet {
	fs := flag.NewFlagSet("lab", flag.ContinueOnError)
	fs.StringVar(&o.anomalies, "run", "", "`ANOMALIES` to try, separated by commas; by default all; -list shows them")
	fs.StringVar(&o.strategies, "strategies", "", "`STRATEGIES` to try them on, separated by commas; "+
		"by default all but yours; -list shows them")
	fs.StringVar(&o.strategies, "strategy", "", "`STRATEGIES`, the same as -strategies")
	fs.StringVar(&o.servers.Redlock, "redlock", "", "`NODES` of redlock: embedded or local, which start five, "+
		"or addresses separated by commas (default as -redis, if that is embedded or local)")
	fs.StringVar(&o.servers.Etcd, "etcd", "local", "`WHERE` etcd is: local, or http://host:port; local is etcd from "+
		"the PATH, or else the go command builds it, which takes a minute the first time")
	fs.StringVar(&o.servers.ZooKeeper, "zookeeper", "local", "`WHERE` ZooKeeper is: local, or host:port")
	fs.StringVar(&o.redis, "redis", fromEnv("OVERSELL_REDIS"), "`WHERE` Redis is: embedded, local, or host:port; "+
		"also redis:// or rediss:// with one address")
	fs.StringVar(&o.db, "db", fromEnv("OVERSELL_DB"), "`WHERE` the database is: embedded, local, sqlite:FILE, "+
		"or user:password@tcp(host:port)/name; for holds, repairs and consumers: the cells of locks do not use it")
	fs.StringVar(&o.json, "json", "", "`FILE` for the report as JSON; - for standard output, where nothing else is "+
		"then written")
	fs.StringVar(&o.html, "html", "", "`FILE` for the table and all timelines, to open in a browser")
	fs.StringVar(&o.readme, "readme", "", "`FILE` in which to rewrite the table of strategies, between its two "+
		"markers, from this run")
	fs.StringVar(&o.record, "record", "", "`FILE` to bring up to date with what the run finds: "+
		"internal/lab/record.json, or with -search internal/lab/search/record.json")
	fs.BoolVar(&o.check, "check", false, "with -readme: change nothing, and exit with 1 if the table is stale")
	fs.Bool("list", false, "list anomalies and strategies")
	fs.StringVar(&o.lang, "lang", pagetexts.English, "`LANGUAGE` of tables, timelines, -list and -html: en or zh; "+
		"names, commands, errors, the grade of yours and JSON are in English")
	fs.DurationVar(&o.ttl, "ttl", 0, "`TIME` until the lease of a lock expires "+
		"(from 300ms to 4s; default 3s in virtual time, 1s in real time)")
	fs.StringVar(&o.site, "site", "", "`FOLDER` to write the page to, for any static file server; the page has "+
		"recordings and the lab compiled for a browser; writing it takes a few minutes and needs the go command")
	o.schedules.define(fs)
	return fs
}

// parse reads the flags. If help is requested, it writes the help and returns flag.ErrHelp.
func (p program) parse(args []string) (options, error) {
	var o options
	fs := flags(&o)
	given, err := cmdline.Parse(fs, args, "")
	if err != nil {
		if errors.Is(err, flag.ErrHelp) {
			helpText.Write(p.stdout, fs, args)
		}
		return o, err
	}
	if o.mode, err = modeOf(given); err != nil {
		return o, err
	}
	if err := checkGiven(fs); err != nil {
		return o, err
	}
	if o.language, err = pagetexts.In(o.lang); err != nil {
		return o, fmt.Errorf("-lang: %w", err)
	}
	switch o.mode {
	case modeSearch, modeReplay:
		return o, o.schedules.interpret()
	case modeTable:
		strategies := naming.ExpandAll(naming.Split(o.strategies), p.names())
		return o, p.interpret(&o, naming.Split(o.anomalies), strategies)
	}
	return o, nil
}

// fromEnv returns the default of -redis or -db. The other flags have no environment variable: a
// shop's ttl, for example, is not meant for the lab.
func fromEnv(name string) string { return cmp.Or(os.Getenv(name), lab.Embedded) }

// checkGiven refuses flags that are empty, out of range, given twice, given without a flag that they
// need, or that would write the same file.
func checkGiven(fs *flag.FlagSet) error {
	if cmdline.Given(fs, "strategy") && cmdline.Given(fs, "strategies") {
		return errors.New("-strategy and -strategies are the same flag: give one of them, with all strategies")
	}
	if cmdline.Given(fs, "check") && !cmdline.Given(fs, "readme") {
		return errors.New("-check needs -readme")
	}
	ttl := fs.Lookup("ttl").Value.(flag.Getter).Get().(time.Duration)
	if cmdline.Given(fs, "ttl") && (ttl < minTTL || ttl > lab.MaxTTL) {
		return fmt.Errorf("-ttl is %v; it must be at least %v, and at most %v", ttl, minTTL, lab.MaxTTL)
	}
	return cmp.Or(cmdline.Apart(fs, "json", "html", "record", "readme"), cmdline.NotEmpty(fs, "run", "strategy",
		"strategies", "redlock", "etcd", "zookeeper", "search", "replay", "goal", "readme", "record", "site"))
}

// interpret looks up the names, and checks the options together.
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
	case o.readme != "" && (len(anomalies) > 0 || len(strategies) > 0):
		return errors.New("-readme needs the whole table: leave out -run and -strategies")
	case o.record != "" && slices.Contains(strategies, lab.Yours().Name):
		return errors.New("-record: yours has no record; copy it to a strategy of its own: CONTRIBUTING.md")
	}
	return nil
}

// giveNodes chooses redlock's nodes to match -redis. If -redis is the user's own Redis, redlock is
// left out, unless it is named.
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

// needs returns the servers that the subjects' locks need. In virtual time the lab itself makes
// redlock's nodes in memory.
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

// names returns the names of all strategies, including those that the lab refuses because only shop
// and bench have them.
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

// minTTL is the shortest lease that is allowed. For a shorter one, a machine may be too slow.
const minTTL = 300 * time.Millisecond

// list prints the anomalies and strategies.
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

// mode says what the program does. Each mode except the table is named after its flag.
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

// modeOf returns the mode that the flags choose. It returns an error if a flag does not belong to
// the mode.
func modeOf(given []string) (mode, error) {
	m := modeTable
	for _, named := range []mode{modeSite, modeSearch, modeReplay, modeList} {
		if slices.Contains(given, string(named[1:])) {
			m = named
			break
		}
	}
	return m, cmdline.Only(given, string(m), flagsOf[m])
}
