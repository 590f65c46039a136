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
	"os/exec"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"oversell/internal/backend"
	"oversell/internal/payment"
	"oversell/internal/proc"
)

// The time limits of processes.
const (
	startTimeout = 20 * time.Second
	armTimeout   = 5 * time.Second
	stopTimeout  = 6 * time.Second
	// replyTime is how long a shop waits for Redis beyond the time that it may be stopped.
	replyTime = 2 * time.Second
)

// fleet is the processes of a bench: the shops, and the payment provider. Webhooks go through
// a load balancer, as a shop with several processes needs one.
type fleet struct {
	cfg    Config
	token  string
	secret []byte

	severable bool // the shops' connections to their partners go through relays

	provider *process
	payments *payment.Client
	balancer *http.Server
	webhook  string
	serving  sync.WaitGroup

	reached chan arrival // of all shops

	mu      sync.Mutex
	shops   []*process
	started int // shops ever, for their names
	next    atomic.Uint64
}

// arrival is a call that waits at a seam.
type arrival struct {
	shop *process
	at   Seam
}

// process is a shop or the provider.
type process struct {
	*proc.Child[command, event]
	url     string
	links   links // of a shop that can be cut off, or nil
	ready   chan string
	armed   chan struct{}
	killed  atomic.Bool // by the bench
	paused  atomic.Bool // by the bench, in this row
	delayed atomic.Bool // a call was held up at a seam, in this row
	stalls  proc.LongestStall
}

// open starts the provider, the load balancer and the shops.
func open(ctx context.Context, cfg Config) (_ *fleet, err error) {
	f := &fleet{cfg: cfg, token: rand.Text(), secret: []byte(rand.Text()), reached: make(chan arrival, 64)}
	defer func() {
		if err != nil {
			f.close()
		}
	}()
	if err := f.balance(); err != nil {
		return nil, err
	}
	if f.provider, err = f.start(ctx, cfg.Provider, setup{Name: "payments", Webhook: f.webhook, Secret: f.secret}); err != nil {
		return nil, err
	}
	if f.payments, err = payment.NewClient(payment.ClientConfig{URL: f.provider.url}); err != nil {
		return nil, err
	}
	return f, f.fill(ctx)
}

// fill starts shops until there are enough. The first starts alone, because it creates the
// tables.
func (f *fleet) fill(ctx context.Context) error {
	f.mu.Lock()
	f.shops = slices.DeleteFunc(f.shops, func(p *process) bool { return p.killed.Load() })
	missing := f.cfg.Instances - len(f.shops)
	f.mu.Unlock()
	for range missing {
		if _, err := f.add(ctx); err != nil {
			return err
		}
	}
	return nil
}

// add starts a shop.
func (f *fleet) add(ctx context.Context) (*process, error) {
	redisURL, err := backend.WithReadTimeout(f.cfg.RedisURL, f.cfg.long()+replyTime)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	f.started++
	name := fmt.Sprintf("%s-%d", f.cfg.ID, f.started)
	f.mu.Unlock()
	s := setup{
		Name: name, RedisURL: redisURL, DBURL: f.cfg.DBURL, Token: f.token,
		TTL: f.cfg.TTL, Sweep: f.cfg.sweep(), Settle: f.cfg.settle(), Provider: f.provider.url, Secret: f.secret,
	}
	var between links
	if f.severable {
		if s, between, err = relay(s); err != nil {
			return nil, err
		}
	}
	p, err := f.start(ctx, f.cfg.Shop, s)
	if err != nil {
		return nil, errors.Join(err, between.close())
	}
	p.links = between
	f.mu.Lock()
	defer f.mu.Unlock()
	f.shops = append(f.shops, p)
	return p, nil
}

// start runs a process and waits until it serves requests.
func (f *fleet) start(ctx context.Context, program func() (*exec.Cmd, error), s setup) (*process, error) {
	cmd, err := program()
	if err != nil {
		return nil, err
	}
	p := &process{ready: make(chan string, 1), armed: make(chan struct{}, 1)}
	if p.Child, err = proc.StartChild[command, event]("process "+s.Name, cmd); err != nil {
		return nil, err
	}
	go f.listen(p)
	addr := ""
	if err = p.Send(command{Setup: &s}); err == nil {
		addr, err = proc.Await(ctx, p.Child, p.ready, startTimeout)
	}
	if err != nil {
		p.Kill()
		return nil, err
	}
	p.url = "http://" + addr
	return p, nil
}

// listen passes the events of a process on until it ends.
func (f *fleet) listen(p *process) {
	for e := range p.Events {
		switch {
		case e.Addr != "":
			post(p.ready, e.Addr)
		case e.Armed:
			post(p.armed, struct{}{})
		case e.Reached != "":
			post(f.reached, arrival{p, e.Reached})
		case e.Delayed != "":
			p.delayed.Store(true)
		case e.Stalled > 0:
			p.stalls.Add(e.Stalled)
		}
	}
}

// post puts v into a channel unless it is full.
func post[T any](to chan<- T, v T) {
	select {
	case to <- v:
	default:
	}
}

// arm arms the seams of a process, and waits until they are.
func (p *process) arm(ctx context.Context, a arm) error {
	select {
	case <-p.armed: // of an earlier command
	default:
	}
	if err := p.Send(command{Arm: &a}); err != nil {
		return err
	}
	_, err := proc.Await(ctx, p.Child, p.armed, armTimeout)
	return err
}

// kill kills a process, as a crash would.
func (p *process) kill() {
	p.killed.Store(true)
	p.Kill()
	_ = p.links.close() // nobody uses them any more
}

// alive returns the shops that were not killed.
func (f *fleet) alive() []*process {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(f.shops), func(p *process) bool { return p.killed.Load() })
}

// begin prepares the shops for a row.
func (f *fleet) begin(ctx context.Context) error {
	if err := f.fill(ctx); err != nil {
		return err
	}
	for _, p := range f.alive() {
		p.paused.Store(false)
		p.delayed.Store(false)
		p.stalls.Reset()
		if err := p.arm(ctx, arm{}); err != nil {
			return err
		}
	}
	return nil
}

// url returns the address of a shop that was not killed, of each in turn; those that are
// stopped come last.
func (f *fleet) url() string {
	alive := f.alive()
	running := slices.DeleteFunc(slices.Clone(alive), func(p *process) bool { return p.paused.Load() })
	if len(running) == 0 {
		running = alive
	}
	if len(running) == 0 {
		return "" // the caller fails and tries again
	}
	return running[f.next.Add(1)%uint64(len(running))].url
}

// crashed returns the error of a process that ended by itself.
func (f *fleet) crashed() error {
	for _, p := range append(f.alive(), f.provider) {
		select {
		case <-p.Done():
			return p.Died()
		default:
		}
	}
	return nil
}

// stalled is the longest stall in this row that was not injected.
func (f *fleet) stalled() (longest time.Duration) {
	for _, p := range f.alive() {
		if !p.paused.Load() {
			longest = max(longest, p.stalls.Get())
		}
	}
	return longest
}

// balance serves the address for webhooks, and passes them to the shops.
func (f *fleet) balance() error {
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

// stopShops ends the shops.
func (f *fleet) stopShops() {
	var all sync.WaitGroup
	for _, p := range f.alive() {
		all.Go(func() {
			p.Close(stopTimeout)
			_ = p.links.close() // nobody uses them any more
		})
	}
	all.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.shops = nil
}

// close ends all processes.
func (f *fleet) close() {
	f.stopShops()
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
