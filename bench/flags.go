package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/peterbourgon/ff/v3"

	"oversell/internal/bench"
	"oversell/internal/bench/chaos"
	"oversell/internal/locks"
	"oversell/internal/stock"
)

const usage = `Bench starts shops as processes of their own, lets thousands of requests for
one hot item go at once, and reports what was oversold under each strategy of
guarding the stock, and under each condition that befalls the holders.

Usage: bench [flags]
       bench compare OLD.json [NEW.json]

Examples:
  go run ./bench                                     everything, on embedded backends
  go run ./bench -strategies none,v6_watchdog -conditions calm
  go run ./bench -requests 5000 -stock 5000 -strategies watch,v6_watchdog -conditions calm
  go run ./bench -rate 500 -duration 10s -stock 2000 -conditions calm
                                                     500 buyers a second, whether or not earlier ones were answered
  go run ./bench -strategies v8_fenced -conditions pause -unfenced
                                                     what fencing tokens are worth where nobody checks them
  go run ./bench -db local -strategies sql_conditional,sql_version,sql_for_update,sql_get_lock
                                                     the database's own ways, on a private MariaDB or MySQL
  go run ./bench -keeper database -strategies v6_watchdog,v9_cohort
                                                     the locks, with the stock in the database
  go run ./bench -redis local -conditions failover -strategies v6_watchdog,v9_cohort,redlock
                                                     a real sentinel set, whose primary is killed
  go run ./bench -redis local -db local -conditions chaos -seed 7 -strategies v6_watchdog,lua_batch
                                                     shops, Redis, database and network fail, one after the other
  go run ./bench -strategies redlock,etcd,zookeeper -conditions calm,pause
                                                     five Redis nodes, an embedded etcd, a private ZooKeeper
  go run ./bench -workload cache                     readers of a cold key, with the double check
  go run ./bench -workload cache -second-look=false -conditions calm
  go run ./bench -workload lock -redis local         our locks and those of others, 5,000 contenders in one process
  go run ./bench -workload lock -redis local -instances 4 -repeat 5 -strategies v7_queue,redsync,rueidislock
  go run ./bench -redis local -db local              a private redis-server and mariadbd from the PATH
  go run ./bench -redis redis://:secret@10.0.0.5:6379 -db 'user:secret@tcp(10.0.0.6:3306)/shop'
  go run ./bench -target http://127.0.0.1:8080       a shop that runs already
  go run ./bench -json report.json                   the same figures for a program
  go run ./bench -json - | jq '.rows[].verdict'
  go run ./bench -html report.html                   the table, plots and all figures in one file
  go run ./bench -repeat 6 -json new.json            every row six times, with medians and intervals
  go run ./bench compare old.json new.json           what changed, and what is only noise (compare -h)

Conditions:
  calm   nothing happens
  slow   some holders work longer than the ttl before they write
  late   some holders let go later than the ttl, after they wrote
  crash  a process that holds the lock is killed
  pause  a process that holds the lock is stopped for longer than the ttl, then goes on
  partition  a process that holds the lock is cut off from Redis as it writes, for
         longer than the ttl; what it has sent arrives afterwards
  failover  with -redis local: the Redis that has the lock is killed, and a replica
         that has not heard of it takes over; buyers come over ten seconds
  chaos  alone, and with servers that the bench starts itself: faults that -seed draws
         strike shops, Redis, the database and the network while 200 buyers a second
         come for a minute and try again; -redis local -db local for all faults

Exit code: 0 if every row came out as the catalog says it must, 1 if one did
not, 2 if the bench could not run.

Flags, each also read from the environment (-redis from OVERSELL_REDIS, and so on):
`

// envPrefix and a flag's name in capitals make the environment variable that
// is the flag's default.
const envPrefix = "OVERSELL"

// texts are the flags that are names and lists.
type texts struct {
	workload, strategies, conditions, retry, keys, keeper, targets, faults string
}

// allStrategies stands for all strategies that can be had.
const allStrategies = "all"

func strategiesUsage(catalog locks.Catalog) string {
	usual := bench.DefaultStrategies(catalog, locks.Deduct)
	extra := slices.DeleteFunc(catalog.Names(), func(name string) bool { return slices.Contains(usual, name) })
	return "`STRATEGIES`, separated by commas; all of " + strings.Join(usual, ",") + " by default, and of " +
		strings.Join(extra, ",") + " as well with -strategies " + allStrategies + ", zookeeper only where -zookeeper is given, and v6_wait_… where -conditions failover is"
}

