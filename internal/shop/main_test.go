package shop_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9/logging"

	"oversell/internal/backend/backendtest"
	"oversell/internal/locks/lease/leasetest"
	"oversell/internal/shop"
	"oversell/internal/stock"
	"oversell/internal/web"
)

func TestMain(m *testing.M) {
	logging.Disable() // go-redis also returns the errors that it would print
	if kind := os.Getenv(childEnv); kind != "" {
		if err := child(kind); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(backendtest.Main(m, leasetest.StopZooKeeper, func() error {
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
		return nil
	}))
}

// must ends the test if err is not nil.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// running is a shop that open has started.
type running struct {
	addr   string
	stop   context.CancelFunc
	ended  chan error // receives the error that Run returned
	client *http.Client
}

// config returns the configuration of a shop on the given backends that sells the item "hot".
func config(redisURL, dbURL string, units int64) shop.Config {
	return shop.Config{
		Web: web.Config{Addr: "127.0.0.1:0"}, RedisURL: redisURL, DBURL: dbURL, Strategy: "v6_watchdog",
		Item:   &stock.Item{SKU: "hot", Initial: units},
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	}
}

// open starts a shop and waits until it is ready.
func open(t *testing.T, cfg shop.Config) *running {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ready := make(chan string, 1)
	cfg.Ready = func(addr string) { ready <- addr }
	r := &running{stop: cancel, ended: make(chan error, 1)}
	r.client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1000}, Timeout: 10 * time.Minute}
	go func() { r.ended <- shop.Run(ctx, cfg) }()
	select {
	case r.addr = <-ready:
	case err := <-r.ended:
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.client.CloseIdleConnections()
		r.close(t)
	})
	return r
}

// close stops the shop, if it is still running.
func (r *running) close(t *testing.T) {
	t.Helper()
	r.stop()
	if err, open := <-r.ended; open && err != nil {
		t.Errorf("the shop ended with %v", err)
	}
	select {
	case <-r.ended:
	default:
		close(r.ended)
	}
}

// answer is the reply to a deduct.
type answer struct {
	status  int // 0 means that the connection was cut
	orderID string
	code    string
}

// buy sends one deduct and returns the reply.
func (r *running) buy() answer {
	res, err := r.client.Post("http://"+r.addr+"/api/items/hot/deduct", "application/json",
		strings.NewReader(`{"quantity":1}`))
	if err != nil {
		return answer{}
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	a := answer{status: res.StatusCode}
	var v struct {
		OrderID string `json:"order_id"`
		Code    string `json:"code"`
	}
	if err != nil || json.Unmarshal(body, &v) != nil {
		a.status = 0
		return a
	}
	a.orderID, a.code = v.OrderID, v.Code
	return a
}

// accept makes the shop accept n orders, one by one.
func (r *running) accept(t *testing.T, n int) {
	t.Helper()
	for i := range n {
		if a := r.buy(); a.status != http.StatusAccepted {
			t.Fatalf("buyer %d of %d got %d %s", i+1, n, a.status, a.code)
		}
	}
}

// crowd is a number of buyers who buy again and again until goHome is called.
type crowd struct {
	home    chan struct{}
	all     sync.WaitGroup
	mu      sync.Mutex
	answers []answer
	sold    chan struct{} // receives a value for each sale while a test waits for sales
}

func (r *running) crowd(n int) *crowd {
	c := &crowd{home: make(chan struct{}), sold: make(chan struct{})}
	for range n {
		c.all.Go(func() {
			for {
				select {
				case <-c.home:
					return
				default:
					c.note(r.buy())
				}
			}
		})
	}
	return c
}

func (c *crowd) note(a answer) {
	c.mu.Lock()
	c.answers = append(c.answers, a)
	c.mu.Unlock()
	if a.status == http.StatusOK || a.status == http.StatusAccepted {
		select {
		case c.sold <- struct{}{}:
		default:
		}
	}
}

// awaitSales waits for n more sales.
func (c *crowd) awaitSales(n int) {
	for range n {
		<-c.sold
	}
}

func (c *crowd) goHome() []answer {
	close(c.home)
	c.all.Wait()
	return c.answers
}

// audit returns the shop's audit of the item "hot".
func (r *running) audit(t *testing.T) web.Audit {
	t.Helper()
	res, err := r.client.Get("http://" + r.addr + "/api/audit/hot")
	must(t, err)
	defer res.Body.Close()
	var a web.Audit
	if err := json.NewDecoder(res.Body).Decode(&a); err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("the audit: %s, %v", res.Status, err)
	}
	return a
}

// eventually buys until a sale succeeds, and returns its answer.
func (r *running) eventually() answer {
	for ; ; time.Sleep(10 * time.Millisecond) {
		if a := r.buy(); a.status == http.StatusOK {
			return a
		}
	}
}

func TestRunSaysWhyItCannot(t *testing.T) {
	redisURL, dbURL := backendtest.Redis(t, "embedded"), backendtest.Database(t, "embedded")
	other := open(t, config(redisURL, dbURL, 1))
	for want, change := range map[string]func(*shop.Config){
		"unknown name":           func(c *shop.Config) { c.Strategy = "v0" },
		"invalid value":          func(c *shop.Config) { c.RedisURL = "where" },
		"unreachable":            func(c *shop.Config) { c.DBURL = "u:secret@tcp(127.0.0.1:1)/d" },
		"address already in use": func(c *shop.Config) { c.Web.Addr = other.addr },
		"invalid request":        func(c *shop.Config) { c.Item = &stock.Item{SKU: "a b"} },
	} {
		cfg := config(redisURL, dbURL, 1)
		change(&cfg)
		err := shop.Run(t.Context(), cfg)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func TestLogKeepsSecrets(t *testing.T) {
	var log bytes.Buffer
	server := backendtest.RestartableRedis(t, "--requirepass", "open-sesame")
	cfg := config("redis://:open-sesame@"+server.Addr, backendtest.Database(t, "embedded"), 1)
	cfg.Logger, cfg.Web.Token = slog.New(slog.NewTextHandler(&log, nil)), "token-of-trust"
	r := open(t, cfg)
	r.buy()
	server.Kill()
	if a := r.buy(); a.code != "backend" {
		t.Errorf("without Redis: %+v, want the code backend", a)
	}
	r.close(t)
	for _, secret := range []string{"open-sesame", "token-of-trust"} {
		if strings.Contains(log.String(), secret) {
			t.Errorf("the log has %q:\n%s", secret, &log)
		}
	}
	for _, fact := range []string{"redis=", "database=", r.addr, "a backend failed"} {
		if !strings.Contains(log.String(), fact) {
			t.Errorf("the log has no %q:\n%s", fact, &log)
		}
	}
}
