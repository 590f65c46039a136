package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/peterbourgon/ff/v3"

	"oversell/internal/backend"
	"oversell/internal/bench"
	"oversell/internal/bench/chaos"
	"oversell/internal/bench/holdsale"
	"oversell/internal/bench/items"
	"oversell/internal/bench/lockbench"
	"oversell/internal/bench/report"
	"oversell/internal/catalog"
	"oversell/internal/guard"
	pagetexts "oversell/internal/page/texts"
	"oversell/internal/stock"
)

const usage = `Bench starts shops in separate processes, sends thousands of concurrent requests
for one hot item, and reports what each strategy for guarding the stock oversold
under each condition: calm, slow holders, crashes, and so on.

Usage: bench [flags]
       bench compare OLD.json [NEW.json]
       bench audit [-told FILE] URL

Examples:
  go run ./bench                                     everything, on embedded backends
  go run ./bench -strategies none,v6_watchdog -conditions calm
  go run ./bench -requests 5000 -stock 5000 -strategies watch,v6_watchdog -conditions calm
  go run ./bench -items 1000 -skew zipf:1.1 -requests 20000 -strategies v6_watchdog,v9_cohort
                                                     a thousand items, some wanted by many and most by few
  go run ./bench -rate 500 -duration 10s -stock 2000 -conditions calm
                                                     500 buyers a second, without waiting for earlier replies
  go run ./bench -strategies v1,v2,h3 -conditions crash   short names, of v1_setnx, v2_ttl and h3_claim
  go run ./bench -strategies v8_fenced -conditions pause -unfenced
                                                     fencing tokens that the stock does not check
  go run ./bench -db local -strategies sql_conditional,sql_version,sql_for_update,sql_get_lock,sql_units
                                                     conditional updates, row locks and a row per unit, on a private MariaDB or MySQL
  go run ./bench -keeper database -strategies v6_watchdog,v9_cohort
                                                     locks, with the stock in the database
  go run ./bench -redis local -conditions failover -strategies v6_watchdog,v9_cohort,redlock
                                                     a sentinel set whose primary is killed
  go run ./bench -redis local -db local -conditions chaos -seed 7 -strategies v6_watchdog,lua_batch
                                                     faults in shops, Redis, the database and the network
  go run ./bench -strategies redlock,etcd,zookeeper -conditions calm,pause
                                                     five Redis nodes, a private etcd and ZooKeeper
  go run ./bench -workload cache                     readers of a cold key
  go run ./bench -workload cache -second-look=false -conditions calm
  go run ./bench -workload lock -redis local         all locks without a shop, 5,000 contenders in one process
  go run ./bench -workload lock -redis local -instances 4 -repeat 5 -strategies v7_queue,redsync,rueidislock
  go run ./bench -strategies lua_stream,h3_claim -conditions calm,crash
                                                     two workloads in one run: deduct, and hold with its own sizes
  go run ./bench -workload hold                      buyers who hold a unit and pay later: crash, pause, late payments
  go run ./bench -workload hold -redis local -db local -strategies h3_claim -conditions crash -seam all
  go run ./bench -redis local -db local -strategies lua_stream -conditions crash -seam all
                                                     processes killed after the script, and where orders are written
  go run ./bench -redis local -conditions calm,failover -strategies lua_stream -accept-replicas 2
                                                     orders that no failover loses, and what that costs
  go run ./bench -redis local -db local              a private redis-server and mariadbd from the PATH
  go run ./bench -redis redis://:secret@10.0.0.5:6379 -db 'user:secret@tcp(10.0.0.6:3306)/shop'
  go run ./bench -target http://127.0.0.1:8080       a shop that is already running
  go run ./bench -json report.json                   the report as JSON
  go run ./bench -json - | jq '.rows[].verdict'
  go run ./bench -html report.html                   the report with plots, for a browser
  go run ./bench -html report.html -lang zh          in Chinese, as is the table
  go run ./bench -repeat 6 -json new.json            six runs of each row, with medians and intervals
  go run ./bench compare old.json new.json           what changed, and what is noise (compare -h)

Conditions:
  calm       no fault
  slow       some holders work for longer than the ttl before they write
  late       some holders write in time and unlock after the ttl
  crash      a process that holds the lock is killed
  pause      a process that holds the lock is stopped for longer than the ttl
  partition  a process that holds the lock loses its connection to Redis as it writes,
             for longer than the ttl; what it has sent arrives afterwards
  failover   the Redis primary with the lock is killed, and a replica that does not have
             it is promoted; needs -redis local; buyers arrive over ten seconds
  chaos      faults drawn by -seed in shops, Redis, the database and the network, while
             200 buyers a second arrive for a minute and retry; only by itself, and on
             servers that the bench starts (-redis local -db local for all faults)

Exit code: 0 if every row matched the catalog's expectation, 1 if one did not, 2 if
the bench could not run.

Flags (each has an environment variable: OVERSELL_REDIS for -redis, and so on):
`

