package shop_test

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"oversell/internal/backend/backendtest"
	"oversell/internal/shop"
	"oversell/internal/stock"
	"oversell/internal/stock/stream"
)

// The environment variables of a child process: its kind, and its backends.
const (
	childEnv      = "OVERSELL_TEST_CHILD"
	childRedisEnv = "OVERSELL_TEST_REDIS"
	childDBEnv    = "OVERSELL_TEST_DB"

	// roundsEnv is how often each process is killed; default 2.
	roundsEnv = "OVERSELL_TEST_KILLS"
)

// The kinds of children.
const (
	seller      = "seller"      // a shop that stops after the script, before it replies
	unpublished = "unpublished" // a shop that stops when its row has a generation that Redis lacks
	published   = "published"   // a shop that stops when Redis has it, too, but the row does not say so yet
	successor   = "successor"   // a shop that does not stop
	healer      = "healer"      // a worker that does not stop
	// Any other kind is a worker that stops at the seam of that name.
)

const workerClaim = 500 * time.Millisecond

// child is what a child process runs until it is killed, or its standard input ends.
func child(kind string) error {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = os.Stdin.Read(make([]byte, 1)) // ends with the parent
		cancel()
	}()
	stop := func(string) error {
		fmt.Println("stopped")
		select {}
	}
	cfg := config(os.Getenv(childRedisEnv), os.Getenv(childDBEnv), 0)
	cfg.Item = nil
	cfg.Strategy, cfg.NoConsumer = "lua_stream", true
	cfg.Consumer = stream.Consumer{ClaimAfter: workerClaim}
	cfg.Ready = func(addr string) { fmt.Println("ready", addr) }
	switch kind {
	case seller:
		cfg.Hook = afterScript{stop}
		return shop.Run(ctx, cfg)
	case unpublished, published:
		cfg.Hook = atPublication(kind, stop)
		return shop.Run(ctx, cfg)
	case successor:
		return shop.Run(ctx, cfg)
	case healer:
	default:
		cfg.Consumer.Seam = func(seam string) error {
			if seam == kind {
				return stop(seam)
			}
			return nil
		}
	}
	return shop.Work(ctx, cfg)
}

// afterScript calls stop when a script has appended orders to a stream.
type afterScript struct{ stop func(string) error }

func (h afterScript) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h afterScript) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		script := strings.HasPrefix(cmd.Name(), "eval")
		if err == nil && script && strings.Contains(fmt.Sprint(cmd.Args()), ":stream:orders") {
			return h.stop("")
		}
		return err
	}
}

func (h afterScript) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// process is a running child.
type process struct {
	cmd  *exec.Cmd
	said *bufio.Scanner
}

// startChild starts a child and waits until it is ready. It returns its address.
func startChild(t *testing.T, kind, redisURL, dbURL string) (*process, string) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+kind, childRedisEnv+"="+redisURL, childDBEnv+"="+dbURL)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{cmd, bufio.NewScanner(out)}
	t.Cleanup(func() {
		_ = in.Close()
		p.kill()
	})
	return p, strings.TrimSpace(strings.TrimPrefix(p.next(t), "ready"))
}

// next returns the next line that the child prints.
func (p *process) next(t *testing.T) string {
	t.Helper()
	if !p.said.Scan() {
		t.Fatalf("the child ended: %v", p.said.Err())
	}
	return p.said.Text()
}

// kill kills the process with SIGKILL, unless it has ended.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	_ = p.cmd.Wait()         // the error says that it was killed
}

// A process is killed with SIGKILL at each seam. Every accepted order is written exactly
// once, by a worker that takes over, and the stock agrees with the orders.
func TestNoOrderIsLostWhenAProcessIsKilled(t *testing.T) {
	rounds, err := strconv.Atoi(cmp.Or(os.Getenv(roundsEnv), "2"))
	if err != nil {
		t.Fatal(err)
	}
	redisURL, dbURL := backendtest.Redis(t, "local"), backendtest.Database(t, "local")
	cfg := config(redisURL, dbURL, 0)
	cfg.Strategy, cfg.NoConsumer = "lua_stream", true
	front := open(t, cfg)
	for _, kind := range []string{seller, stream.SeamRead, stream.SeamWritten} {
		t.Run(kind, func(t *testing.T) {
			var slowest time.Duration
			for range rounds {
				slowest = max(slowest, killOne(t, front, kind, redisURL, dbURL))
			}
			t.Logf("%d kills; the slowest agreement took %v, with claims after %v", rounds, slowest, workerClaim)
		})
	}
}

