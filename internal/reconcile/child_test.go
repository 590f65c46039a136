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
	"oversell/internal/fleet"
	"oversell/internal/locks/locktest"
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
	Park                 fleet.Seam    // the seam where it stops for ever
}

// sellOut is how long a sale may take. It only ends a hang.
const sellOut = 10 * time.Minute

// The seams where a child stops for ever.
const (
	beforeOrder  fleet.Seam = "units are taken, the order is not written"
	beforeChange fleet.Seam = "a repair has locked the row"
	beforeCommit fleet.Seam = "a repair has changed Redis"
)

// shopProcess is a child, and where it stops.
type shopProcess struct {
	*fleet.Member
	parked chan fleet.Arrival
}

// startChild starts a child and waits until it sells.
func startChild(t *testing.T, j job) shopProcess {
	t.Helper()
	command := func() (*exec.Cmd, error) {
		cmd := exec.Command(os.Args[0], "-test.run=^$")
		cmd.Env = append(os.Environ(), childVariable+"=1")
		return cmd, nil
	}
	c := shopProcess{parked: make(chan fleet.Arrival, 1)}
	var err error
	if c.Member, err = fleet.Run(t.Context(), fleet.Program{Name: "a shop", Command: command, Setup: j}, c.parked); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(time.Second) })
	return c
}

// awaitParked waits until a child stops at its seam.
func awaitParked(t *testing.T, c shopProcess) {
	t.Helper()
	select {
	case <-c.parked:
	case <-c.Done():
		t.Fatal(c.Err())
	case <-time.After(sellOut):
		t.Fatal("it does not come to its seam")
	}
}

// child is the program of a child. It returns the exit code.
func child(stdin io.Reader, stdout, stderr io.Writer) int {
	if err := fleet.Serve(context.Background(), stdin, stdout, sellAndBuy); err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	return 0
}

// sellAndBuy does a job until ctx ends.
func sellAndBuy(ctx context.Context, j job, parent *fleet.Server) error {
	rdb, err := backend.DialRedis(ctx, j.RedisURL, 0)
	if err != nil {
		return err
	}
	defer rdb.Close()
	db, err := backend.DialDatabase(ctx, j.DBURL)
	if err != nil {
		return err
	}
	parent.Seams.Set(fleet.Arm{At: []fleet.Seam{j.Park}})
	park := func() { parent.Seams.Reach(ctx, j.Park) } // until the process is killed
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
	parent.Ready("")
	all.Wait()
	return nil
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
