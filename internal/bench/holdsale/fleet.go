package holdsale

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"oversell/internal/backend"
	"oversell/internal/bench/chaos"
	"oversell/internal/catalog"
	"oversell/internal/fault"
	"oversell/internal/fleet"
	"oversell/internal/payment"
)

const (
	maxConnections = 64 // idle ones of the provider to each shop

	// stopTimeout is how long a shop may take to end.
	stopTimeout = 6 * time.Second
	// replyTime is how long a shop waits for Redis beyond the time that it may be stopped.
	replyTime = 2 * time.Second
)

// shops are the shops of a bench, and the payment provider, which this process serves.
type shops struct {
	*fleet.Fleet
	cfg    config
	token  string
	secret []byte

	severable bool // the shops' connections to their partners go through relays

	payments *payment.Client
	provider string // its address
	end      context.CancelFunc
	serving  sync.WaitGroup

	next atomic.Uint64
}

// open starts the provider and the shops.
func open(ctx context.Context, cfg config) (_ *shops, err error) {
	f := &shops{cfg: cfg, token: rand.Text(), secret: []byte(rand.Text())}
	f.Fleet = fleet.New(1, f.shop)
	if err := f.serveProvider(); err != nil {
		return nil, err
	}
	if err := f.Fill(ctx, cfg.Instances); err != nil {
		f.close()
		return nil, err
	}
	return f, nil
}

// A webhook that was not accepted is sent again after retryFrom, and then after twice as long
// each time, up to retryMost.
const (
	retryFrom = 100 * time.Millisecond
	retryMost = 2 * time.Second
)

// serveProvider serves the payment provider, whose webhooks go to each shop in turn.
func (f *shops) serveProvider() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listening for payments: %w", err)
	}
	f.provider = "http://" + l.Addr().String()
	if f.payments, err = payment.NewClient(payment.ClientConfig{URL: f.provider}); err != nil {
		return errors.Join(err, l.Close())
	}
	p := payment.NewServer(payment.Config{
		Secret: f.secret, Webhook: "http://shops/api/payments/webhook", RetryFrom: retryFrom, RetryMost: retryMost,
		Client: &http.Client{Transport: &toShops{f, http.Transport{MaxIdleConnsPerHost: maxConnections}}},
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)), // the books say what went wrong
	})
	var serving context.Context
	serving, f.end = context.WithCancel(context.Background())
	f.serving.Go(func() {
		if err := p.Serve(serving, l); err != nil {
			_ = l.Close() // the shops get no answer any more, and the rows say so
		}
	})
	return nil
}

// toShops sends each request to another shop. The provider tries again if that was killed.
type toShops struct {
	shops *shops
	http.Transport
}

// RoundTrip implements http.RoundTripper.
func (t *toShops) RoundTrip(r *http.Request) (*http.Response, error) {
	to, err := url.Parse(t.shops.url())
	if err != nil {
		return nil, err // it is the address of a listener
	}
	r = r.Clone(r.Context())
	r.URL.Scheme, r.URL.Host, r.Host = to.Scheme, to.Host, to.Host
	return t.Transport.RoundTrip(r)
}

// shop says how to start a shop.
func (f *shops) shop(number int) (p fleet.Program, err error) {
	redisURL, err := backend.WithReadTimeout(f.cfg.RedisURL, f.cfg.long()+replyTime)
	if err != nil {
		return p, err
	}
	s := setup{
		Name: fmt.Sprintf("%s-%d", f.cfg.ID, number), RedisURL: redisURL, DBURL: f.cfg.DBURL, Token: f.token,
		TTL: f.cfg.TTL, Sweep: f.cfg.sweep(), Settle: f.cfg.settle(), Provider: f.provider, Secret: f.secret,
	}
	if f.severable {
		if s, p.Links, err = relay(s); err != nil {
			return p, fmt.Errorf("relaying the connections of %s: %w", s.Name, err)
		}
	}
	p.Name, p.Command, p.Setup = "process "+s.Name, f.cfg.Command, s
	return p, nil
}

// What a shop is cut off from.
const (
	fromDatabase = "database"
	fromRedis    = "redis"
	fromProvider = "provider" // of payments
)

// relay puts relays between a shop and its partners. A database that is a file, or that is
// reached in another way than by TCP, has none.
func relay(s setup) (_ setup, links map[string]*fault.Relay, err error) {
	link, err := chaos.NewLink(s.RedisURL, s.DBURL)
	if err != nil {
		return s, nil, err
	}
	toProvider, err := fault.StartRelay(s.Provider[len("http://"):])
	if err != nil {
		return s, nil, errors.Join(err, link.Close())
	}
	s.RedisURL, s.DBURL, s.Provider = link.RedisURL, link.DBURL, "http://"+toProvider.Addr
	links = map[string]*fault.Relay{fromRedis: link.Redis, fromProvider: toProvider}
	if link.DB != nil {
		links[fromDatabase] = link.DB
	}
	return s, links, nil
}

// restart ends the shops if the config or the condition needs others. The row starts new ones.
func (f *shops) restart(cfg config, c catalog.Condition) {
	if severable := c == catalog.Partition; f.cfg.TTL != cfg.TTL || f.severable != severable {
		f.Stop(stopTimeout)
		f.cfg, f.severable = cfg, severable
	}
}

// begin prepares the shops for a row.
func (f *shops) begin(ctx context.Context) error {
	if err := f.Fill(ctx, f.cfg.Instances); err != nil {
		return err
	}
	return f.Arm(ctx, fleet.Arm{})
}

// url returns the address of a shop that was not killed, of each in turn; those that are
// stopped come last.
func (f *shops) url() string {
	alive := f.Running()
	running := slices.DeleteFunc(slices.Clone(alive), func(m *fleet.Member) bool { return m.Paused.Load() })
	if len(running) == 0 {
		running = alive
	}
	if len(running) == 0 {
		return "" // the caller fails and tries again
	}
	return running[f.next.Add(1)%uint64(len(running))].URL
}

// close ends the shops, and then the provider.
func (f *shops) close() {
	f.Stop(stopTimeout)
	f.payments.Close()
	f.end()
	f.serving.Wait()
}
