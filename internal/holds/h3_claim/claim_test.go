package hold

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"oversell/internal/holds"
	"oversell/internal/holds/holdstest"
	"oversell/internal/locks/locktest"
)

// A payment, a release and a sweep race for a hold that is about to expire. One of them ends the
// hold, the others get an error, and no unit is lost or sold twice.
func TestExactlyOneWins(t *testing.T) {
	const rounds = 60
	holdstest.EachIsolation(t, rounds, stage, func(t *testing.T, s *holdstest.Site) {
		won := make(map[holds.Status]int)
		for range rounds {
			h := s.Hold("a")
			expireSoon(t, s, h)
			won[race(t, s, h)]++
		}
		t.Log("ended by", won)
		s.SweepAll()
		sold := int64(won[holds.Paid])
		s.Want(holdstest.Figures{Left: rounds - sold, Sold: sold})
	})
}

// expireSoon sets the expiry of a hold a few milliseconds ahead, or into the past.
func expireSoon(t *testing.T, s *holdstest.Site, h holds.Hold) {
	t.Helper()
	err := s.DB.Exec("UPDATE oversell_holds SET expires_at = "+s.Backends.SQL.Clock+" + ? WHERE id = ?",
		rand.IntN(12)-2, h.ID).Error
	if err != nil {
		t.Fatal(err)
	}
}

// race lets all of these compete for a hold, checks that it ended exactly once, and returns its last status.
func race(t *testing.T, s *holdstest.Site, h holds.Hold) holds.Status {
	t.Helper()
	var paid, released, expired atomic.Int64
	refused := func(err error) {
		if !errors.Is(err, holds.ErrNotHeld) {
			t.Error(err)
		}
	}
	var all sync.WaitGroup
	all.Go(func() {
		if err := s.Pay(h); err == nil {
			paid.Add(1)
		} else {
			refused(err)
		}
	})
	for range 2 {
		all.Go(func() {
			if err := s.Release(t.Context(), h.ID, h.Token); err == nil {
				released.Add(1)
			} else {
				refused(err)
			}
		})
		all.Go(func() {
			for range 20 {
				n, err := s.Sweep(t.Context(), h.SKU, 10)
				if err != nil {
					t.Error(err)
				}
				expired.Add(int64(n))
			}
		})
	}
	all.Wait()
	if n := paid.Load() + released.Load() + expired.Load(); n > 1 {
		t.Errorf("paid %d times, released %d times, expired %d times", paid.Load(), released.Load(), expired.Load())
	}
	now, err := s.Look(t.Context(), h.ID)
	if err != nil {
		t.Error(err)
	}
	for status, n := range map[holds.Status]int64{holds.Paid: paid.Load(), holds.Released: released.Load()} {
		if (now.Status == status) != (n == 1) {
			t.Errorf("the hold is %s, and %d were told that it is %s", now.Status, n, status)
		}
	}
	return now.Status
}

func TestWrongToken(t *testing.T) {
	holdstest.Each(t, 2, stage, func(t *testing.T, s *holdstest.Site) {
		a, b := s.Hold("a"), s.Hold("b")
		if b.Token <= a.Token {
			t.Errorf("the tokens are %d and then %d; want them to grow", a.Token, b.Token)
		}
		wrong := a
		wrong.Token = b.Token
		for _, err := range []error{s.Pay(wrong), s.Release(t.Context(), a.ID, b.Token)} {
			if !errors.Is(err, holds.ErrToken) {
				t.Errorf("got %v, want %v", err, holds.ErrToken)
			}
		}
		s.Want(holdstest.Figures{Held: 2})
	})
}

