package holdstest

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"oversell/internal/holds"
)

// situations are those that stages handle differently and the lab does not show, and the units of
// their sales.
var situations = []struct {
	name  string
	units int64
	run   func(*testing.T, *Site) error
}{
	{"CrashInSweep", 1, crashInSweep},
	{"SameKeyAtOnce", 3, sameKeyAtOnce},
	{"OldSale", 2, oldSale},
}

// Outcome is what a situation must come to: the error that it returns, and where the units are
// then.
type Outcome struct {
	Told error
	Figures
}

// Situations runs each situation on embedded and on real backends, and compares its outcome with
// what is wanted.
func Situations(t *testing.T, n NewStage, want map[string]Outcome) {
	t.Helper()
	for _, situation := range situations {
		t.Run(situation.name, func(t *testing.T) {
			outcome, ok := want[situation.name]
			if !ok {
				t.Fatal("the stage does not say what it comes to")
			}
			Each(t, situation.units, n, func(t *testing.T, s *Site) {
				if err := situation.run(t, s); !errors.Is(err, outcome.Told) {
					t.Errorf("told %v, want %v", err, outcome.Told)
				}
				s.Want(outcome.Figures)
			})
		})
	}
}

// Promises checks what every stage promises while nothing fails and nothing is late.
func Promises(t *testing.T, n NewStage) {
	t.Helper()
	for _, promise := range []struct {
		name  string
		units int64
		check func(t *testing.T, s *Site)
	}{
		{"Calm", 3, calm},
		{"ExpiresInTime", 1, inTime},
		{"Extended", 2, extended},
		{"Cancelled", 2, cancelled},
		{"LockedRowIsSkipped", 3, func(t *testing.T, s *Site) { LockedRow(t, s, "oversell_holds") }},
	} {
		t.Run(promise.name, func(t *testing.T) { Each(t, promise.units, n, promise.check) })
	}
}

// ended reports whether err says that a hold cannot be paid or released any more. A stage that
// forgets ended holds returns ErrUnknownHold for them.
func ended(err error) bool {
	return errors.Is(err, holds.ErrNotHeld) || errors.Is(err, holds.ErrUnknownHold)
}

// calm checks what every stage guarantees while nothing fails and nothing is late.
func calm(t *testing.T, s *Site) {
	a, b := s.Hold("a"), s.Hold("b")
	s.Want(Figures{Left: 1, Held: 2})
	if h, err := s.Look(t.Context(), a.ID); err != nil || h != a {
		t.Errorf("Look = %+v, %v; want %+v", h, err, a)
	}
	order, err := s.Claim(t.Context(), a.ID, a.Token, "payment-1")
	if err != nil || order.ID != a.ID || order.Quantity != 1 || order.PaymentID != "payment-1" {
		t.Errorf("Claim = %+v, %v", order, err)
	}
	s.Want(Figures{Left: 1, Held: 1, Sold: 1})
	again, err := s.Claim(t.Context(), a.ID, a.Token, "payment-1")
	if !again.CreatedAt.Equal(order.CreatedAt) || again.ID != order.ID || err != nil {
		t.Errorf("the payment was reported again: %+v, %v; want %+v", again, err, order)
	}
	if _, err := s.Claim(t.Context(), a.ID, a.Token, "payment-2"); !errors.Is(err, holds.ErrNotHeld) {
		t.Errorf("a second payment: got %v, want %v", err, holds.ErrNotHeld)
	}
	if err := s.Release(t.Context(), a.ID, a.Token); !errors.Is(err, holds.ErrNotHeld) {
		t.Errorf("Release of a paid hold = %v, want %v", err, holds.ErrNotHeld)
	}
	if err := s.Release(t.Context(), b.ID, b.Token); err != nil {
		t.Error(err)
	}
	if err := s.Release(t.Context(), b.ID, b.Token); !ended(err) {
		t.Errorf("the second Release = %v", err)
	}
	if err := s.Pay(b); !ended(err) {
		t.Errorf("paying a released hold: %v", err)
	}
	s.Want(Figures{Left: 2, Sold: 1})

	c := s.Hold("c")
	if n := s.SweepAll(); n != 0 {
		t.Errorf("%d holds expired before their time", n)
	}
	s.Expire(c)
	if err := s.Pay(c); !ended(err) {
		t.Errorf("paying an expired hold: %v", err)
	}
	if n := s.SweepAll(); n > 1 {
		t.Errorf("%d holds expired, want 1, or none if the payment ended it", n)
	}
	if n := s.SweepAll(); n != 0 {
		t.Errorf("%d holds expired twice", n)
	}
	s.Want(Figures{Left: 2, Sold: 1})
	for _, unknown := range []error{s.Release(t.Context(), "none", 1), s.Pay(holds.Hold{ID: "none"})} {
		if !errors.Is(unknown, holds.ErrUnknownHold) {
			t.Errorf("got %v, want %v", unknown, holds.ErrUnknownHold)
		}
	}
	limits(t, s)
}

