package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"oversell/internal/backend"
	"oversell/internal/backend/coordination"
	"oversell/internal/bench"
	"oversell/internal/bench/lockbench"
	"oversell/internal/bench/report"
	"oversell/internal/catalog"
	"oversell/internal/cmdline"
	"oversell/internal/guard"
	"oversell/internal/naming"
	pagetexts "oversell/internal/page/texts"
)

// envPrefix is the prefix of the environment variables that set the defaults of flags.
const envPrefix = "OVERSELL"

// texts holds the names and lists in flags, which interpret parses later.
type texts struct {
	workload, strategies, conditions, retry, targets, faults, seam, skew string

	stages []string // stages of holds that were listed together with strategies of the deduct workload
}

// allStrategies stands for every strategy that can be run.
const allStrategies = "all"

func strategiesUsage() string {
	usual := bench.DefaultStrategies(catalog.Deduct)
	isUsual := func(name string) bool { return slices.Contains(usual, name) }
	extra := slices.DeleteFunc(catalog.Strategies().Names(), isUsual)
	return "`STRATEGIES`, separated by commas, or " + allStrategies + "; the default is " +
		strings.Join(usual, ", ") + ", " + catalog.DefaultHoldStage + ", and " + allStrategies + " adds " +
		strings.Join(extra, ", ") + " (zookeeper only with -zookeeper) and " +
		strings.Join(catalog.HoldNames(), ", ") + ", which belong to workload hold"
}

// defaultWork is short compared with a sale, but long enough that holders in two instances
// overlap. If they happened to take turns, the local strategy would seem to hold.
const defaultWork = 400 * time.Microsecond

// parse reads the flags and the environment. Each error is one line. It returns flag.ErrHelp if
// help is requested.
func parse(args []string) (options, error) {
	var o options
	var t texts
	fs := flags(&o, &t)
	line, err := cmdline.Parse(fs, args, envPrefix)
	if err != nil {
		return o, err
	}
	if names := naming.Split(t.strategies); len(names) > 0 {
		t.strategies = strings.Join(naming.ExpandAll(names, t.names()), ",")
	}
	if !cmdline.Given(fs, "workload") {
		t.divide()
	}
	if err := checkGiven(fs, line, t); err != nil {
		return o, err
	}
	o.given = shown(fs)
	if o.language, err = pagetexts.OfBench(o.lang); err != nil {
		return o, fmt.Errorf("-lang: %w", err)
	}
	return o, o.interpret(fs, t)
}

// names lists the names that -strategies accepts for the workload.
func (t texts) names() []string {
	if t.workload == string(report.WorkloadLock) {
		return lockbench.Contenders().Names()
	}
	return slices.Concat(catalog.Strategies().Names(), catalog.HoldNames(), []string{allStrategies})
}

// checkGiven refuses empty lists, and two reports in one file. As arguments only, because the environment
// may be meant for another run, it also refuses flags of other workloads, flags without effect and, if
// -target is set, flags that configure shops.
func checkGiven(fs *flag.FlagSet, line []string, t texts) error {
	errs := []error{cmdline.NotEmpty(fs, "strategies", "conditions", "target", "seam", "faults"), checkZeros(fs)}
	if taken, known := flagsOf()[catalog.Workload(t.workload)]; known {
		errs = append(errs, cmdline.Only(line, "workload "+t.workload, taken))
	}
	if err := cmp.Or(append(errs, cmdline.Apart(fs, "json", "html"))...); err != nil {
		return err
	}
	chaos := slices.Contains(naming.Split(t.conditions), string(catalog.Chaos))
	if slices.Contains(line, "requests") && (slices.Contains(line, "rate") || chaos) {
		return errors.New("-requests are sent all at once: -rate and condition chaos take a -duration")
	}
	if slices.Contains(line, "faults") && !chaos {
		return errors.New("-faults needs -conditions chaos")
	}
	if slices.Contains(line, "skew") && !cmdline.Given(fs, "items") {
		return errors.New("-skew needs -items")
	}
	if t.targets == "" {
		if slices.Contains(line, "token") {
			return errors.New("-token needs -target: shops that the bench starts get their own")
		}
		return nil
	}
	ofShops := "redis db redlock etcd zookeeper instances ttl work wait retry unfenced accept-replicas"
	for name := range strings.FieldsSeq(ofShops) {
		if slices.Contains(line, name) {
			return fmt.Errorf("-%s is for shops that the bench starts; those at -target have their own setting", name)
		}
	}
	return nil
}