// envPrefix is the prefix of the environment variables with the defaults of flags.
const envPrefix = "OVERSELL"

// texts are the flags that are parsed later: names and lists.
type texts struct {
	workload, strategies, conditions, retry, keys, keeper, targets, faults, seam, skew string

	stages []string // of holds, beside strategies of another workload
}

// allStrategies stands for every strategy that can be run.
const allStrategies = "all"

func strategiesUsage() string {
	usual := bench.DefaultStrategies(catalog.Deduct)
	isUsual := func(name string) bool { return slices.Contains(usual, name) }
	extra := slices.DeleteFunc(catalog.Strategies().Names(), isUsual)
	stages := catalog.HoldNames()
	return "`STRATEGIES`, separated by commas (default " + strings.Join(usual, ",") + "," + catalog.DefaultHoldStage +
		"); -strategies " + allStrategies + " adds " +
		strings.Join(extra, ",") + " (zookeeper only with -zookeeper) and " +
		strings.Join(stages, ",") + ", which are of workload hold"
}

// defaultWork is short compared with a sale, and long enough that two instances do not
// take turns by chance, in which case local would seem to hold.
const defaultWork = 400 * time.Microsecond

// parse reads the flags and the environment. Its errors are one line each; flag.ErrHelp
// means that help was asked for.
func parse(args []string) (options, error) {
	var o options
	var t texts
	fs := flags(&o, &t)
	fs.SetOutput(io.Discard) // an error is reported once, by the caller
	fs.Usage = func() {}
	if err := ff.Parse(fs, args, ff.WithEnvVarPrefix(envPrefix)); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return o, flag.ErrHelp
		}
		return o, fmt.Errorf("%w (-h shows what is allowed)", err)
	}
	if given(fs, "items") && o.Items == 0 {
		return o, errors.New("-items is 0 (-h shows what is allowed)")
	}
	if fs.NArg() > 0 {
		return o, fmt.Errorf("%q is not a flag (-h lists them)", fs.Arg(0))
	}
	if names := split(t.strategies); len(names) > 0 {
		t.strategies = strings.Join(guard.ExpandAll(names, t.names()), ",")
	}
	if !given(fs, "workload") {
		t.divide()
	}
	line := flags(new(options), new(texts)) // given as arguments, not by the environment
	line.SetOutput(io.Discard)
	if err := line.Parse(args); err != nil {
		return o, err
	}
	if err := checkGiven(fs, line, t); err != nil {
		return o, err
	}
	o.given = shown(fs)
	language, err := pagetexts.OfBench(o.lang)
	if err != nil {
		return o, fmt.Errorf("-lang: %w", err)
	}
	o.language = language
	return o, o.interpret(fs, t)
}

// names lists what -strategies can name in the workload.
func (t texts) names() []string {
	if t.workload == string(report.WorkloadLock) {
		return lockbench.Contenders().Names()
	}
	return slices.Concat(catalog.Strategies().Names(), catalog.HoldNames(), []string{allStrategies})
}