// limits checks the buyer's limit, the stock and the idempotency key, for buyers who come one after
// the other.
func limits(t *testing.T, s *Site) {
	ask := s.Request("d")
	ask.Quantity, ask.Limit = 2, 1
	if _, err := s.Take(t.Context(), ask); !errors.Is(err, holds.ErrLimit) {
		t.Errorf("2 units with a limit of 1: got %v, want %v", err, holds.ErrLimit)
	}
	ask.Quantity, ask.Limit = 3, 0
	if _, err := s.Take(t.Context(), ask); !errors.Is(err, holds.ErrSoldOut) {
		t.Errorf("3 units of 2: got %v, want %v", err, holds.ErrSoldOut)
	}
	ask.Quantity, ask.Limit, ask.Key = 1, 1, "key"
	first, err := s.Take(t.Context(), ask)
	if err != nil {
		t.Fatal(err)
	}
	ask.ID = s.Request("").ID
	if again, err := s.Take(t.Context(), ask); err != nil || again != first {
		t.Errorf("the same key again: %+v, %v; want %+v", again, err, first)
	}
	other := ask
	other.Buyer = "e"
	if _, err := s.Take(t.Context(), other); !errors.Is(err, holds.ErrKeyReused) {
		t.Errorf("another buyer's key: got %v, want %v", err, holds.ErrKeyReused)
	}
	ask.Key = ""
	if _, err := s.Take(t.Context(), ask); !errors.Is(err, holds.ErrLimit) {
		t.Errorf("one more: got %v, want %v", err, holds.ErrLimit)
	}
	if err := s.Release(t.Context(), first.ID, first.Token); err != nil {
		t.Error(err)
	}
	if _, err := s.Take(t.Context(), ask); err != nil {
		t.Errorf("one more, after a release: %v", err)
	}
	s.Want(Figures{Left: 1, Held: 1, Sold: 1})
}

// Rush sends 200 concurrent requests from 100 buyers, two each, with a limit of one. It returns how
// many holds each buyer got.
func Rush(t *testing.T, s *Site) map[string]int {
	var mu sync.Mutex
	got := make(map[string]int)
	var all sync.WaitGroup
	for i := range 200 {
		r := s.Request(fmt.Sprintf("buyer-%d", i/2))
		r.Limit = 1
		all.Go(func() {
			h, err := s.Take(t.Context(), r)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				got[h.Buyer]++
			case !errors.Is(err, holds.ErrSoldOut) && !errors.Is(err, holds.ErrLimit):
				t.Error(err)
			}
		})
	}
	all.Wait()
	return got
}