// checkZeros refuses flags that are set to 0, because a 0 would mean the default.
func checkZeros(fs *flag.FlagSet) error {
	for name := range strings.FieldsSeq("requests stock instances items ttl rate duration in-flight repeat") {
		value := fs.Lookup(name).Value.String()
		if cmdline.Given(fs, name) && (value == "0" || value == "0s") {
			return fmt.Errorf("-%s is 0 (-h all shows what is allowed)", name)
		}
	}
	return nil
}

// shown lists the flags that were set, for the report. It hides addresses and tokens, which may
// contain secrets.
func shown(fs *flag.FlagSet) []string {
	var list []string
	fs.Visit(func(f *flag.Flag) {
		value := f.Value.String()
		switch f.Name {
		case "token", "target":
			value = "…"
		case "redis", "db", "redlock", "etcd", "zookeeper":
			if !backend.StartsRedis(value) {
				value = "…"
			}
		}
		list = append(list, "-"+f.Name+"="+value)
	})
	return list
}

// flags declares the flags. The part of a usage text after the first semicolon is shown only by -h
// all.
func flags(o *options, t *texts) *flag.FlagSet {
	fs := flag.NewFlagSet("bench", flag.ContinueOnError)
	fs.StringVar(&o.redis, "redis", "embedded", "`WHERE` Redis is: embedded, local, or host:port; "+
		"also local:cluster, which starts three primaries and three replicas, or redis://, rediss://, "+
		"redis+sentinel:// with one address, or several for a cluster")
	fs.StringVar(&o.db, "db", "embedded", "`WHERE` the database is: embedded, local, sqlite:FILE, "+
		"or user:password@tcp(host:port)/name")
	fs.StringVar(&o.servers.Redlock, "redlock", "", "`NODES` of redlock: embedded or local, which start five, "+
		"or addresses separated by commas (default local with -redis local, else embedded)")
	fs.StringVar(&o.servers.Etcd, "etcd", "local", "`WHERE` etcd is: local, or http://host:port; local is etcd from "+
		"the PATH, or else the go command builds it, which takes a minute the first time")
	fs.StringVar(&o.servers.ZooKeeper, "zookeeper", "local", "`WHERE` ZooKeeper is: local, or host:port")
	fs.IntVar(&o.Requests, "requests", 5000, "number of concurrent `REQUESTS`")
	fs.IntVar(&o.Rate, "rate", 0, "`REQUESTS` per second, instead of all at once; "+
		"they are sent at this rate without waiting for earlier replies")
	fs.DurationVar(&o.Duration, "duration", 0, "`TIME` for which requests are sent at the -rate (default 10s)")
	fs.IntVar(&o.InFlight, "in-flight", 0, "maximum `REQUESTS` in flight; at a -rate, further ones are dropped "+
		"(default 1000); in a burst, they wait for a connection (default all of -requests, or with many -items "+
		strconv.Itoa(bench.ItemsInFlight)+", if the limit on open files allows that)")
	fs.Int64Var(&o.Stock, "stock", 1000, "`UNITS` on sale; with -items, of all items together, in equal shares")
	fs.IntVar(&o.Items, "items", 1, "`NUMBER` of items on sale, each with its own share of the -stock, its own "+
		"audit and its own verdict; the row shows the worst verdict")
	fs.StringVar(&t.skew, "skew", bench.Skew{}.String(), "`SKEW` of who buys which of the -items, drawn by -seed: "+
		"uniform, or zipf:S, where item k is wanted in proportion to 1/k^S, such as zipf:1.1")
	fs.IntVar(&o.Instances, "instances", 2, "`NUMBER` of shops, each in its own process")
	fs.StringVar(&t.workload, "workload", string(catalog.Deduct), "`WORKLOAD`: deduct buys the item, cache reads it "+
		"through a cold cache that takes 100ms to fill, lock has no shop: many contenders take one lock, "+
		"hold is a sale whose buyers hold a unit and pay later; without the flag, hold follows deduct, with "+
		fmt.Sprint(bench.HoldBuyers)+" buyers, "+fmt.Sprint(bench.HoldStock)+" units and a ttl of "+
		bench.DefaultTTL.String())
	fs.StringVar(&t.strategies, "strategies", "", strategiesUsage())
	fs.StringVar(&t.conditions, "conditions", "", "`CONDITIONS`, separated by commas: calm, slow, crash, pause, "+
		"late, partition, failover, chaos; the default is calm,slow,crash,pause, where possible")
	fs.Uint64Var(&o.Seed, "seed", 1, "`SEED` for the faults of condition chaos, where each run of -repeat takes the "+
		"next one, and for who buys which of several -items, the same in all rows")
	fs.StringVar(&t.seam, "seam", "", seamUsage())
	fs.StringVar(&t.faults, "faults", "", "`KINDS` of faults for condition chaos, separated by commas "+
		"(default all that the servers allow)")
	fs.DurationVar(&o.TTL, "ttl", bench.DefaultTTL, "`TIME` until the lease of a lock expires; with several "+
		"-items the default is "+bench.ItemsTTL.String())
	fs.DurationVar(&o.Work, "work", defaultWork, "`TIME` that a holder works between reading the stock and writing it")
	fs.DurationVar(&o.Wait, "wait", 0, "longest `TIME` to wait for a lock; 0: long enough for every holder's turn, "+
		"at least 10s")
	fs.StringVar(&t.retry, "retry", "line", "waiting `POLICY`: line[:DELAY], fixed[:DELAY], backoff[:MIN-MAX], "+
		"recursive[:DELAY]")
	fs.StringVar((*string)(&o.Keys), "keys", string(bench.NoKeys), "idempotency `KEYS`: none, unique, "+
		"or pairs, where every two requests share one")
	fs.BoolVar(&o.SecondLook, "second-look", true, "readers of a cold key check the cache again under the lock")
	fs.StringVar((*string)(&o.Keeper), "keeper", "", "`BACKEND` of the stock: redis or database "+
		"(default redis, and database for the SQL strategies)")
	fs.BoolVar(&o.Unfenced, "unfenced", false, "do not check the fencing tokens of v8_fenced, v9_cohort, etcd "+
		"and zookeeper")
	fs.IntVar(&o.Replicas, "accept-replicas", 0, "`REPLICAS` of Redis that must have an order of lua_stream before "+
		"its buyer is told that it is accepted")
	fs.IntVar(&o.Repeat, "repeat", 1, "`RUNS` of each row, for medians and intervals; all rows once, then all again")
	fs.StringVar(&t.targets, "target", "", "`URLS` of running shops, separated by commas; the bench then starts none")
	fs.StringVar(&o.Token, "token", "", "`TOKEN` of the shops at -target")
	fs.StringVar(&o.json, "json", "", "`FILE` for the report as JSON; - for standard output, with the table on "+
		"standard error")
	fs.StringVar(&o.html, "html", "", "`FILE` for the report with plots, to open in a browser")
	fs.StringVar(&o.lang, "lang", pagetexts.English, "`LANGUAGE` of the tables and of -html: en or zh; names, errors "+
		"and JSON are in English")
	return fs
}