// defaultWork is little next to what a sale takes, and enough that two
// instances never happen to work in turns: local would seem to hold then.
const defaultWork = 400 * time.Microsecond

// parse reads the flags and the environment. Its errors are one line each. It
// returns flag.ErrHelp when help is asked for.
func parse(args []string) (options, error) {
	var o options
	var t texts
	o.Catalog, o.Command = locks.Strategies(), command
	fs := flags(&o, &t)
	fs.SetOutput(io.Discard) // an error is reported once, by the caller
	fs.Usage = func() {}
	if err := ff.Parse(fs, args, ff.WithEnvVarPrefix(envPrefix)); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return o, flag.ErrHelp
		}
		return o, fmt.Errorf("%w (-h shows what is allowed)", err)
	}
	if fs.NArg() > 0 {
		return o, fmt.Errorf("%q is no flag (-h shows them)", fs.Arg(0))
	}
	line := flags(new(options), new(texts)) // what was given there, and not by the environment
	line.SetOutput(io.Discard)
	if err := line.Parse(args); err != nil {
		return o, err
	}
	if err := checkGiven(fs, line, t); err != nil {
		return o, err
	}
	o.given = shown(fs)
	if err := o.interpret(fs, t); err != nil {
		return o, err
	}
	return o, o.checkMeaning(line)
}

// checkGiven refuses lists that are given and name nothing, and beside -target
// what the shops there decide for themselves. What only the environment says may
// be meant for a shop, and is let pass.
func checkGiven(fs, line *flag.FlagSet, t texts) error {
	for name, list := range map[string]string{"strategies": t.strategies, "conditions": t.conditions, "target": t.targets} {
		if given(fs, name) && len(split(list)) == 0 {
			return fmt.Errorf("-%s %q names nothing (-h shows what is allowed)", name, list)
		}
	}
	if t.workload == workloadLock {
		return checkLine(line)
	}
	if given(line, "rate") && given(line, "requests") {
		return errors.New("-rate and -requests exclude each other: at a rate, -duration says how many there are")
	}
	if t.targets == "" {
		if given(line, "token") {
			return errors.New("-token goes with -target: shops that the bench starts itself have one of their own")
		}
		return nil
	}
	for _, name := range []string{"redis", "db", "redlock", "etcd", "zookeeper", "instances", "ttl", "work", "wait", "retry", "unfenced"} {
		if given(line, name) {
			return fmt.Errorf("-%s goes with shops that the bench starts itself, and those at -target have their own", name)
		}
	}
	return nil
}

// checkRate refuses a zero that is given, which otherwise stands for a default,
// and what has no meaning without a rate.
func checkRate(fs *flag.FlagSet, o options) error {
	for name, zero := range map[string]bool{"rate": o.Rate == 0, "duration": o.Duration == 0, "in-flight": o.InFlight == 0} {
		if given(fs, name) && zero {
			return fmt.Errorf("-%s is 0 (-h shows what is allowed)", name)
		}
		if given(fs, name) && o.Rate == 0 {
			return fmt.Errorf("-%s goes with -rate", name)
		}
	}
	return nil
}

// given reports whether a flag was set.
func given(fs *flag.FlagSet, name string) (found bool) {
	fs.Visit(func(f *flag.Flag) { found = found || f.Name == name })
	return found
}