// A request finds nothing for its key, and then an earlier one with the key takes the last unit. Both
// get the hold.
func TestSameKeyTakesTheLastUnit(t *testing.T) {
	holdstest.Each(t, 1, stage, func(t *testing.T, s *holdstest.Site) {
		take := func() (holds.Hold, error) {
			r := s.Request("a")
			r.Key = "key"
			return s.Take(t.Context(), r)
		}
		var first holds.Hold
		var counted atomic.Bool
		s.SQL.On(func(statement string) bool {
			return strings.HasPrefix(statement, "SELECT remaining") && counted.CompareAndSwap(false, true)
		}, func(_ context.Context, send func() error) (err error) {
			if first, err = take(); err != nil {
				return err
			}
			return send()
		})
		if h, err := take(); err != nil || h != first {
			t.Errorf("got %+v, %v; want %+v", h, err, first)
		}
	})
}

// The last unit is sold while a buyer asks for it.
func TestSoldOutIsSaidOnce(t *testing.T) {
	holdstest.Each(t, 1, stage, func(t *testing.T, s *holdstest.Site) {
		take := func() error {
			_, err := s.Take(t.Context(), s.Request("late"))
			return err
		}
		err := s.Midway(take, func() {
			if err := s.Buy("a"); err != nil {
				t.Error(err)
			}
		})
		if !errors.Is(err, holds.ErrSoldOut) || strings.Count(err.Error(), holds.ErrSoldOut.Error()) != 1 {
			t.Errorf("got %v, want %v once", err, holds.ErrSoldOut)
		}
	})
}

// A hold expires while its buyer extends it, and an order is cancelled twice at once. Who comes too late
// is told how the hold ended.
func TestLateExtensionAndCancellationAreRefused(t *testing.T) {
	holdstest.Each(t, 2, stage, func(t *testing.T, s *holdstest.Site) {
		a, b := s.Hold("a"), s.Hold("b")
		err := s.Midway(func() error {
			_, err := s.Extend(t.Context(), a.ID, a.Token, holdstest.TTL, 3*holdstest.TTL)
			return err
		}, func() {
			s.Expire(a)
			s.SweepAll()
		})
		if want := (holds.NotHeldError{Status: holds.Expired}); !errors.Is(err, want) {
			t.Errorf("the extension: %v, want %v", err, want)
		}
		if err := s.Pay(b); err != nil {
			t.Fatal(err)
		}
		cancel := func() error { return s.Cancel(t.Context(), b.ID, b.Token) }
		err = s.Midway(cancel, func() {
			if err := cancel(); err != nil {
				t.Error(err)
			}
		})
		if want := (holds.NotHeldError{Status: holds.Cancelled}); !errors.Is(err, want) {
			t.Errorf("the second cancellation: %v, want %v", err, want)
		}
	})
}

// The item and its buyers are deleted while a buyer asks for a unit.
func TestItemIsDeletedDuringATake(t *testing.T) {
	holdstest.Each(t, 1, stage, func(t *testing.T, s *holdstest.Site) {
		var begun atomic.Int64 // the first transaction writes the buyer's row
		s.SQL.On(func(statement string) bool { return statement == "BEGIN" && begun.Add(1) == 2 },
			func(_ context.Context, send func() error) error {
				for _, table := range []string{"oversell_hold_buyers", "oversell_items"} {
					if err := s.DB.Exec("DELETE FROM "+table+" WHERE sale_id = ?", s.Item.SaleID).Error; err != nil {
						t.Error(err)
					}
				}
				return send()
			})
		if _, err := s.Take(t.Context(), s.Request("a")); !errors.Is(err, holds.ErrSaleOver) {
			t.Errorf("got %v, want %v", err, holds.ErrSaleOver)
		}
	})
}

// A transition changes the row only if the row still has the token that was read. If the row was
// created again in between, with the same id, the hold belongs to somebody else.
func TestTransitionCarriesTheToken(t *testing.T) {
	holdstest.Each(t, 1, stage, func(t *testing.T, s *holdstest.Site) {
		for name, end := range map[string]func(h holds.Hold) error{
			"claim":   s.Pay,
			"release": func(h holds.Hold) error { return s.Release(t.Context(), h.ID, h.Token) },
		} {
			s.Put(1)
			h := s.Hold("a")
			s.SQL.On(func(statement string) bool { return statement == "BEGIN" },
				func(_ context.Context, send func() error) error {
					if err := s.DB.Exec("UPDATE oversell_holds SET token = token + 1 WHERE id = ?",
						h.ID).Error; err != nil {
						t.Error(err)
					}
					return send()
				})
			if err := end(h); !errors.Is(err, errLost) {
				t.Errorf("%s: got %v, want %v", name, err, errLost)
			}
			s.SQL.On(nil, nil)
			if f := s.Figures(); f.Sold != 0 || f.Left != 0 {
				t.Errorf("%s: %+v, want the unit held", name, f)
			}
		}
	})
}

