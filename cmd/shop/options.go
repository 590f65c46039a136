package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"time"

	"oversell/internal/backend"
	"oversell/internal/backend/coordination"
	"oversell/internal/backend/lockservers"
	"oversell/internal/catalog"
	"oversell/internal/cmdline"
	"oversell/internal/guard"
	"oversell/internal/holds"
	"oversell/internal/naming"
	"oversell/internal/payment"
	"oversell/internal/shop"
	"oversell/internal/stock"
	"oversell/internal/stock/stream"
	"oversell/internal/web"
)

// envPrefix, followed by a flag's name in capitals, is the name of the environment variable that
// sets the default of the flag.
const envPrefix = "OVERSELL"

// options holds the values of the flags: the shop's config, and values that serve adds to it.
type options struct {
	shop.Config
	redis, db         string // see backend.ServeRedis and backend.ServeDatabase
	hosts             string // see web.ParseHosts
	servers           lockservers.Specs
	webhookSecretFile string
	log, otlp         string
	check, class      bool
	worker, consume   bool
}

// webhookSecret reads the file with the secret that signs the provider's webhooks, if there
// is one.
func (o options) webhookSecret() ([]byte, error) {
	if o.webhookSecretFile == "" {
		return nil, nil
	}
	secret, err := payment.ReadSecret(o.webhookSecretFile)
	if err != nil {
		return nil, fmt.Errorf("-webhook-secret-file: %w", err)
	}
	return secret, nil
}

// parse reads flags and environment. Each error is one line. It returns flag.ErrHelp if
// help is requested.
func parse(args []string) (options, error) {
	var o options
	var retry string
	fs := flags(&o, &retry)
	line, err := cmdline.Parse(fs, args, envPrefix)
	if err != nil {
		return o, err
	}
	if o.Policy, err = guard.ParsePolicy(retry); err != nil {
		return o, fmt.Errorf("-retry: %w", err)
	}
	o.Strategy = naming.Expand(o.Strategy, catalog.Strategies().Names())
	if o.class {
		o = o.withClass(fs)
	}
	o = o.withServers()
	if o.worker && slices.Contains(line, "addr") { // the environment of a container may set an address for its shops
		return o, errors.New("-worker serves no requests, so it takes no -addr")
	}
	return o, o.validate()
}

// alone reports whether the shop starts its own Redis.
func (o options) alone() bool { return backend.StartsRedis(o.redis) }

// losesOrders reports whether Redis ends with the shop but the database does not. Accepted orders
// that are not written yet would then be lost.
func (o options) losesOrders() bool { return o.alone() && o.db != "embedded" && o.db != "local" }

// onSQLite reports whether the database is SQLite.
func (o options) onSQLite() bool { return o.db == "embedded" || strings.HasPrefix(o.db, "sqlite:") }

// none turns off a server that would otherwise be started.
const none = "none"

// withServers makes a shop with its own Redis start the servers that need no installation, and
// turns off those set to none. Shops on a shared Redis do not start any servers, because they have
// to share the nodes, too.
func (o options) withServers() options {
	if o.alone() {
		o.servers.Redlock = cmp.Or(o.servers.Redlock, "embedded")
		if o.servers.Etcd == "" && coordination.FindEtcd() == nil {
			o.servers.Etcd = "local"
		}
	}
	for _, spec := range []*string{&o.servers.Redlock, &o.servers.Etcd, &o.servers.ZooKeeper, &o.Provider} {
		if *spec == none {
			*spec = ""
		}
	}
	return o
}

// minReconcile is the shortest pause between two rounds of the reconciler.
const minReconcile = 100 * time.Millisecond

