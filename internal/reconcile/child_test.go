package reconcile

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"gorm.io/gorm"

	"oversell/internal/backend"
	"oversell/internal/locks/locktest"
	"oversell/internal/proc"
	"oversell/internal/stock"
)

// childVariable, in the environment of this test's program, makes it a shop: a process of
// its own that can be killed.
const childVariable = "OVERSELL_TEST_SHOP"

// job is what a child does: buyers of its own buy until it is told to end.
type job struct {
	RedisURL, DBURL, SKU string
	Buyers               int
	Every, Grace         time.Duration // of the reconciler; no Every: none
	Park                 string        // the seam where it stops for ever
}

// sellOut is how long a sale may take. It only ends a hang.
const sellOut = 10 * time.Minute

// The seams where a child stops for ever.
const (
	beforeOrder  = "units are taken, the order is not written"
	beforeChange = "a repair has locked the row"
	beforeCommit = "a repair has changed Redis"
)

// news is what a child tells.
type news struct{ Ready, Parked bool }

type shopProcess = proc.Child[job, news]

// startChild starts a child and waits until it sells.
func startChild(t *testing.T, j job) *shopProcess {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), childVariable+"=1")
	c, err := proc.StartChild[job, news]("a shop", cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(time.Second) })
	if err := c.Send(j); err != nil {
		t.Fatal(err)
	}
	if got, err := proc.Await(t.Context(), c, c.Events, sellOut); err != nil || !got.Ready {
		t.Fatalf("got %+v, %v", got, err)
	}
	return c
}

// awaitParked waits until a child stops at its seam.
func awaitParked(t *testing.T, c *shopProcess) {
	t.Helper()
	if got, err := proc.Await(t.Context(), c, c.Events, sellOut); err != nil || !got.Parked {
		t.Fatalf("got %+v, %v; want a parked process", got, err)
	}
}

// child is the program of a child. It returns the exit code.
func child(stdin io.Reader, stdout, stderr io.Writer) int {
	ctx, over := context.WithCancel(context.Background())
	defer over()
	parent := proc.Listen[job, news](ctx, over, stdin, stdout)
	if err := sellAndBuy(ctx, parent.Next(ctx), parent); err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	return 0
}

// sellAndBuy does a job until ctx ends.
func sellAndBuy(ctx context.Context, j job, parent *proc.Parent[job, news]) error {
	rdb, err := backend.DialRedis(ctx, j.RedisURL, 0)
	if err != nil {
		return err
	}
	defer rdb.Close()
	db, err := backend.DialDatabase(ctx, j.DBURL)
	if err != nil {
		return err
	}
	park := func() {
		parent.Send(news{Parked: true})
		select {} // until the process is killed
	}
	switch j.Park {
	case beforeOrder:
		err = atOrder(db, 20, park)
	case beforeChange, beforeCommit:
		hook := new(locktest.Hook)
		rdb.AddHook(hook)
		hook.On(locktest.All(locktest.Command("set"), locktest.Mentioning("oversell:{"+j.SKU+"}:sale")), 1, func(_ context.Context, send func() error) error {
			if j.Park == beforeCommit {
				if err := send(); err != nil {
					return err
				}
			}
			park()
			return nil
		})
	}
	if err != nil {
		return err
	}
	service := newService(rdb, db, j.Grace)
	defer service.Close()
	if j.Every > 0 {
		defer Start(ctx, Config{Stock: service, DB: db, Every: j.Every})()
	}
	var all sync.WaitGroup
	for range j.Buyers {
		all.Go(func() { buyAgainAndAgain(ctx, service, j.SKU) })
	}
	parent.Send(news{Ready: true})
	all.Wait()
	return parent.Err()
}

// atOrder calls f instead of the n-th statement that writes one order or several.
func atOrder(db *gorm.DB, n int64, f func()) error {
	var statements atomic.Int64
	count := func(tx *gorm.DB) {
		if tx.Statement.Table == "oversell_orders" && statements.Add(1) == n {
			f()
		}
	}
	return db.Callback().Create().Before("gorm:create").Register("test:orders", count)
}

// buyAgainAndAgain buys until ctx ends. It does not matter what it is told: the orders are
// counted.
func buyAgainAndAgain(ctx context.Context, service *stock.Service, sku string) {
	for ctx.Err() == nil {
		_, err := service.Deduct(ctx, stock.Request{SKU: sku, Quantity: 1, Strategy: strategy, Owner: uuid.NewString()})
		if err == nil {
			continue
		}
		select {
		case <-ctx.Done():
		case <-time.After(5 * time.Millisecond):
		}
	}
}
