//go:build unix

package web_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/redis/go-redis/v9"

	"oversell/internal/backend"
	"oversell/internal/backend/backendtest"
	"oversell/internal/stock"
	"oversell/internal/web"
)

const (
	// crowd is how many clients of BenchmarkDeduct send requests at the same time.
	crowd = 5000
	// share is how many requests they send before they switch to the constant.
	share = 4 * crowd
)

// BenchmarkDeduct sells one unit a request over HTTP, on a real Redis and a real
// database, to thousands of clients that each keep their connection. "constant"
// is the same handler without a sale: the same router and middleware, the request parsed
// and counted, and the reply to an accepted order, always the same one. "unread" replies without
// reading the body, which is the least that a server can do. The others alternate with
// the constant, so that both run on an equally busy machine, and report their rate as a
// fraction of its rate, "of-constant". "cpu-of-constant" is the same for the processor time
// of a request, of this process and of Redis together: other work on the machine
// does not disturb it.
//
// "lua_stream" counts the orders that are accepted while a consumer writes them, and
// "lua_stream-still" those while none does. They also report the longest time in which a consumer
// wrote the rest after the last reply of a turn, and the time until an order was durable.
//
//	go test -run xxx -bench Deduct -benchtime 100000x ./internal/web
//
// Clients, server, Redis and database share the machine.
func BenchmarkDeduct(b *testing.B) {
	s := newBenchSite(b)
	clients := connect(b, s.addr, crowd)
	for _, strategy := range []string{"unread", "none", "watch", "v6_watchdog", "v7_queue", "lua_atomic", "lua_batch", "lua_stream", "lua_stream-still"} {
		b.Run(strategy, func(b *testing.B) { s.compare(b, strategy, b.N, share, clients.send) })
	}
}

// BenchmarkBurst is BenchmarkDeduct for a burst of 50,000 buyers, each of which opens a connection,
// buys once and leaves, as buyers do who come for one sale. At most 5,000 are connected at a time,
// and the time to connect counts, for the constant too.
//
//	go test -run xxx -bench Burst -benchtime 5x ./internal/web
func BenchmarkBurst(b *testing.B) {
	const buyers = 50_000
	s := newBenchSite(b)
	for _, strategy := range []string{"lua_batch", "lua_stream", "lua_stream-still"} {
		b.Run(strategy, func(b *testing.B) { s.compare(b, strategy, b.N*buyers, buyers, s.visit) })
	}
}

// benchSite is a shop on a real Redis and a real database that serves HTTP.
type benchSite struct {
	*site
	addr string
	rdb  redis.UniversalClient
}

func newBenchSite(b *testing.B) benchSite {
	rdb, err := backend.DialRedis(b.Context(), backendtest.Redis(b, "local"), 128)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = rdb.Close() }) // nothing is kept there
	db := backendtest.DialDatabase(b, backendtest.Database(b, "local"))
	s := newSite(b, rdb, db, func(_ *web.Config, sc *stock.Config) {
		sc.Wait = time.Minute
		sc.Strategies["lua_stream"] = stock.Strategy{Script: stock.Streamed(sc.Redis, stock.Stream{Backlog: 1_000_000_000})}
	})
	s.Handler = s.api.HandlerWith(func(routes *gin.Engine) { serveConstants(s.api, routes) })
	server := httptest.NewServer(s)
	b.Cleanup(server.Close)
	return benchSite{s, server.Listener.Addr().String(), rdb}
}

// compare sends n requests in turns of at most share to the constant and to a strategy, and reports
// the figures.
func (s benchSite) compare(b *testing.B, strategy string, n, share int, send func(b *testing.B, path string, n int) time.Duration) {
	path, sku := "/unread", ""
	strategy, still := strings.CutSuffix(strategy, "-still")
	if strategy == "lua_stream" && !still {
		s.consume(b)
	}
	if strategy != "unread" {
		sku = s.put(b, int64(n))
		path = "/api/items/" + sku + "/deduct?strategy=" + strategy
	}
	var sales, constant, salesCPU, constantCPU, drain time.Duration
	cpu := func() time.Duration { return processorTime(b, s.rdb) }
	for left := n; left > 0; left -= share {
		b.StopTimer()
		start := cpu()
		constant += send(b, "/api/items/hot/constant?strategy=lua_stream", min(left, share))
		between := cpu()
		b.StartTimer()
		sales += send(b, path, min(left, share))
		b.StopTimer()
		constantCPU, salesCPU = constantCPU+between-start, salesCPU+cpu()-between
		if strategy == "lua_stream" && !still { // otherwise the consumer would slow down the constant
			drain = max(drain, s.drain(b, sku))
		}
	}
	b.ReportMetric(float64(n)/sales.Seconds(), "req/s")
	b.ReportMetric(float64(n)/constant.Seconds(), "constant-req/s")
	b.ReportMetric(float64(constant)/float64(sales), "of-constant")
	b.ReportMetric(float64(constantCPU)/float64(salesCPU), "cpu-of-constant")
	b.ReportMetric(float64(salesCPU.Microseconds())/float64(n), "cpu-µs/req")
	if sku == "" {
		return
	}
	if still {
		s.consume(b)
		drain = s.drain(b, sku)
	}
	a, err := s.stock.Audit(b.Context(), sku)
	if err != nil || a.Sold != int64(n) || strategy != "none" && a.Remaining != 0 {
		b.Errorf("%d requests sold %d and left %d, %v", n, a.Sold, a.Remaining, err)
	}
	if strategy == "lua_stream" {
		b.ReportMetric(drain.Seconds(), "drain-s")
		b.ReportMetric(a.DurableP99, "durable-p99-ms")
	}
}