// inTime waits for a hold to expire by the clocks of the backends.
func inTime(t *testing.T, s *Site) {
	r := s.Request("a")
	r.TTL = 100 * time.Millisecond
	start := time.Now()
	h, err := s.Take(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	for s.SweepAll() == 0 {
		time.Sleep(5 * time.Millisecond)
	}
	if held := time.Since(start); held < r.TTL/2 {
		t.Errorf("the hold expired after %v; its ttl is %v", held, r.TTL)
	}
	if err := s.Pay(h); !ended(err) {
		t.Errorf("paying it: %v", err)
	}
	s.Want(Figures{Left: s.Item.Initial})
}

// extended checks what every stage guarantees for an extension while nothing is late.
func extended(t *testing.T, s *Site) {
	a := s.Hold("a")
	extend := func(h holds.Hold, ttl, most time.Duration) (holds.Hold, error) {
		return s.Extend(t.Context(), h.ID, h.Token, ttl, most)
	}
	later, err := extend(a, 2*TTL, 3*TTL)
	if err != nil || later.ExpiresAt.Before(a.ExpiresAt.Add(TTL)) || later.ExpiresAt.After(a.CreatedAt.Add(3*TTL)) {
		t.Errorf("the hold expired at %v, and now at %v, %v", a.ExpiresAt, later.ExpiresAt, err)
	}
	if again, err := extend(a, TTL, 3*TTL); err != nil || !again.ExpiresAt.Equal(later.ExpiresAt) {
		t.Errorf("a shorter ttl: %v, %v; want it to change nothing", again.ExpiresAt, err)
	}
	last := a.CreatedAt.Add(3 * TTL)
	if longest, err := extend(a, 9*TTL, 3*TTL); err != nil || !longest.ExpiresAt.Equal(last) {
		t.Errorf("the longest: %v, %v; want %v", longest.ExpiresAt, err, last)
	}
	if _, err := extend(a, 9*TTL, 3*TTL); !errors.Is(err, holds.ErrExtended) {
		t.Errorf("beyond that: %v, want %v", err, holds.ErrExtended)
	}
	if h, err := s.Look(t.Context(), a.ID); err != nil || !h.ExpiresAt.Equal(last) || h.Status != holds.Held {
		t.Errorf("the hold is %+v, %v", h, err)
	}
	if n := s.SweepAll(); n != 0 {
		t.Errorf("%d holds expired before their time", n)
	}
	s.Want(Figures{Left: 1, Held: 1})
	if err := s.Pay(a); err != nil {
		t.Error(err)
	}
	b := s.Hold("b")
	s.Expire(b)
	for _, h := range []holds.Hold{a, b, {ID: "none"}} {
		if _, err := extend(h, TTL, 3*TTL); !ended(err) {
			t.Errorf("a hold that has ended: %v", err)
		}
	}
	s.SweepAll()
	s.Want(Figures{Left: 1, Sold: 1})
}

// cancelled checks what every stage guarantees for a cancellation while nothing is late.
func cancelled(t *testing.T, s *Site) {
	a, b := s.Hold("a"), s.Hold("b")
	if err := s.Cancel(t.Context(), a.ID, a.Token); !ended(err) {
		t.Errorf("cancelling what is not paid: %v", err)
	}
	if err := errors.Join(s.Pay(a), s.Pay(b), s.Cancel(t.Context(), a.ID, a.Token)); err != nil {
		t.Error(err)
	}
	s.Want(Figures{Left: 1, Sold: 1})
	for _, err := range []error{s.Cancel(t.Context(), a.ID, a.Token), s.Pay(a)} {
		if !ended(err) {
			t.Errorf("cancelling or paying what is cancelled: %v", err)
		}
	}
	if err := s.Buy("c"); err != nil {
		t.Errorf("the unit that is back: %v", err)
	}
	s.Want(Figures{Sold: 2})
}

// crashInSweep kills a process in a sweep, before it returns the units to the stock.
func crashInSweep(t *testing.T, s *Site) error {
	s.Expire(s.Hold("a"))
	s.Dies(BeforeGiveBack, func() error {
		_, err := s.Sweep(t.Context(), s.Item.SKU, 10)
		return err
	})
	// The server rolls the transaction of a dead process back only when it notices, and a sweep skips
	// locked rows. This statement waits for the locks. h1_counter has no rows in the table.
	_ = s.DB.Exec("UPDATE oversell_holds SET sku = sku WHERE sku = ?", s.Item.SKU).Error
	s.SweepAll()
	return nil
}

// sameKeyAtOnce repeats a request with its idempotency key while the first is about to write. It
// returns ErrTwoHolds if they did not get the same hold.
func sameKeyAtOnce(t *testing.T, s *Site) error {
	take := func() (holds.Hold, error) {
		r := s.Request("a")
		r.Key, r.Limit = "key", 1
		return s.Take(t.Context(), r)
	}
	var first, second holds.Hold
	var again error
	err := s.Midway(func() (err error) {
		first, err = take()
		return err
	}, func() { second, again = take() })
	if err == nil && again == nil && first != second {
		err = ErrTwoHolds
	}
	return errors.Join(err, again)
}

// ErrTwoHolds means that two requests with one key got different holds.
var ErrTwoHolds = errors.New("two requests with one key got different holds")

// oldSale pays for a hold after a new sale of five units has begun, and lets another hold expire.
// It returns the payer's error.
func oldSale(t *testing.T, s *Site) error {
	a, b := s.Hold("a"), s.Hold("b")
	s.Put(5)
	err := s.Pay(a)
	s.Expire(b)
	s.SweepAll()
	return err
}

// OneCannotEnd sweeps two expired holds. The first cannot be ended, but the unit of the second
// returns to the stock.
func OneCannotEnd(t *testing.T, s *Site) {
	s.Expire(s.Hold("a"))
	s.Expire(s.Hold("b"))
	s.DiesOnce(BeforeEnd, func() error {
		n, err := s.Sweep(t.Context(), s.Item.SKU, 10)
		if n != 1 {
			t.Errorf("%d holds were ended, want 1", n)
		}
		return err
	})
	if left := s.Figures().Left; left != 2 {
		t.Errorf("%d units are left, want 2", left)
	}
	s.SweepAll()
	s.Want(Figures{Left: 3})
}

// LockedRow sweeps three expired holds while another session has locked the first one's row in a
// table. The units of the other two return to the stock anyway, and the unit of the first returns
// later.
func LockedRow(t *testing.T, s *Site, table string) {
	a := s.Hold("a")
	for _, h := range []holds.Hold{a, s.Hold("b"), s.Hold("c")} {
		s.Expire(h)
	}
	s.Locked(table, a, func() {
		if n := s.SweepAll(); n < 2 {
			t.Errorf("%d holds were ended, want those that are not locked", n)
		}
	})
	s.SweepAll()
	s.Want(Figures{Left: 3})
}