// shown lists the flags that were set, for the report. What may hold a password
// is left out.
func shown(fs *flag.FlagSet) []string {
	var list []string
	fs.Visit(func(f *flag.Flag) {
		value := f.Value.String()
		switch f.Name {
		case "token", "target":
			value = "…"
		case "redis", "db", "redlock", "etcd", "zookeeper":
			if value != "embedded" && value != "local" {
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
	fs.StringVar(&o.redis, "redis", "embedded", "`WHERE` Redis is: embedded, local, or redis://, rediss://, redis+sentinel:// with one address or, for a cluster, several")
	fs.StringVar(&o.db, "db", "embedded", "`WHERE` the database is: embedded, local, sqlite:FILE, or user:password@tcp(host:port)/name")
	fs.StringVar(&o.servers.Redlock, "redlock", "", "`NODES` of redlock: embedded or local, which start five, or the addresses of yours, separated by commas (default as -redis, or embedded)")
	fs.StringVar(&o.servers.Etcd, "etcd", "embedded", "`WHERE` etcd is: embedded, or http://host:port")
	fs.StringVar(&o.servers.ZooKeeper, "zookeeper", "local", "`WHERE` ZooKeeper is: local, or host:port")
	fs.IntVar(&o.Requests, "requests", 5000, "concurrent `REQUESTS`")
	fs.IntVar(&o.Rate, "rate", 0, "`REQUESTS` a second, sent at that rate whether or not earlier ones were answered, instead of all at once")
	fs.DurationVar(&o.Duration, "duration", 0, "how long requests are sent at a -rate (default 10s)")
	fs.IntVar(&o.InFlight, "in-flight", 0, "`REQUESTS` of a -rate that may be under way at once; one whose time comes while there are as many is dropped (default 1000)")
	fs.Int64Var(&o.Stock, "stock", 1000, "`UNITS` of the item on sale")
	fs.IntVar(&o.Instances, "instances", 2, "`NUMBER` of shops, each a process of its own")
	fs.StringVar(&t.workload, "workload", string(locks.Deduct), "`WORKLOAD`: deduct buys the item, cache reads it through a cold cache that takes 100ms to fill, lock has no shop: a crowd contends for one lock")
	fs.StringVar(&t.strategies, "strategies", "", strategiesUsage(o.Catalog))
	fs.StringVar(&t.conditions, "conditions", "", "`CONDITIONS`, separated by commas: calm,slow,late,crash,pause,partition,failover,chaos (default calm,slow,crash,pause, or those of them that can be had)")
	fs.Uint64Var(&o.Seed, "seed", 1, "`NUMBER` by which the faults of condition chaos are drawn; with -repeat each run has the next one")
	fs.StringVar(&t.faults, "faults", "", "`KINDS` of faults to draw from under condition chaos, separated by commas (default all that can be done)")
	fs.DurationVar(&o.TTL, "ttl", bench.DefaultTTL, "lease of a lock")
	fs.DurationVar(&o.Work, "work", defaultWork, "what a holder takes for its work, between reading the stock and writing it")
	fs.DurationVar(&o.Wait, "wait", 0, "longest wait for a lock; 0 is enough for every holder's turn, and at least 10s")
	fs.StringVar(&t.retry, "retry", "line", "`POLICY` of waiting for a lock: line[:DELAY], fixed[:DELAY], backoff[:MIN-MAX], recursive[:DELAY]")
	fs.StringVar(&t.keys, "keys", string(bench.NoKeys), "idempotency `KEYS`: none, unique, or pairs, where every two requests share one")
	fs.BoolVar(&o.SecondLook, "second-look", true, "readers of a cold key look into the cache again when they have the lock")
	fs.StringVar(&t.keeper, "keeper", "", "`WHO` keeps the stock: redis, or database (default redis, but for the strategies that are SQL)")
	fs.BoolVar(&o.Unfenced, "unfenced", false, "the stock does not look at the fencing tokens of v8_fenced, v9_cohort,\netcd and zookeeper")
	fs.IntVar(&o.Repeat, "repeat", 1, "`RUNS` of each row: all rows once, then all again; the table then has medians and intervals")
	fs.StringVar(&t.targets, "target", "", "`URLS` of shops that run already, separated by commas; none is started then")
	fs.StringVar(&o.Token, "token", "", "`TOKEN` of the shops at -target")
	fs.StringVar(&o.json, "json", "", "`FILE` to write the report to as JSON; - for standard output, and the table on standard error then")
	fs.StringVar(&o.html, "html", "", "`FILE` to write the report to with plots, to be opened in a browser")
	return fs
}

// interpret turns the texts into what they name, and checks the whole.
func (o *options) interpret(fs *flag.FlagSet, t texts) (err error) {
	if t.workload == workloadLock {
		return o.interpretLock(fs, t)
	}
	if o.TTL == 0 {
		return errors.New("-ttl is 0s, and must be at least 10ms")
	}
	if o.html == "-" {
		return errors.New("-html is -, and must be a file: standard output is for the table")
	}
	if o.Repeat == 0 {
		return fmt.Errorf("-repeat is 0, and must be 1 to %d", bench.MaxRepeat)
	}
	if slices.Contains(split(t.conditions), string(locks.Chaos)) {
		if err := o.chaos(fs, t); err != nil {
			return err
		}
	}
	if err := checkRate(fs, *o); err != nil {
		return err
	}
	o.Keys, o.Targets = bench.Keys(t.keys), split(t.targets)
	if o.Workload, err = locks.ParseWorkload(t.workload); err != nil {
		return fmt.Errorf("-workload: %w of a workload: %q (allowed: %v)", locks.ErrName, t.workload, append(locks.Workloads(), workloadLock))
	}
	if o.Policy, err = locks.ParsePolicy(t.retry); err != nil {
		return fmt.Errorf("-retry: %w", err)
	}
	for _, name := range split(t.conditions) {
		c, err := locks.ParseCondition(name)
		if err != nil {
			return fmt.Errorf("-conditions: %w", err)
		}
		o.Conditions = append(o.Conditions, c)
	}
	if len(o.Conditions) == 0 {
		o.Conditions = o.defaultConditions()
	}
	if o.servers.Redlock == "" {
		o.servers.Redlock = "embedded"
		if o.redis == "local" {
			o.servers.Redlock = o.redis
		}
	}
	o.Keeper = stock.Keeper(t.keeper)
	cfg := o.Config
	if len(o.Targets) == 0 && (o.db == "embedded" || strings.HasPrefix(o.db, "sqlite:")) {
		cfg.DBURL = "sqlite:" // what is not known before it is served is of no matter here
	}
	if o.redis != "embedded" && o.redis != "local" {
		cfg.RedisURL = o.redis
	}
	if o.redis == "local" {
		cfg.Failovers = struct{ bench.Failovers }{} // there will be, where they are needed
	}
	if chaos.CheckSpecs(o.redis, o.db) == nil {
		cfg.Chaos = new(chaos.Servers) // there will be, where they are needed
	}
	o.Strategies = split(t.strategies)
	switch {
	case slices.Equal(o.Strategies, []string{allStrategies}):
		o.Strategies = cfg.AllStrategies()
		if !given(fs, "zookeeper") { // which not everybody has
			o.Strategies = slices.DeleteFunc(o.Strategies, func(name string) bool { return name == string(locks.NeedsZooKeeper) })
		}
	case slices.Contains(o.Strategies, allStrategies):
		return fmt.Errorf("-strategies: %s stands alone", allStrategies)
	case len(o.Strategies) == 0:
		o.Strategies = bench.DefaultStrategies(o.Catalog, o.Workload)
	}
	cfg.Strategies = o.Strategies
	return cfg.WithDefaults().Check()
}

// chaos fills in what a row under chaos is run with where the flags do not say.
func (o *options) chaos(fs *flag.FlagSet, t texts) (err error) {
	if given(fs, "seed") && o.Seed == 0 {
		return errors.New("-seed is 0, and must be 1 or more")
	}
	if !given(fs, "rate") {
		o.Rate = bench.ChaosRate
	}
	if !given(fs, "duration") {
		o.Duration = bench.ChaosDuration
	}
	if !given(fs, "ttl") {
		o.TTL = bench.ChaosTTL
	}
	if !given(fs, "stock") && o.Rate > 0 {
		o.Stock = bench.ChaosStock(o.Rate, o.Duration)
	}
	if o.Faults, err = chaos.ParseKinds(split(t.faults)); err != nil {
		return fmt.Errorf("-faults: %w", err)
	}
	return nil
}

// defaultConditions are those that can be had, but for late and partition, each of
// which is worth half a minute only to those who ask for it, and failover, which
// takes minutes.
func (o *options) defaultConditions() []locks.Condition {
	switch {
	case len(o.Targets) > 0:
		return []locks.Condition{locks.Calm}
	case o.Instances == 1:
		return []locks.Condition{locks.Calm, locks.Slow}
	}
	return []locks.Condition{locks.Calm, locks.Slow, locks.Crash, locks.Pause}
}

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

// help explains the program.
func help(w io.Writer) {
	fmt.Fprint(w, usage)
	fs := flags(&options{Config: bench.Config{Catalog: locks.Strategies()}}, new(texts))
	fs.SetOutput(w)
	fs.PrintDefaults()
}