// checkGiven refuses empty lists, flags of other workloads, and with -target the settings of
// the shops. The environment may have settings that are meant for another run.
func checkGiven(fs, line *flag.FlagSet, t texts) error {
	for name, list := range map[string]string{
		"strategies": t.strategies, "conditions": t.conditions, "target": t.targets, "seam": t.seam,
	} {
		if given(fs, name) && len(split(list)) == 0 {
			return fmt.Errorf("-%s %q is empty (-h shows what is allowed)", name, list)
		}
	}
	if err := checkTaken(line, t.workload); err != nil {
		return err
	}
	if given(line, "requests") && (given(line, "rate") || slices.Contains(split(t.conditions), string(catalog.Chaos))) {
		return errors.New("-requests come at once: -rate and condition chaos take a -duration")
	}
	if t.targets == "" {
		if given(line, "token") {
			return errors.New("-token needs -target: shops that the bench starts get their own")
		}
		return nil
	}
	ofShops := "redis db redlock etcd zookeeper instances ttl work wait retry unfenced accept-replicas"
	for name := range strings.FieldsSeq(ofShops) {
		if given(line, name) {
			return fmt.Errorf("-%s is for shops that the bench starts; those at -target have their own setting", name)
		}
	}
	return nil
}

// checkRate refuses a zero, which would stand for the default, and the flags that need
// a rate without one.
func checkRate(fs *flag.FlagSet, o options) error {
	zeros := map[string]bool{"rate": o.Rate == 0, "duration": o.Duration == 0, "in-flight": o.InFlight == 0}
	for name, zero := range zeros {
		if given(fs, name) && zero {
			return fmt.Errorf("-%s is 0 (-h shows what is allowed)", name)
		}
		if given(fs, name) && o.Rate == 0 && name != "in-flight" { // of a burst it is the number of connections
			return fmt.Errorf("-%s needs -rate", name)
		}
	}
	return nil
}

// given reports whether a flag was set.
func given(fs *flag.FlagSet, name string) (found bool) {
	fs.Visit(func(f *flag.Flag) { found = found || f.Name == name })
	return found
}

// shown lists the flags that were set, for the report, without passwords.
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