// interpret parses the texts and checks the configuration.
func (o *options) interpret(fs *flag.FlagSet, t texts) (err error) {
	if o.servers.Redlock == "" {
		o.servers.Redlock = "embedded"
		if o.redis == "local" {
			o.servers.Redlock = o.redis
		}
	}
	if o.html == "-" {
		return errors.New("-html is -; it must be a file: standard output is for the table")
	}
	switch catalog.Workload(t.workload) {
	case report.WorkloadLock:
		return o.locks(fs, t)
	case catalog.Hold:
		return o.onlyHolds(fs, t)
	}
	if !cmdline.Given(fs, "ttl") {
		o.TTL = 0 // the default depends on the items and the conditions
	}
	if slices.Contains(naming.Split(t.conditions), string(catalog.Chaos)) {
		if err := o.chaos(fs, t); err != nil {
			return err
		}
	}
	if cmdline.Given(fs, "duration") && o.Rate == 0 {
		return errors.New("-duration needs -rate")
	}
	if o.Skew, err = bench.ParseSkew(t.skew); err != nil {
		return fmt.Errorf("-skew: %w", err)
	}
	o.Targets = naming.Split(t.targets)
	for _, name := range naming.Split(t.strategies) {
		if slices.Contains(catalog.HoldNames(), name) {
			return fmt.Errorf("-strategies: %s is of workload %s, and -workload is %s: leave -workload out to run both",
				name, catalog.Hold, t.workload)
		}
	}
	all := append(catalog.Workloads(), catalog.Hold, report.WorkloadLock)
	if o.Workload, err = naming.Find("workload", t.workload, all, all); err != nil {
		return fmt.Errorf("-workload: %w", err)
	}
	if o.Policy, err = guard.ParsePolicy(t.retry); err != nil {
		return fmt.Errorf("-retry: %w", err)
	}
	if o.Conditions, err = parseConditions(t); err != nil {
		return err
	}
	if len(o.Conditions) == 0 {
		o.Conditions = o.defaultConditions()
	}
	if err := o.streamSeams(t); err != nil {
		return err
	}
	cfg := o.withServers(o.Config)
	if len(o.Targets) > 0 {
		cfg.DBURL = ""
	}
	o.Strategies = naming.Split(t.strategies)
	switch {
	case slices.Equal(o.Strategies, []string{allStrategies}):
		o.Strategies = cfg.AllStrategies()
		o.Strategies = slices.DeleteFunc(o.Strategies, func(name string) bool { // not every machine has their servers
			return name == string(catalog.NeedsZooKeeper) && !cmdline.Given(fs, "zookeeper") ||
				name == string(catalog.NeedsEtcd) && !cmdline.Given(fs, "etcd") && coordination.FindEtcd() != nil
		})
	case slices.Contains(o.Strategies, allStrategies):
		return fmt.Errorf("-strategies: %s excludes other names", allStrategies)
	case len(o.Strategies) == 0:
		o.Strategies = bench.DefaultStrategies(o.Workload)
	}
	cfg.Strategies = o.Strategies
	cfg = cfg.WithDefaults()
	if err := cfg.Check(); err != nil {
		return err
	}
	o.ID = cfg.ID // the report names the id that the items have
	return o.addHolds(fs, t)
}