func (o options) validate() error {
	s, err := catalog.Strategies().Find(o.Strategy)
	if err != nil {
		return fmt.Errorf("-strategy: %w", err)
	}
	_, badHosts := web.ParseHosts(o.hosts)
	_, badOTLP := tracesURL(o.otlp)
	elsewhere := o.Provider != shop.OwnProvider && o.Provider != ""
	_, port, badAddr := net.SplitHostPort(o.Web.Addr)
	switch needs := s.Needs; {
	case s.NeedsMySQL() && o.onSQLite():
		return fmt.Errorf("-strategy %s needs MySQL or MariaDB, and -db %s is SQLite", s.Name, o.db)
	case needs.OfServers() && !slices.Contains(o.servers.Needs(), needs):
		return fmt.Errorf("-strategy %s needs -%s (shop -h all shows what it can be)", s.Name, needs)
	case o.TTL < time.Millisecond:
		return fmt.Errorf("-ttl is %v; it must be at least 1ms", o.TTL)
	case o.Stock.Wait <= 0:
		return fmt.Errorf("-wait is %v; it must be more than 0", o.Stock.Wait)
	case o.Reconcile != 0 && o.Reconcile < minReconcile:
		return fmt.Errorf("-reconcile is %v; it must be 0 or at least %v", o.Reconcile, minReconcile)
	case o.Holds.TTL < time.Second:
		return fmt.Errorf("-hold-ttl is %v; it must be at least 1s", o.Holds.TTL)
	case o.Holds.Max != 0 && o.Holds.Max < o.Holds.TTL:
		return fmt.Errorf("-hold-max is %v; it must be 0 or at least -hold-ttl, which is %v", o.Holds.Max, o.Holds.TTL)
	case o.Holds.Settle < time.Second:
		return fmt.Errorf("-hold-settle is %v; it must be at least 1s", o.Holds.Settle)
	case o.Holds.Limit < 0:
		return fmt.Errorf("-hold-limit is %d; it must not be negative", o.Holds.Limit)
	case !elsewhere && o.webhookSecretFile != "":
		return errors.New("-webhook-secret-file is only for -provider URL; " +
			"an embedded provider has a new secret each time")
	case elsewhere && o.webhookSecretFile == "":
		return errors.New("-provider URL needs -webhook-secret-file, the secret that signs its webhooks")
	case !elsewhere && o.Holds.Ledger != "":
		return errors.New("-provider-name is for -provider URL")
	case o.Consumer.ClaimAfter < 10*time.Millisecond:
		return fmt.Errorf("-claim is %v; it must be at least 10ms", o.Consumer.ClaimAfter)
	case o.Stream.Backlog < 1:
		return fmt.Errorf("-backlog is %d; it must be at least 1", o.Stream.Backlog)
	case o.Stream.Replicas < 0:
		return fmt.Errorf("-accept-replicas is %d; it must not be negative", o.Stream.Replicas)
	case o.worker && (o.alone() || o.db == "embedded" || o.db == "local"):
		return errors.New("-worker needs the -redis and -db of the shops, not private ones")
	case o.worker && !o.consume:
		return errors.New("-worker writes accepted orders, and -consume=false forbids it")
	case o.worker && o.class:
		return errors.New("-worker serves no requests, so it takes no -class")
	case badHosts != nil:
		return fmt.Errorf("-hosts: %w", badHosts)
	case o.worker && o.otlp != "":
		return errors.New("-worker serves no requests, so it takes no -otlp")
	case o.otlp != "" && badOTLP != nil:
		return fmt.Errorf("-otlp %w", badOTLP)
	case badAddr != nil && strings.Trim(o.Web.Addr, "0123456789") == "":
		return fmt.Errorf("-addr %s has no colon: write :%[1]s, or 127.0.0.1:%[1]s for this machine only", o.Web.Addr)
	case badAddr != nil || port == "":
		return fmt.Errorf("-addr is %q; it must be HOST:PORT, such as 127.0.0.1:8080", o.Web.Addr)
	case o.log != "text" && o.log != "json":
		return fmt.Errorf("-log is %q; it must be text or json", o.log)
	}
	return nil
}

