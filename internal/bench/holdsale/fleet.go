package holdsale

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"oversell/internal/backend"
	"oversell/internal/fleet"
	"oversell/internal/payment"
)

// maxConnections is how many connections to each shop the load balancer keeps.
const maxConnections = 256

// The time limits of processes.
const (
	startTimeout = 20 * time.Second
	stopTimeout  = 6 * time.Second
	// replyTime is how long a shop waits for Redis beyond the time that it may be stopped.
	replyTime = 2 * time.Second
)

// shops are the processes of a bench: the shops, and the payment provider. Webhooks go through
// a load balancer, as shops with several processes need one.
type shops struct {
	*fleet.Fleet
	cfg    Config
	token  string
	secret []byte

	severable bool // the shops' connections to their partners go through relays

	provider *fleet.Member
	payments *payment.Client
	balancer *http.Server
	webhook  string
	serving  sync.WaitGroup

	next atomic.Uint64
}

// open starts the provider, the load balancer and the shops.
func open(ctx context.Context, cfg Config) (_ *shops, err error) {
	f := &shops{cfg: cfg, token: rand.Text(), secret: []byte(rand.Text())}
	f.Fleet = fleet.New(1, f.shop)
	defer func() {
		if err != nil {
			f.close()
		}
	}()
	if err := f.balance(); err != nil {
		return nil, err
	}
	provider := fleet.Program{Name: "process payments", Command: cfg.Provider, Setup: setup{Name: "payments", Webhook: f.webhook, Secret: f.secret}}
	if f.provider, err = fleet.Run(ctx, provider, nil); err != nil {
		return nil, err
	}
	if f.payments, err = payment.NewClient(payment.ClientConfig{URL: f.provider.URL}); err != nil {
		return nil, err
	}
	return f, f.Fill(ctx, cfg.Instances)
}

// shop says how to start a shop.
func (f *shops) shop(number int) (p fleet.Program, err error) {
	redisURL, err := backend.WithReadTimeout(f.cfg.RedisURL, f.cfg.long()+replyTime)
	if err != nil {
		return p, err
	}
	s := setup{
		Name: fmt.Sprintf("%s-%d", f.cfg.ID, number), RedisURL: redisURL, DBURL: f.cfg.DBURL, Token: f.token,
		TTL: f.cfg.TTL, Sweep: f.cfg.sweep(), Settle: f.cfg.settle(), Provider: f.provider.URL, Secret: f.secret,
	}
	if f.severable {
		if s, p.Links, err = relay(s); err != nil {
			return p, err
		}
	}
	p.Name, p.Command, p.Setup = "process "+s.Name, f.cfg.Shop, s
	return p, nil
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

// crashed returns the error of a process that ended by itself.
func (f *shops) crashed() error {
	if err := f.provider.Err(); err != nil {
		return err
	}
	return f.Crashed(0)
}

// balance serves the address for webhooks, and passes them to the shops.
func (f *shops) balance() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listening for webhooks: %w", err)
	}
	f.webhook = "http://" + l.Addr().String() + "/api/payments/webhook"
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			if to, err := url.Parse(f.url()); err == nil { // it is the address of a listener
				r.SetURL(to)
			}
		},
		Transport: &http.Transport{MaxIdleConnsPerHost: maxConnections},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) {
			w.WriteHeader(http.StatusBadGateway) // the shop was killed: the provider tries again
		},
	}
	f.balancer = &http.Server{Handler: proxy, ReadHeaderTimeout: startTimeout}
	f.serving.Go(func() {
		if err := f.balancer.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			_ = l.Close() // the provider's webhooks fail, and the rows say so
		}
		proxy.Transport.(*http.Transport).CloseIdleConnections()
	})
	return nil
}

// close ends all processes.
func (f *shops) close() {
	f.Stop(stopTimeout)
	if f.payments != nil {
		f.payments.Close()
	}
	if f.provider != nil {
		f.provider.Close(stopTimeout)
	}
	if f.balancer != nil {
		_ = f.balancer.Close() // nobody sends webhooks any more
		f.serving.Wait()
	}
}