// withServers adds to c what is known about the servers before they are started.
func (o *options) withServers(c bench.Config) bench.Config {
	switch o.redis {
	case "embedded":
	case "local":
		c.Failovers = struct{ bench.Failovers }{} // a placeholder until serve starts the sentinel set
	default:
		c.RedisURL = o.redis
	}
	if o.db == "embedded" || strings.HasPrefix(o.db, "sqlite:") {
		c.DBURL = "sqlite:" // the rest of the URL is not known yet, and does not matter here
	}
	if bench.CanServeChaos(o.redis, o.db) {
		c.Chaos = new(bench.ChaosServers) // a placeholder, too
	}
	return c
}

func parseConditions(t texts) (all []catalog.Condition, err error) {
	for _, name := range naming.Split(t.conditions) {
		c, err := catalog.ParseCondition(name)
		if err != nil {
			return nil, fmt.Errorf("-conditions: %w", err)
		}
		all = append(all, c)
	}
	return all, nil
}

// streamSeams sets the seams of strategies that write orders behind the sale. Seams of the hold
// workload are allowed only if the run also has stages of holds.
func (o *options) streamSeams(t texts) error {
	if t.seam == allStrategies {
		o.Seams = bench.Seams()
		return nil
	}
	ofHolds, others := seams(t.seam)
	if len(ofHolds) > 0 && len(t.stages) == 0 {
		return fmt.Errorf("-seam: %s is a seam of workload %s", ofHolds[0], catalog.Hold)
	}
	o.Seams = others
	return nil
}

// chaos parses the flags of the chaos condition, and sets the defaults of -rate and -stock for it.
func (o *options) chaos(fs *flag.FlagSet, t texts) (err error) {
	if cmdline.Given(fs, "seed") && o.Seed == 0 {
		return errors.New("-seed is 0; it must be 1 or more")
	}
	if !cmdline.Given(fs, "rate") {
		o.Rate = bench.ChaosRate
	}
	if !cmdline.Given(fs, "stock") {
		o.Stock = 0
	}
	if o.Faults, err = bench.ParseChaosKinds(naming.Split(t.faults)); err != nil {
		return fmt.Errorf("-faults: %w", err)
	}
	return nil
}

// defaultConditions returns the conditions that the run can have, except those that take half a
// minute or more: late, partition, failover and chaos.
func (o *options) defaultConditions() []catalog.Condition {
	switch {
	case len(o.Targets) > 0:
		return []catalog.Condition{catalog.Calm}
	case o.Instances == 1:
		return []catalog.Condition{catalog.Calm, catalog.Slow}
	}
	return []catalog.Condition{catalog.Calm, catalog.Slow, catalog.Crash, catalog.Pause}
}
