package shop_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"oversell/internal/backend/backendtest"
	"oversell/internal/fault"
	"oversell/internal/shop"
)

// gap is a hook that stops the first purchase when it has written the stock but not yet its order.
type gap struct {
	entered chan struct{}
	leave   chan struct{}
	once    sync.Once
}

func newGap() *gap { return &gap{entered: make(chan struct{}), leave: make(chan struct{})} }

func (g *gap) DialHook(next redis.DialHook) redis.DialHook { return next }

func (g *gap) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (g *gap) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if cmd.Name() == "set" && strings.HasPrefix(fmt.Sprint(cmd.Args()[1]), "oversell:{hot}:stock") {
			g.once.Do(func() {
				close(g.entered)
				<-g.leave
			})
		}
		return err
	}
}

// buy sends a deduct and returns when the purchase has stopped in the gap.
func (g *gap) buy(t *testing.T, r *running) <-chan answer {
	t.Helper()
	bought := make(chan answer, 1)
	go func() { bought <- r.buy() }()
	select {
	case <-g.entered:
	case a := <-bought:
		t.Fatalf("the sale did not reach the gap: %+v", a)
	}
	return bought
}

// A purchase that has taken its unit still writes its order after its client was cut off.
func TestCloseLetsASlowSaleEnd(t *testing.T) {
	redisURL, dbURL := backendtest.Redis(t, "embedded"), backendtest.Database(t, "embedded")
	cfg, g := config(redisURL, dbURL, 10), newGap()
	cfg.Hook = g
	r := open(t, cfg)
	bought := g.buy(t, r)
	shop.SetTimes(t, time.Millisecond, time.Hour)
	r.stop()
	if a := <-bought; a.status != 0 {
		t.Errorf("the buyer got %+v, want to be cut off before the sale ends", a)
	}
	close(g.leave)
	r.close(t)
	wantAgreement(t, backendtest.DialRedis(t, redisURL), backendtest.DialDatabase(t, dbURL), 10)
}

// A purchase that never ends does not keep the shop from closing; Run then returns ErrUnfinished.
func TestCloseOwnsUpToWhatItBreaksOff(t *testing.T) {
	cfg, g := config(backendtest.Redis(t, "embedded"), backendtest.Database(t, "embedded"), 10), newGap()
	cfg.Hook = g
	r := open(t, cfg)
	bought := g.buy(t, r)
	shop.SetTimes(t, time.Millisecond, time.Millisecond)
	r.stop()
	err := <-r.ended
	if !errors.Is(err, shop.ErrUnfinished) ||
		!strings.Contains(err.Error(), "a deduct among them may have taken units") {
		t.Errorf("ended with %v, want %v and what may be left", err, shop.ErrUnfinished)
	}
	close(r.ended)
	close(g.leave)
	<-bought
}

// A client that does not finish its request does not delay closing, and Run returns no error for it.
func TestCloseCutsSlowClientsOff(t *testing.T) {
	r := open(t, config(backendtest.Redis(t, "embedded"), backendtest.Database(t, "embedded"), 10))
	const unfinished = "POST /api/items/hot/deduct HTTP/1.1\r\nHost: x\r\nContent-Length: 14\r\n\r\n{"
	for _, part := range []string{"POST /api/it", unfinished} {
		conn, err := net.Dial("tcp", r.addr)
		must(t, err)
		defer conn.Close()
		if _, err := fmt.Fprint(conn, part); err != nil {
			t.Fatal(err)
		}
	}
	r.buy() // by the time that it returns, the server has accepted the other connections
	shop.SetTimes(t, time.Millisecond, time.Hour)
	r.close(t)
}

// A database that hangs does not keep a closing shop from cutting off its clients.
func TestCloseWithADatabaseThatHangs(t *testing.T) {
	cfg, g := config(backendtest.Redis(t, "embedded"), backendtest.Database(t, "embedded"), 10), newGap()
	hangs, back := make(chan struct{}), make(chan struct{})
	var once sync.Once
	cfg.Hook = g
	hang := func(_ context.Context, s fault.Statement, send func() (fault.Reply, error)) error {
		if strings.HasPrefix(s.Text, "INSERT INTO `oversell_flights`") {
			once.Do(func() { close(hangs) })
			<-back
		}
		_, err := send()
		return err
	}
	cfg.Through = fault.Injector{Hook: hang}.Through
	r := open(t, cfg)
	bought := g.buy(t, r)
	<-hangs
	shop.SetTimes(t, time.Millisecond, time.Hour)
	r.stop()
	if a := <-bought; a.status != 0 {
		t.Errorf("the buyer got %+v, want to be cut off", a)
	}
	close(g.leave)
	close(back)
	r.close(t)
}
