package payfault

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"testing"
	"time"

	"oversell/internal/backend/backendtest"
	"oversell/internal/catalog"
	"oversell/internal/holds"
	"oversell/internal/holds/holdstest"
	"oversell/internal/payment"
	"oversell/internal/stock"
)

func TestMain(m *testing.M) { os.Exit(backendtest.Main(m)) }

// newProvider returns a payment provider that logs nothing.
func newProvider() *payment.Server {
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	return payment.NewServer(payment.Config{Secret: []byte("secret"), Logger: quiet})
}

// each runs f for each stage on embedded and on real backends. The sale has one unit.
func each(t *testing.T, f func(t *testing.T, name string, s *holdstest.Site, faults *Faults)) {
	for _, kind := range backendtest.Kinds() {
		t.Run(kind, func(t *testing.T) {
			rdb, url := backendtest.DialRedis(t, backendtest.Redis(t, kind)), backendtest.Database(t, kind)
			for _, stage := range catalog.HoldStages() {
				t.Run(stage.Name, func(t *testing.T) {
					var faults *Faults
					s := holdstest.New(t, rdb, url, 1, func(b holds.Backends) holds.Stage {
						faults = New(Config{Provider: newProvider(), Backends: b, New: catalog.Holds})
						return faults.Wrap(map[string]holds.Stage{stage.Name: stage.New(b)})[stage.Name]
					}, sql.LevelDefault)
					f(t, stage.Name, s, faults)
				})
			}
		})
	}
}

// A shop stops between checking a hold and writing its payment, and writes after the hold has
// expired. The naive stages then sell the unit twice; h3_claim refuses the payment.
func TestSlowShopWritesLate(t *testing.T) {
	each(t, func(t *testing.T, name string, s *holdstest.Site, faults *Faults) {
		here, on := make(chan time.Duration, 1), make(chan struct{})
		faults.sleep = func(_ context.Context, d time.Duration) {
			here <- d
			<-on
		}
		late := s.Hold("late")
		if err := faults.Set(late, Fault{SlowShop, 4}); err != nil {
			t.Fatal(err)
		}
		told := make(chan error, 1)
		go func() { told <- s.Pay(late) }()
		select {
		case d := <-here:
			if d != 4*time.Second {
				t.Errorf("the shop stops for %v", d)
			}
		case err := <-told:
			t.Fatalf("the claim did not stop, and returned %v", err)
		}
		s.Expire(late)
		s.SweepAll()
		if err := s.Buy("next"); err != nil { // the next buyer does not wait for the stopped shop
			t.Error(err)
		}
		close(on)
		err, want := <-told, holdstest.Figures{Sold: 2, Oversold: 1}
		if name == catalog.DefaultHoldStage {
			want = holdstest.Figures{Sold: 1}
			if !errors.Is(err, holds.ErrNotHeld) {
				t.Errorf("the late payer was told %v, want %v", err, holds.ErrNotHeld)
			}
		} else if err != nil {
			t.Errorf("the late payer was told %v; it got an order", err)
		}
		s.Want(want)
	})
}

// A shop stops once for each fault that is set, and not at all if the fault is removed.
func TestSlowShopStopsOnce(t *testing.T) {
	each(t, func(t *testing.T, _ string, s *holdstest.Site, faults *Faults) {
		stops := 0
		faults.sleep = func(context.Context, time.Duration) { stops++ }
		h := s.Hold("a")
		for _, kind := range []Kind{SlowShop, None} {
			if err := faults.Set(h, Fault{kind, int(kind.Most())}); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Release(t.Context(), h.ID, h.Token); err != nil {
			t.Fatal(err)
		}
		h = s.Hold("b")
		if err := faults.Set(h, Fault{SlowShop, 1}); err != nil {
			t.Fatal(err)
		}
		for range 2 { // the second claim stands for the webhook's
			if err := s.Pay(h); err != nil {
				t.Error(err)
			}
		}
		if stops != 1 {
			t.Errorf("the shop stopped %d times, want once", stops)
		}
	})
}

var held = holds.Hold{ID: "h3-1", Token: 7, Status: holds.Held, ExpiresAt: time.Now().Add(time.Hour)}

func TestFaultsThatCannotBe(t *testing.T) {
	faults := New(Config{Provider: newProvider()})
	for _, f := range []Fault{
		{"", 1}, {"moon", 1}, {SlowBank, 0}, {SlowBank, -1}, {SlowBank, 10}, {LostReply, 61}, {SlowShop, 5},
		{None, 1}, {None, -1},
	} {
		if err := faults.Set(held, f); !errors.Is(err, stock.ErrInvalid) {
			t.Errorf("%+v: got %v, want %v", f, err, stock.ErrInvalid)
		}
	}
	ended := held
	ended.Status = holds.Expired
	if err := faults.Set(ended, Fault{SlowBank, 1}); !errors.Is(err, holds.ErrNotHeld) {
		t.Errorf("a hold that has run out: %v", err)
	}
}

// Faults are kept for at most MaxHolds holds, and are forgotten a minute after their holds have
// expired.
func TestFaultsAreBoundedAndForgotten(t *testing.T) {
	faults := New(Config{Provider: newProvider()})
	h := held
	for i := range MaxHolds {
		h.ID = fmt.Sprintf("h3-%d", i)
		if err := faults.Set(h, Fault{SlowBank, 1}); err != nil {
			t.Fatal(err)
		}
	}
	next := h
	next.ID = "h3-next"
	if err := faults.Set(next, Fault{SlowBank, 1}); !errors.Is(err, ErrTooMany) {
		t.Errorf("one more: %v, want %v", err, ErrTooMany)
	}
	for _, f := range []Fault{{LostReply, 1}, {None, 0}} { // the fault of a known hold can still be changed
		if err := faults.Set(h, f); err != nil {
			t.Error(err)
		}
	}
	if err := faults.Set(next, Fault{SlowBank, 1}); err != nil {
		t.Errorf("in the place of another: %v", err)
	}
	faults.forget(held.ExpiresAt.Add(forgetAfter + time.Second))
	if n := len(faults.chosen); n != 0 {
		t.Errorf("%d holds are remembered", n)
	}
}