// flags declares the flags.
func flags(o *options, t *texts) *flag.FlagSet {
	fs := flag.NewFlagSet("bench", flag.ContinueOnError)
	fs.StringVar(&o.redis, "redis", "embedded",
		"Redis `SERVER`: embedded, local, local:cluster, which starts three primaries and three replicas, or "+
			"redis://, rediss://, redis+sentinel:// with one address, or several for a cluster")
	fs.StringVar(&o.db, "db", "embedded",
		"`DATABASE`: embedded, local, sqlite:FILE, or user:password@tcp(host:port)/name")
	fs.StringVar(&o.servers.Redlock, "redlock", "",
		"`NODES` of redlock: embedded or local, which start five, or addresses separated by commas (default local "+
			"with -redis local, else embedded)")
	fs.StringVar(&o.servers.Etcd, "etcd", "local",
		"etcd `SERVER`: local (the one in the PATH, or built by the go command, which takes a minute once), or "+
			"http://host:port")
	fs.StringVar(&o.servers.ZooKeeper, "zookeeper", "local", "ZooKeeper `SERVER`: local, or host:port")
	fs.IntVar(&o.Requests, "requests", 5000, "number of concurrent `REQUESTS`")
	fs.IntVar(&o.Rate, "rate", 0,
		"`REQUESTS` per second, sent at this rate without waiting for earlier replies, instead of all at once")
	fs.DurationVar(&o.Duration, "duration", 0, "`TIME` for which requests are sent at the -rate (default 10s)")
	fs.IntVar(&o.InFlight, "in-flight", 0,
		"most `REQUESTS` in flight; at a -rate further ones are dropped (default 1000), in a burst they wait for a "+
			"connection (default all of -requests, for many -items "+strconv.Itoa(bench.ItemsInFlight)+", if the open "+
			"files allow them)")
	fs.Int64Var(&o.Stock, "stock", 1000, "`UNITS` on sale; with -items of all items together, each with an equal share")
	fs.IntVar(&o.Items, "items", 1,
		"`NUMBER` of items on sale, each with its own share of the -stock, its own audit and its own verdict; the "+
			"row has the worst of them")
	fs.StringVar(&t.skew, "skew", items.Skew{}.String(),
		"`SKEW` of who buys which of the -items, drawn by -seed: uniform, or zipf:S, where item k is wanted in "+
			"proportion to 1/k^S, such as zipf:1.1")
	fs.IntVar(&o.Instances, "instances", 2, "`NUMBER` of shops, each in its own process")
	fs.StringVar(&t.workload, "workload", string(catalog.Deduct),
		"`WORKLOAD`: deduct buys the item, cache reads it through a cold cache that takes 100ms to fill, lock has "+
			"no shop: many contenders take one lock, hold is a sale whose buyers hold a unit and pay later; without "+
			"the flag hold follows deduct, with "+fmt.Sprint(holdsale.DefaultBuyers)+" buyers, "+
			fmt.Sprint(holdsale.DefaultStock)+" units and a ttl of "+holdsale.DefaultTTL.String())
	fs.StringVar(&t.strategies, "strategies", "", strategiesUsage())
	fs.StringVar(&t.conditions, "conditions", "",
		"`CONDITIONS`, separated by commas: calm,slow,late,crash,pause,partition,failover,chaos (default "+
			"calm,slow,crash,pause, as far as possible)")
	fs.Uint64Var(&o.Seed, "seed", 1,
		"`SEED` for the faults of condition chaos, where each run of -repeat takes the next one, and for who buys "+
			"which of several -items, the same in all rows")
	fs.StringVar(&t.seam, "seam", "", seamUsage())
	fs.StringVar(&t.faults, "faults", "",
		"`KINDS` of faults for condition chaos, separated by commas (default all that the servers allow)")
	fs.DurationVar(&o.TTL, "ttl", bench.DefaultTTL,
		"lease of a lock; with several -items the default is "+bench.ItemsTTL.String())
	fs.DurationVar(&o.Work, "work", defaultWork, "`TIME` that a holder works between reading the stock and writing it")
	fs.DurationVar(&o.Wait, "wait", 0,
		"longest `TIME` to wait for a lock; 0: long enough for every holder's turn, at least 10s")
	fs.StringVar(&t.retry, "retry", "line",
		"waiting `POLICY`: line[:DELAY], fixed[:DELAY], backoff[:MIN-MAX], recursive[:DELAY]")
	fs.StringVar(&t.keys, "keys", string(bench.NoKeys),
		"idempotency `KEYS`: none, unique, or pairs, where every two requests share one")
	fs.BoolVar(&o.SecondLook, "second-look", true, "readers of a cold key check the cache again under the lock")
	fs.StringVar(&t.keeper, "keeper", "",
		"`BACKEND` of the stock: redis or database (default redis, and database for the SQL strategies)")
	fs.BoolVar(&o.Unfenced, "unfenced", false,
		"do not check the fencing tokens of v8_fenced, v9_cohort, etcd and zookeeper")
	fs.IntVar(&o.Replicas, "accept-replicas", 0,
		"`REPLICAS` of Redis that must have an order of lua_stream before its buyer is told that it is accepted")
	fs.IntVar(&o.Repeat, "repeat", 1,
		"`RUNS` of each row: all rows once, then all again; the table then has medians and intervals")
	fs.StringVar(&t.targets, "target", "", "`URLS` of running shops, separated by commas; the bench starts none")
	fs.StringVar(&o.Token, "token", "", "`TOKEN` of the shops at -target")
	fs.StringVar(&o.json, "json", "",
		"`FILE` for the report as JSON; - for standard output, with the table on standard error")
	fs.StringVar(&o.html, "html", "", "`FILE` for the report with plots, to open in a browser")
	fs.StringVar(&o.lang, "lang", pagetexts.English,
		"`LANGUAGE` of the tables and of -html: en or zh; names, errors and JSON are in English")
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
		return errors.New("-html is -, and must be a file: standard output is for the table")
	}
	if o.Repeat == 0 {
		return fmt.Errorf("-repeat is 0, and must be 1 to %d", bench.MaxRepeat)
	}
	switch catalog.Workload(t.workload) {
	case report.WorkloadLock:
		return o.locks(fs, t)
	case catalog.Hold:
		return o.onlyHolds(fs, t)
	}
	if o.TTL == 0 {
		return errors.New("-ttl is 0s, and must be at least 10ms")
	}
	if !given(fs, "ttl") {
		o.TTL = 0 // the default depends on the items and the conditions
	}
	if slices.Contains(split(t.conditions), string(catalog.Chaos)) {
		if err := o.chaos(fs, t); err != nil {
			return err
		}
	}
	if err := checkRate(fs, *o); err != nil {
		return err
	}
	if o.Skew, err = items.Parse(t.skew); err != nil {
		return fmt.Errorf("-skew: %w", err)
	}
	o.Keys, o.Targets = bench.Keys(t.keys), split(t.targets)
	for _, name := range split(t.strategies) {
		if slices.Contains(catalog.HoldNames(), name) {
			return fmt.Errorf("-strategies: %s is of workload %s, and -workload is %s: leave -workload out to run both",
				name, catalog.Hold, t.workload)
		}
	}
	if o.Workload, err = catalog.ParseWorkload(t.workload); err != nil {
		return fmt.Errorf("-workload: %w of a workload: %q (allowed: %v)", catalog.ErrName, t.workload,
			append(catalog.Workloads(), catalog.Hold, report.WorkloadLock))
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
	o.Keeper = stock.Backend(t.keeper)
	if err := o.streamSeams(t); err != nil {
		return err
	}
	cfg := o.withServers(o.Config)
	if len(o.Targets) > 0 {
		cfg.DBURL = ""
	}
	o.Strategies = split(t.strategies)
	switch {
	case slices.Equal(o.Strategies, []string{allStrategies}):
		o.Strategies = cfg.AllStrategies()
		if !given(fs, "zookeeper") { // not everybody has it
			o.Strategies = slices.DeleteFunc(o.Strategies,
				func(name string) bool { return name == string(catalog.NeedsZooKeeper) })
		}
	case slices.Contains(o.Strategies, allStrategies):
		return fmt.Errorf("-strategies: %s excludes other names", allStrategies)
	case len(o.Strategies) == 0:
		o.Strategies = bench.DefaultStrategies(o.Workload)
	}
	cfg.Strategies = o.Strategies
	if err := cfg.WithDefaults().Check(); err != nil {
		return err
	}
	return o.addHolds(fs, t)
}