// A payment that has paid for one hold cannot pay for another.
func TestPaymentPaysOnce(t *testing.T) {
	holdstest.Each(t, 2, stage, func(t *testing.T, s *holdstest.Site) {
		a, b := s.Hold("a"), s.Hold("b")
		if _, err := s.Claim(t.Context(), a.ID, a.Token, "payment"); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Claim(t.Context(), b.ID, b.Token, "payment"); !errors.Is(err, holds.ErrPaymentUsed) {
			t.Errorf("got %v, want %v", err, holds.ErrPaymentUsed)
		}
		s.Want(holdstest.Figures{Held: 1, Sold: 1})
	})
}

// onCommit applies an action to the nth COMMIT from now.
func onCommit(s *holdstest.Site, nth int64, then locktest.Action) {
	var seen atomic.Int64
	s.SQL.On(func(statement string) bool { return statement == "COMMIT" && seen.Add(1) == nth }, then)
}

// The connection breaks during COMMIT, before or after the server has executed it. The stage
// finds out which with a read that waits for the transaction.
func TestLostCommit(t *testing.T) {
	type step struct {
		name string
		nth  int64 // the number of the COMMIT that is lost
		do   func(s *holdstest.Site, h holds.Hold) error
		want holdstest.Figures // if the server executed the COMMIT
	}
	steps := []step{
		{"take", 2, func(s *holdstest.Site, h holds.Hold) error {
			_, err := s.Take(context.Background(), s.Request("b"))
			return err
		}, holdstest.Figures{Held: 2}},
		{"claim", 1, func(s *holdstest.Site, h holds.Hold) error { return s.Pay(h) },
			holdstest.Figures{Left: 1, Sold: 1}},
		{"release", 1, func(s *holdstest.Site, h holds.Hold) error {
			return s.Release(context.Background(), h.ID, h.Token)
		}, holdstest.Figures{Left: 2}},
	}
	for _, step := range steps {
		t.Run(step.name, func(t *testing.T) {
			holdstest.Each(t, 2, stage, func(t *testing.T, s *holdstest.Site) {
				h := s.Hold("a")
				if s.DB.Name() != "mysql" {
					return // SQLite runs in this process: its COMMIT has no reply to lose
				}
				onCommit(s, step.nth, locktest.Fail(locktest.ErrCut))
				if err := step.do(s, h); !errors.Is(err, locktest.ErrCut) {
					t.Errorf("never executed: got %v, want %v", err, locktest.ErrCut)
				}
				s.Want(holdstest.Figures{Left: 1, Held: 1})
				onCommit(s, step.nth, locktest.LoseReply(locktest.ErrCut))
				if err := step.do(s, h); err != nil {
					t.Errorf("executed: got %v", err)
				}
				s.Want(step.want)
			})
		})
	}
}

// A transaction that the server rolls back because of a deadlock is tried again.
func TestConflictIsTriedAgain(t *testing.T) {
	holdstest.Each(t, 2, stage, func(t *testing.T, s *holdstest.Site) {
		if s.DB.Name() != "mysql" {
			return // SQLite has one writer at a time, so no deadlocks
		}
		for name, do := range map[string]func(h holds.Hold) error{
			"take":    func(holds.Hold) error { return s.Buy("b") },
			"claim":   s.Pay,
			"release": func(h holds.Hold) error { return s.Release(t.Context(), h.ID, h.Token) },
			"sweep": func(h holds.Hold) error {
				s.Expire(h)
				_, err := s.Sweep(t.Context(), h.SKU, 10)
				return err
			},
		} {
			s.Put(2)
			h := s.Hold("a")
			var deadlocks atomic.Int64
			s.SQL.On(func(statement string) bool { return strings.HasPrefix(statement, "UPDATE") },
				func(_ context.Context, send func() error) error {
					if deadlocks.Add(1) == 1 {
						return &mysql.MySQLError{Number: 1213, Message: "Deadlock found"}
					}
					return send()
				})
			if err := do(h); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			s.SQL.On(nil, nil)
			if f := s.Figures(); f.Stranded != 0 || f.Oversold != 0 {
				t.Errorf("%s: %+v", name, f)
			}
		}
	})
}

