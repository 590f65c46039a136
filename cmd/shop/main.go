// Command shop runs a flash sale: an HTTP API for one hot item, with a switch for the strategy that
// guards its stock, and a page that shows how the strategies break.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9/logging"

	"oversell/internal/backend"
	"oversell/internal/backend/lockservers"
	"oversell/internal/catalog"
	"oversell/internal/page"
	"oversell/internal/page/runs"
	"oversell/internal/shop"
	"oversell/internal/stock"
	"oversell/internal/web"
)

// The exit codes.
const (
	exitOK     = 0
	exitFailed = 1 // the shop failed while running, or -check found a problem
	exitUnable = 2 // the shop could not start
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program immediately
	logging.Disable()            // go-redis returns the errors that it would print
	if len(os.Args) == 2 && os.Args[1] == instanceArg {
		os.Exit(instance(ctx, os.Stdin, os.Stdout, os.Stderr))
	}
	if len(os.Args) == 2 && os.Args[1] == matrixArg {
		os.Exit(matrix(ctx, os.Stdout, os.Stderr))
	}
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run runs the program, and returns its exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		help(stdout, args)
		return exitOK
	case err != nil:
		return complain(stderr, exitUnable, err)
	case o.check:
		if err := check(ctx, o.Web.Addr); err != nil {
			return complain(stderr, exitFailed, err)
		}
		return exitOK
	}
	ready := false
	err = serve(ctx, o, o.logger(stderr), func(addr, phones string) {
		ready = true
		if o.worker {
			fmt.Fprintln(stdout, "The worker writes the orders that shops accept with lua_stream.")
			return
		}
		if o.class {
			welcomeClass(stdout, addr, phones, o.Web.Token)
			return
		}
		welcome(stdout, addr)
	})
	switch {
	case err == nil, !ready && ctx.Err() != nil: // stopped, perhaps before it was ready
		return exitOK
	case ready:
		return complain(stderr, exitFailed, err)
	}
	return complain(stderr, exitUnable, err)
}

func complain(stderr io.Writer, code int, err error) int {
	fmt.Fprintf(stderr, "shop: %v\n", err)
	return code
}

// hot is the SKU of the item that is on sale from the start.
const hot = "hot"

// demo returns the item that is on sale from the start. Its stock is kept where the default
// strategy needs it.
func demo(strategy catalog.Strategy) *stock.Item {
	item := &stock.Item{SKU: hot, Name: "The hot item", Category: "demo", Initial: 1000}
	if strategy.InDatabase() {
		item.Keeper = stock.InDatabase
	}
	return item
}

// serve opens the backends and runs the shop on them until ctx is cancelled. It calls ready with
// the address, and with the URLs for the phones of a class.
func serve(ctx context.Context, o options, log *slog.Logger, ready func(addr, phones string)) (err error) {
	strategy, err := catalog.Strategies().Find(o.Strategy)
	if err != nil {
		return err
	}
	redis, err := backend.ServeRedis(ctx, o.redis)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, redis.Close()) }()
	db, err := backend.ServeDatabase(ctx, o.db)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	cfg := o.Config
	cfg.RedisURL, cfg.DBURL, cfg.Logger = redis.URL, db.URL, log
	cfg.Ready = func(addr string) { ready(addr, "") }
	if o.worker {
		return shop.Work(ctx, cfg)
	}
	servers, err := lockservers.New(ctx, o.servers, o.servers.Needs()...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, servers.Close()) }()
	var room *page.Class
	if o.class {
		room = page.NewClass(hot)
	}
	p, closePage, err := newPage(ctx, o, runs.Backends{RedisURL: redis.URL, DBURL: db.URL, Servers: servers}, room, log)
	if err != nil {
		return err
	}
	defer closePage()
	if cfg.Web.Hosts, err = web.ParseHosts(o.hosts); err != nil {
		return fmt.Errorf("-hosts: %w", err)
	}
	if cfg.Web.WebhookSecret, err = o.webhookSecret(); err != nil {
		return err
	}
	var done func()
	cfg.Hurry, done = hurry(ctx, o)
	defer done()
	cfg.RedisEnds, cfg.NoConsumer, cfg.OtherFiles = o.losesOrders(), !o.consume, otherFiles
	cfg.Servers, cfg.Item, cfg.Web.Page = servers, demo(strategy), p
	untrace, err := o.trace(ctx, &cfg)
	if err != nil {
		return err
	}
	defer untrace()
	if room != nil {
		if err := o.sellTo(room, &cfg, ready); err != nil {
			return err
		}
	}
	return shop.Run(ctx, cfg)
}

// hurry returns a context that the second signal ends, so that the shop can still report the number
// of accepted orders that are lost. It returns nil if the shop cannot lose any. A third signal ends
// the program immediately. The caller must call done.
func hurry(ctx context.Context, o options) (second context.Context, done func()) {
	if !o.losesOrders() {
		return nil, func() {}
	}
	second, cancel := context.WithCancel(context.Background())
	context.AfterFunc(ctx, func() {
		signals := make(chan os.Signal, 1)
		signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
		defer signal.Stop(signals)
		select {
		case <-signals:
			cancel()
		case <-second.Done():
		}
	})
	return second, cancel
}

// otherFiles is the number of open files that this process needs besides the shop's own, for the
// embedded servers and the page's runs.
const otherFiles = 512

func welcome(stdout io.Writer, addr string) {
	fmt.Fprintf(stdout, `The shop is open at http://%[1]s. Watch it break in a browser, or buy one of 1,000 units:
  curl -X POST http://%[1]s/api/items/hot/deduct -d '{"quantity":1}'
  curl http://%[1]s/api/audit/hot
`, localAddr(addr))
}

// localAddr returns the address at which this machine reaches a shop that listens on addr. It
// replaces 0.0.0.0, on which a shop listens for all addresses, because the shop does not answer to
// that name.
func localAddr(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.IsUnspecified() {
		return net.JoinHostPort("localhost", port)
	}
	return addr
}

// check asks the shop that listens on addr for its health.
func check(ctx context.Context, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+localAddr(addr)+"/healthz", nil)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("the shop at %s answered %s", addr, res.Status)
	}
	return nil
}