// withServers adds what is known of the servers before they are started.
func (o *options) withServers(c bench.Config) bench.Config {
	switch o.redis {
	case "embedded":
	case "local":
		c.Failovers = struct{ bench.Failovers }{} // a placeholder: it is started if it is needed
	default:
		c.RedisURL = o.redis
	}
	if o.db == "embedded" || strings.HasPrefix(o.db, "sqlite:") {
		c.DBURL = "sqlite:" // the rest is not known yet and does not matter here
	}
	if chaos.CheckSpecs(o.redis, o.db) == nil {
		c.Chaos = new(chaos.Servers) // likewise a placeholder
	}
	return c
}

func parseConditions(t texts) (all []catalog.Condition, err error) {
	for _, name := range split(t.conditions) {
		c, err := catalog.ParseCondition(name)
		if err != nil {
			return nil, fmt.Errorf("-conditions: %w", err)
		}
		all = append(all, c)
	}
	return all, nil
}

// streamSeams sets the seams of orders that are written behind the sale. Those of a sale by
// holds are for the stages beside, if there are any.
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

// chaos leaves to the config what has another default under condition chaos.
func (o *options) chaos(fs *flag.FlagSet, t texts) (err error) {
	if given(fs, "seed") && o.Seed == 0 {
		return errors.New("-seed is 0, and must be 1 or more")
	}
	if !given(fs, "rate") {
		o.Rate = bench.ChaosRate
	}
	if !given(fs, "stock") {
		o.Stock = 0
	}
	if o.Faults, err = chaos.ParseKinds(split(t.faults)); err != nil {
		return fmt.Errorf("-faults: %w", err)
	}
	return nil
}

// defaultConditions are the possible ones, except those that take half a minute and more:
// late, partition, failover and chaos.
func (o *options) defaultConditions() []catalog.Condition {
	switch {
	case len(o.Targets) > 0:
		return []catalog.Condition{catalog.Calm}
	case o.Instances == 1:
		return []catalog.Condition{catalog.Calm, catalog.Slow}
	}
	return []catalog.Condition{catalog.Calm, catalog.Slow, catalog.Crash, catalog.Pause}
}

// split splits a list at commas, and trims its parts.
func split(list string) []string {
	var parts []string
	for part := range strings.SplitSeq(list, ",") {
		if part = strings.TrimSpace(part); part != "" {
			parts = append(parts, part)
		}
	}
	return parts
}

// help explains the program.
func help(w io.Writer) {
	fmt.Fprint(w, usage)
	fs := flags(new(options), new(texts))
	fs.SetOutput(w)
	fs.PrintDefaults()
}