// No new sale begins in the middle of a claim: the next sale begins when the claim is over, or
// the claim is refused.
func TestNextSaleWaitsForAClaim(t *testing.T) {
	holdstest.EachIsolation(t, 1, stage, func(t *testing.T, s *holdstest.Site) {
		h, begun := s.Hold("a"), make(chan struct{})
		onCommit(s, 1, func(_ context.Context, send func() error) error {
			go func() {
				defer close(begun)
				s.Put(1)
			}()
			select {
			case <-begun:
				t.Error("the next sale began while the order of the last was being written")
			case <-time.After(100 * time.Millisecond):
			}
			return send()
		})
		if err := s.Pay(h); err != nil {
			t.Error(err)
		}
		<-begun
		s.Want(holdstest.Figures{Left: 1})
	})
}

// A claim that is refused because the hold has expired is refused for good, because its caller
// refunds the payment. A second claim for the same payment, which read the clock before the expiry
// and arrives later, is refused, too.
func TestRefusedAsExpiredIsFinal(t *testing.T) {
	holdstest.Each(t, 1, stage, func(t *testing.T, s *holdstest.Site) {
		h := s.Hold("a")
		after := s.Backends
		after.SQL.Clock = "(" + after.SQL.Clock + " + 7200000)"
		if _, err := stage(after).Claim(t.Context(), h.ID, h.Token, "payment"); !errors.Is(err, holds.ErrNotHeld) {
			t.Fatalf("the claim after the expiry: %v, want %v", err, holds.ErrNotHeld)
		}
		if _, err := s.Claim(t.Context(), h.ID, h.Token, "payment"); !errors.Is(err, holds.ErrNotHeld) {
			t.Errorf("the claim that is late: %v, want %v", err, holds.ErrNotHeld)
		}
		s.Want(holdstest.Figures{Left: 1})
	})
}

// A sweep whose context is done ends no further hold.
func TestSweepEndsWithItsShop(t *testing.T) {
	holdstest.Each(t, 2, stage, func(t *testing.T, s *holdstest.Site) {
		s.Expire(s.Hold("a"))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if n, err := s.Sweep(ctx, s.Item.SKU, 10); n != 0 || err == nil {
			t.Errorf("it ended %d holds, %v", n, err)
		}
	})
}

// A hold of a past sale counts as expired, and cannot be released.
func TestOldSaleIsNotReleased(t *testing.T) {
	holdstest.Each(t, 1, stage, func(t *testing.T, s *holdstest.Site) {
		h := s.Hold("a")
		s.Put(1)
		for range 2 {
			err := s.Release(t.Context(), h.ID, h.Token)
			if !errors.Is(err, holds.NotHeldError{Status: holds.Expired}) {
				t.Errorf("got %v, want that it is expired", err)
			}
		}
		if now, err := s.Look(t.Context(), h.ID); err != nil || now.Status != holds.Expired {
			t.Errorf("the hold is %+v, %v", now, err)
		}
		s.Want(holdstest.Figures{Left: 1})
	})
}

// A sweep also lowers the count of the hold's buyer. If it waited for a locked buyer row, it would
// delay the other holds.
func TestLockedBuyerIsSkipped(t *testing.T) {
	holdstest.EachIsolation(t, 3, stage, func(t *testing.T, s *holdstest.Site) {
		holdstest.LockedRow(t, s, "oversell_hold_buyers")
	})
}