// flags declares the flags. The retry policy is not parsed yet. The part of a usage text after a
// semicolon is shown only by -h all.
func flags(o *options, retry *string) *flag.FlagSet {
	fs := flag.NewFlagSet("shop", flag.ContinueOnError)
	fs.StringVar(&o.Web.Addr, "addr", "127.0.0.1:8080", "`ADDRESS` to listen on; port 0 takes a free one")
	fs.StringVar(&o.hosts, "hosts", "", "`NAMES` under which the shop is served, separated by commas; such as "+
		"shop.example,10.0.0.7. localhost, 127.0.0.1, [::1] and the host of -addr are always allowed, and so is any "+
		"name with the token")
	fs.StringVar(&o.redis, "redis", "embedded", "`WHERE` the stock and the locks are: embedded, local, or "+
		"host:port; also local:cluster, or a URL such as redis://user:password@host:6379/0")
	fs.StringVar(&o.db, "db", "embedded", "`WHERE` items and orders are: embedded, local, sqlite:FILE, or "+
		"user:password@tcp(host:3306)/name")
	fs.StringVar(&o.servers.Redlock, "redlock", "", "`NODES` of redlock: embedded or local, which start five when "+
		"they are first used, addresses such as a:6379,b:6379,c:6379, or none; the default is embedded if the shop "+
		"starts its own Redis, otherwise none")
	fs.StringVar(&o.servers.Etcd, "etcd", "", "`WHERE` etcd is: local, which starts when it is first used, "+
		"http://host:port, or none; the default is local if the shop starts its own Redis and finds etcd, otherwise "+
		"none")
	fs.StringVar(&o.servers.ZooKeeper, "zookeeper", none, "`WHERE` ZooKeeper is: local, which starts when it is "+
		"first used, host:port, or none")
	fs.StringVar(&o.Strategy, "strategy", "v6_watchdog", "`STRATEGY` of requests that name none")
	fs.StringVar(&o.Web.Token, "token", "", "`SECRET` required for changing an item or the strategy; empty: not "+
		"required")
	fs.DurationVar(&o.TTL, "ttl", shop.DefaultTTL, "`TIME` until the lease of a lock expires; after a holder is "+
		"killed, no unit is sold for that long; a holder may stall for two thirds of it (v2 to v5: work for all of "+
		"it)")
	fs.DurationVar(&o.Stock.Wait, "wait", shop.DefaultWait, "longest `TIME` that a request waits for a lock")
	fs.DurationVar(&o.Reconcile, "reconcile", shop.DefaultReconcile, "`TIME` between two searches for units that a "+
		"killed process has taken and not sold; each shop searches, but a unit is put back on sale only once; 0: "+
		"off")
	fs.StringVar(retry, "retry", "line:2ms", "waiting `POLICY`: line:DELAY, fixed:DELAY, backoff:MIN-MAX or "+
		"recursive:DELAY")
	fs.BoolVar(&o.Unfenced, "unfenced", false, "do not check the fencing tokens of v8_fenced, v9_cohort, "+
		"etcd and zookeeper")
	fs.BoolVar(&o.Stock.Mixed, "mixed", false, "allow strategies that do not exclude each other to sell one item at "+
		"the same time, and to oversell it")
	fs.DurationVar(&o.Holds.TTL, "hold-ttl", holds.DefaultTTL, "`TIME` until a hold that is not paid expires")
	fs.DurationVar(&o.Holds.Max, "hold-max", 0, "longest `TIME` from the start of a hold to its expiry if its buyer "+
		"extends it; 0: three times as long as without an extension")
	fs.DurationVar(&o.Holds.Settle, "hold-settle", holds.DefaultSettle, "`TIME` after which any shop settles an "+
		"interrupted payment without a webhook: as an order, a refund or a cancellation")
	fs.Int64Var(&o.Holds.Limit, "hold-limit", 0, "maximum `UNITS` of a sale that one buyer may hold or have bought; "+
		"0: no limit")
	fs.StringVar(&o.Provider, "provider", shop.OwnProvider, "`WHERE` payments go: embedded, which is a provider in "+
		"this process that forgets everything when the process ends, the URL of go run ./cmd/provider, such as "+
		"http://127.0.0.1:8090, or none; several shops on one database need the same URL, because an embedded "+
		"provider knows only its own shop's payments")
	fs.StringVar(&o.Holds.Ledger, "provider-name", "", "`NAME` of -provider URL in the database, where unsettled "+
		"payments wait for the provider at which they began; by default its URL. If the provider has moved, give "+
		"its old URL")
	fs.StringVar(&o.webhookSecretFile, "webhook-secret-file", "", "`FILE` with the secret that signs the "+
		"webhooks of -provider URL")
	fs.BoolVar(&o.worker, "worker", false, "serve no requests, and only write the orders that shops on the same "+
		"-redis and -db have accepted with lua_stream")
	fs.BoolVar(&o.consume, "consume", true, "write the orders that were accepted with lua_stream; with "+
		"-consume=false, processes with -worker do")
	fs.DurationVar(&o.Consumer.ClaimAfter, "claim", stream.DefaultClaimAfter, "`TIME` after which another process "+
		"takes over an accepted order that a process has read but not written")
	fs.IntVar(&o.Stream.Backlog, "backlog", stock.DefaultBacklog, "accepted `ORDERS` of an item that may wait to be "+
		"written; further ones are refused with status 503")
	fs.IntVar(&o.Stream.Replicas, "accept-replicas", 0, "`REPLICAS` of Redis that must have an order of lua_stream "+
		"before its buyer is told that it is accepted; if too few have it in time, the buyer waits until the order "+
		"is written")
	fs.BoolVar(&o.class, "class", false, "a sale for a class: students buy 10 units from their phones; a page for "+
		"the projector has a QR code. Unless other flags say otherwise, the shop listens on all addresses, "+
		"generates a token, and starts with strategy none")
	fs.StringVar(&o.log, "log", "text", "`FORM` of the log on stderr: text or json")
	fs.StringVar(&o.otlp, "otlp", "", "`URL` of a collector that accepts traces of purchases by OTLP over HTTP, "+
		"such as http://127.0.0.1:4318; empty: no traces")
	fs.BoolVar(&o.check, "check", false, "check the health of the shop at -addr, and exit: 0 if it is healthy")
	return fs
}

// logger returns a logger that writes to stderr in the form of -log.
func (o options) logger(stderr io.Writer) *slog.Logger {
	if o.log == "json" {
		return slog.New(slog.NewJSONHandler(stderr, nil))
	}
	return slog.New(slog.NewTextHandler(stderr, nil))
}