// drain waits until the accepted orders are written, and returns how long that took.
func (s *site) drain(b *testing.B, sku string) time.Duration {
	for start := time.Now(); ; time.Sleep(100 * time.Millisecond) { // an audit reads the whole stream
		a, err := s.stock.Audit(b.Context(), sku)
		if took := time.Since(start); err == nil && a.InFlight == 0 || took > time.Minute {
			return took
		}
	}
}

// processorTime is what this process and Redis have used so far.
func processorTime(b *testing.B, rdb redis.UniversalClient) (used time.Duration) {
	var own syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &own); err != nil {
		b.Fatal(err)
	}
	used = time.Duration(own.Utime.Nano() + own.Stime.Nano())
	info, err := rdb.InfoMap(b.Context(), "cpu").Result()
	if err != nil {
		b.Fatal(err)
	}
	for _, field := range []string{"used_cpu_user", "used_cpu_sys"} {
		seconds, err := strconv.ParseFloat(info["CPU"][field], 64)
		if err != nil {
			b.Fatal(err)
		}
		used += time.Duration(seconds * float64(time.Second))
	}
	return used
}

// serveConstants adds the routes that sell nothing.
func serveConstants(api *web.API, routes *gin.Engine) {
	order := stock.Order{
		ID: "01a2051e-293a-73b9-bea3-16e802ad4c04", SKU: "hot", Quantity: 1, Strategy: "lua_stream",
		CreatedAt: time.Date(2026, 11, 22, 21, 16, 32, 442e6, time.UTC),
	}
	res := stock.Result{Order: order, Accepted: true, Left: 999}
	res.Lock.Attempts, res.Lock.Waited = 1, time.Millisecond
	routes.POST("/unread", func(c *gin.Context) { c.JSON(http.StatusOK, order) })
	api.ConstantDeduct(routes, "/api/items/:sku/constant", res)
}

// clients are HTTP clients with one connection each.
type clients []net.Conn

func connect(b *testing.B, addr string, n int) clients {
	all := make(clients, n)
	for i := range all {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = c.Close() }) // the server may have closed it
		all[i] = c
	}
	return all
}

// send makes the clients send n requests in all, each client one at a time, and returns how
// long that took. Every reply must be 200 or 202.
func (all clients) send(b *testing.B, path string, n int) time.Duration {
	request := deductRequest(path)
	return together(b, len(all), n, func(client int) func() error {
		conn := all[client]
		replies := bufio.NewReaderSize(conn, 1<<10)
		return func() error { return exchange(conn, replies, request) }
	})
}

// visit is send for n buyers that each open a connection.
func (s benchSite) visit(b *testing.B, path string, n int) time.Duration {
	request := deductRequest(path)
	return together(b, crowd, n, func(int) func() error {
		replies := bufio.NewReaderSize(nil, 1<<10)
		return func() error {
			conn, err := net.Dial("tcp", s.addr)
			if err != nil {
				return err
			}
			defer conn.Close()
			if err := conn.(*net.TCPConn).SetLinger(0); err != nil { // otherwise the ports would run out
				return err
			}
			replies.Reset(conn)
			return exchange(conn, replies, request)
		}
	})
}

func deductRequest(path string) []byte {
	return fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: example.com\r\nContent-Type: application/json\r\nContent-Length: 14\r\n\r\n{\"quantity\":1}", path)
}

// together makes n requests in all by so many clients, each one at a time, and returns how long
// that took.
func together(b *testing.B, clients, n int, client func(i int) (request func() error)) time.Duration {
	var sent atomic.Int64
	var failed atomic.Value
	var done sync.WaitGroup
	start := time.Now()
	for i := range clients {
		request := client(i)
		done.Go(func() {
			for sent.Add(1) <= int64(n) {
				if err := request(); err != nil {
					failed.Store(err)
					return
				}
			}
		})
	}
	done.Wait()
	if err := failed.Load(); err != nil {
		b.Fatal(err)
	}
	return time.Since(start)
}

func exchange(conn net.Conn, replies *bufio.Reader, request []byte) error {
	if _, err := conn.Write(request); err != nil {
		return err
	}
	res, err := http.ReadResponse(replies, nil)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK && res.StatusCode != http.StatusAccepted {
		err = fmt.Errorf("got %s: %s", res.Status, body)
	}
	return err
}