// killOne kills a process during a sale of 60 units, and returns how long it took until stock and
// orders agreed.
func killOne(t *testing.T, front *running, kind, redisURL, dbURL string) time.Duration {
	t.Helper()
	if got := front.send(t, http.MethodPut, "/api/items/hot", `{"stock":60}`); got != http.StatusOK {
		t.Fatalf("putting the item: %d", got)
	}
	victim, addr := startChild(t, kind, redisURL, dbURL)
	accepted := make(chan string, 80)
	cutOff := 0
	var buyers sync.WaitGroup
	if kind == seller {
		cutOff = 10
		for range cutOff {
			buyers.Go(func() { (&running{addr: addr, client: front.client}).buy() })
		}
	}
	for range 40 {
		buyers.Go(func() {
			if a := front.buy(); a.status == http.StatusAccepted {
				accepted <- a.orderID
			} else {
				t.Errorf("a buyer got %d %s", a.status, a.code)
			}
		})
	}
	if said := victim.next(t); said != "stopped" {
		t.Fatalf("the child says %q", said)
	}
	victim.kill()
	killed := time.Now()
	heir, _ := startChild(t, healer, redisURL, dbURL)
	buyers.Wait()
	close(accepted)
	a := drained(t, front)
	took := time.Since(killed)
	heir.kill()
	written := front.orderIDs(t)
	for id := range accepted {
		if !slices.Contains(written, id) {
			t.Errorf("order %s was accepted and is not written", id)
		}
	}
	if len(written) < 40 || len(written) > 40+cutOff ||
		a.LostUpdates != 0 || a.Oversold != 0 || a.AcceptedLost != 0 || a.Duplicates != 0 {
		t.Errorf("%d orders were accepted and %d buyers cut off: %+v", 40, cutOff, a)
	}
	return took
}

// drained waits until nothing is in flight and returns the audit.
func drained(t *testing.T, r *running) stock.Audit {
	t.Helper()
	for ; ; time.Sleep(10 * time.Millisecond) {
		var a stock.Audit
		status, reply := r.exchange(t, http.MethodGet, "/api/audit/hot", "")
		if err := json.Unmarshal(reply, &a); err != nil || status != http.StatusOK {
			t.Fatalf("the audit: %d, %s, %v", status, reply, err)
		}
		if a.InFlight == 0 {
			return a
		}
	}
}

// orderIDs lists the ids of the orders of the sale.
func (r *running) orderIDs(t *testing.T) (ids []string) {
	t.Helper()
	var page stock.Orders
	_, reply := r.exchange(t, http.MethodGet, "/api/audit/hot/orders", "")
	if err := json.Unmarshal(reply, &page); err != nil {
		t.Fatal(err)
	}
	for _, o := range page.Orders {
		ids = append(ids, o.ID)
	}
	return ids
}

// A shop writes accepted orders by itself, and the last ones before it ends.
func TestAShopWritesWhatItHasAcceptedBeforeItEnds(t *testing.T) {
	redisURL, dbURL := backendtest.Redis(t, "embedded"), backendtest.Database(t, "embedded")
	cfg := config(redisURL, dbURL, 0)
	cfg.Strategy = "lua_stream"
	closing, other := open(t, cfg), open(t, cfg)
	if got := other.send(t, http.MethodPut, "/api/items/hot", `{"stock":60}`); got != http.StatusOK {
		t.Fatalf("putting the item: %d", got)
	}
	for range 20 {
		if a := closing.buy(); a.status != http.StatusAccepted {
			t.Errorf("a buyer got %d", a.status)
		}
	}
	closing.close(t)
	if a := drained(t, other); a.Sold != 20 || a.LostUpdates != 0 {
		t.Errorf("the audit finds %+v", a)
	}
}

// A worker with nothing to write ends, and logs that it does.
func TestAnIdleWorkerEnds(t *testing.T) {
	var log bytes.Buffer
	cfg := config(backendtest.Redis(t, "embedded"), backendtest.Database(t, "embedded"), 0)
	cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
	ctx, cancel := context.WithCancel(t.Context())
	cfg.Ready = func(string) { time.AfterFunc(100*time.Millisecond, cancel) } // it looks for orders meanwhile
	if err := shop.Work(ctx, cfg); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(log.String(), "msg=closing") {
		t.Errorf("the log does not say that the worker ends:\n%s", &log)
	}
}