// Even before a sweep, the units of an expired hold can be bought by others, and do not count
// towards the limit of its buyer. The hold cannot be paid any more.
func TestExpiredIsFree(t *testing.T) {
	holdstest.EachIsolation(t, 3, stage, func(t *testing.T, s *holdstest.Site) {
		a, b := s.Hold("a"), s.Hold("b")
		s.Expire(a)
		s.Want(holdstest.Figures{Left: 2, Held: 1})
		again := s.Request("a")
		again.Limit = 1
		if _, err := s.Take(t.Context(), again); err != nil {
			t.Errorf("at the limit of the buyer: %v", err)
		}
		s.Want(holdstest.Figures{Left: 1, Held: 2})
		s.Expire(b)
		all := s.Request("c")
		all.Quantity = 2
		if _, err := s.Take(t.Context(), all); err != nil {
			t.Errorf("all that is left: %v", err)
		}
		for _, h := range []holds.Hold{a, b} {
			if err := s.Pay(h); !errors.Is(err, holds.NotHeldError{Status: holds.Expired}) {
				t.Errorf("paying an expired hold: %v", err)
			}
		}
		again.ID = s.Request("").ID
		if _, err := s.Take(t.Context(), again); !errors.Is(err, holds.ErrSoldOut) {
			t.Errorf("one more: %v, want %v", err, holds.ErrSoldOut)
		}
		s.Want(holdstest.Figures{Held: 3})
		if n := s.SweepAll(); n != 0 {
			t.Errorf("%d holds were ended twice", n)
		}
	})
}

// Holds expire while their buyers pay and others ask for the units. No buyer gets ErrSoldOut before
// everything is sold.
func TestRushForExpired(t *testing.T) {
	const units, takers = 20, 60
	holdstest.EachIsolation(t, units, stage, func(t *testing.T, s *holdstest.Site) {
		var all sync.WaitGroup
		var sold, held atomic.Int64
		for i := range units {
			h := s.Hold("old")
			if i%2 == 0 {
				s.Expire(h)
				continue
			}
			expireSoon(t, s, h)
			all.Go(func() {
				if err := s.Pay(h); err == nil {
					sold.Add(1)
				} else if !errors.Is(err, holds.ErrNotHeld) {
					t.Error(err)
				}
			})
		}
		take := func() error {
			_, err := s.Take(t.Context(), s.Request("new"))
			if err == nil {
				held.Add(1)
			} else if !errors.Is(err, holds.ErrSoldOut) {
				t.Error(err)
			}
			return err
		}
		for range takers {
			all.Go(func() { _ = take() })
		}
		all.Wait()
		if n := held.Load(); n < units/2 {
			t.Errorf("%d buyers got a unit; at least %d units were free", n, units/2)
		}
		for s.Figures().Left > 0 && take() == nil {
		}
		s.Want(holdstest.Figures{Held: held.Load(), Sold: sold.Load()})
		if n := sold.Load() + held.Load(); n > units {
			t.Errorf("%d units were sold or are held, of %d", n, units)
		}
	})
}

// While the row of an expired hold is locked, its unit is not for sale, but the units of the other
// expired holds are.
func TestLockedRowStopsNoBuyer(t *testing.T) {
	for _, table := range []string{"oversell_holds", "oversell_hold_buyers"} {
		holdstest.EachIsolation(t, 3, stage, func(t *testing.T, s *holdstest.Site) {
			a := s.Hold("a")
			for _, h := range []holds.Hold{a, s.Hold("b"), s.Hold("c")} {
				s.Expire(h)
			}
			s.Locked(table, a, func() {
				for range 2 {
					s.Hold("d")
				}
				if _, err := s.Take(t.Context(), s.Request("d")); s.DB.Name() == "mysql" &&
					!errors.Is(err, holds.ErrSoldOut) {
					t.Errorf("the unit that is locked: %v, want %v", err, holds.ErrSoldOut)
				}
			})
			s.SweepAll()
			if f := s.Figures(); f.Left+f.Held != 3 {
				t.Errorf("%+v", f)
			}
		})
	}
}
