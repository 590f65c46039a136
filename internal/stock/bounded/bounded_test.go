package bounded_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"oversell/internal/backend/backendtest"
	"oversell/internal/locks/locktest"
	"oversell/internal/stock/bounded"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const generation = "sale:generation:family"

// open puts units on sale.
func open(t *testing.T, rdb redis.UniversalClient, units string) bounded.Stock {
	t.Helper()
	key := locktest.Key(t)
	s := bounded.Stock{Units: "{" + key + "}:units", Sale: "{" + key + "}:sale", Generation: generation}
	if err := errors.Join(rdb.Set(t.Context(), s.Units, units, 0).Err(), rdb.Set(t.Context(), s.Sale, generation, 0).Err()); err != nil {
		t.Fatal(err)
	}
	return s
}

func each(t *testing.T, f func(t *testing.T, rdb redis.UniversalClient)) {
	t.Helper()
	backendtest.EachRedisWith(t, "INCREX", f)
}

func take(t *testing.T, rdb redis.UniversalClient, s bounded.Stock, wanted ...int64) []bounded.Answer {
	t.Helper()
	answers, err := bounded.Take(t.Context(), rdb, s, wanted)
	if err != nil {
		t.Fatal(err)
	}
	return answers
}

// Each buyer of a batch is served if enough is left for it, also after one that was not.
func TestBuyersAreServedInTheirTurn(t *testing.T) {
	each(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := open(t, rdb, "6")
		want := []bounded.Answer{{Taken: true, Left: 5}, {Taken: true, Left: 1}, {Left: 1}, {Taken: true}, {}}
		if got := take(t, rdb, s, 1, 4, 4, 1, 1); !slices.Equal(got, want) {
			t.Errorf("got %+v, want %+v", got, want)
		}
	})
}

// Sold out is one answer, and a stock that is not there another.
func TestMissingStockIsNotSoldOut(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(rdb redis.UniversalClient, s bounded.Stock) error
		want   bounded.Answer
	}{
		"sold out":           {func(rdb redis.UniversalClient, s bounded.Stock) error { return nil }, bounded.Answer{}},
		"the stock is gone":  {del(func(s bounded.Stock) string { return s.Units }), bounded.Answer{Ended: true}},
		"the sale is gone":   {del(func(s bounded.Stock) string { return s.Sale }), bounded.Answer{Ended: true}},
		"another generation": {set("another"), bounded.Answer{Ended: true}},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, rdb redis.UniversalClient) {
				s := open(t, rdb, "0")
				if err := tt.change(rdb, s); err != nil {
					t.Fatal(err)
				}
				before, err := rdb.Exists(t.Context(), s.Units).Result()
				if got := take(t, rdb, s, 1); err != nil || got[0] != tt.want {
					t.Errorf("got %+v, %v; want %+v", got, err, tt.want)
				}
				if after := rdb.Exists(t.Context(), s.Units).Val(); after != before {
					t.Errorf("%d stocks, and %d before it", after, before)
				}
			})
		})
	}
}

func del(key func(bounded.Stock) string) func(redis.UniversalClient, bounded.Stock) error {
	return func(rdb redis.UniversalClient, s bounded.Stock) error {
		return rdb.Del(context.Background(), key(s)).Err()
	}
}

func set(generation string) func(redis.UniversalClient, bounded.Stock) error {
	return func(rdb redis.UniversalClient, s bounded.Stock) error {
		return rdb.Set(context.Background(), s.Sale, generation, 0).Err()
	}
}

// Units that were taken count even if the generation has ended: that is for the database to
// say.
func TestUnitsOfAnEndedGenerationAreTaken(t *testing.T) {
	each(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := open(t, rdb, "2")
		s.Generation = "the last one"
		want := []bounded.Answer{{Taken: true, Left: 1}, {Left: 1, Ended: true}}
		if got := take(t, rdb, s, 1, 2); !slices.Equal(got, want) {
			t.Errorf("got %+v, want %+v", got, want)
		}
	})
}

// After a lost reply nobody asks again.
func TestLostReplyIsAnError(t *testing.T) {
	s := locktest.Start(t)
	at := open(t, s.Client, "5")
	sent := s.Hook.Count(locktest.Command("increx"))
	s.Hook.On(locktest.Command("increx"), 1, locktest.LoseReply(locktest.ErrCut))
	if _, err := bounded.Take(t.Context(), s.Client, at, []int64{1}); !errors.Is(err, locktest.ErrCut) {
		t.Errorf("got %v, want %v", err, locktest.ErrCut)
	}
	if left, err := s.Get(at.Units); left != "4" || err != nil || sent.Hits() != 1 {
		t.Errorf("%s left after INCREX was sent %d times, %v; want 4 and once", left, sent.Hits(), err)
	}
}

// Many takers of few units, among whom some put theirs back, leave what is right.
func TestUnitsGoBackWhileOthersTake(t *testing.T) {
	each(t, func(t *testing.T, rdb redis.UniversalClient) {
		const units, takers = 50, 8
		s := open(t, rdb, strconv.Itoa(units))
		var mu sync.Mutex
		kept := int64(0)
		var all sync.WaitGroup
		for range takers {
			all.Go(func() {
				for turn := range 10 {
					answers, err := bounded.Take(t.Context(), rdb, s, []int64{1})
					if err != nil {
						t.Error(err)
						return
					}
					if !answers[0].Taken {
						continue
					}
					if turn%2 == 0 {
						err := bounded.PutBack(t.Context(), rdb, s.Units, 1)
						if err == nil {
							continue
						}
						if !errors.Is(err, bounded.ErrContended) {
							t.Error(err)
						}
					}
					mu.Lock()
					kept++
					mu.Unlock()
				}
			})
		}
		all.Wait()
		if left, err := rdb.Get(t.Context(), s.Units).Int64(); err != nil || left+kept != units {
			t.Errorf("%d left and %d kept, %v; want %d together", left, kept, err, units)
		}
	})
}

// A stock that has ended does not come back with the units of a late buyer.
func TestPutBackCreatesNoStock(t *testing.T) {
	each(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := open(t, rdb, "0")
		if err := bounded.PutBack(t.Context(), rdb, s.Units, 3); err != nil {
			t.Error(err)
		}
		if left := rdb.Get(t.Context(), s.Units).Val(); left != "3" {
			t.Errorf("%s left, want 3", left)
		}
		rdb.Del(t.Context(), s.Units)
		if err := bounded.PutBack(t.Context(), rdb, s.Units, 3); err != nil || rdb.Exists(t.Context(), s.Units).Val() != 0 {
			t.Errorf("%v, and the stock exists: %d", err, rdb.Exists(t.Context(), s.Units).Val())
		}
	})
}

// The stock is deleted between the two commands of PutBack.
func TestPutBackNoticesTheEndOfAStock(t *testing.T) {
	s := locktest.Start(t)
	at := open(t, s.Client, "1")
	s.Hook.On(locktest.Command("set"), 1, func(_ context.Context, send func() error) error {
		s.Del(at.Units)
		return send()
	})
	if err := bounded.PutBack(t.Context(), s.Client, at.Units, 1); err != nil || s.Exists(at.Units) {
		t.Errorf("%v, and the stock exists: %v", err, s.Exists(at.Units))
	}
}

// A stock that keeps changing is given up after a while, and is as the others left it.
func TestPutBackEndsWhenOthersKeepTaking(t *testing.T) {
	s := locktest.Start(t)
	at := open(t, s.Client, "1000")
	s.Hook.On(locktest.Command("set"), 1000, func(_ context.Context, send func() error) error {
		if _, err := s.Incr(at.Units, -1); err != nil {
			t.Error(err)
		}
		return send()
	})
	if err := bounded.PutBack(t.Context(), s.Client, at.Units, 1); !errors.Is(err, bounded.ErrContended) {
		t.Errorf("got %v, want %v", err, bounded.ErrContended)
	}
	if left, _ := s.Get(at.Units); left != "936" {
		t.Errorf("%s left, want 936", left)
	}
}

// A key is claimed once, also if the period changes, until it is released.
func TestKeyIsClaimedOnce(t *testing.T) {
	each(t, func(t *testing.T, rdb redis.UniversalClient) {
		key := locktest.Key(t)
		first := bounded.Claims{Now: "{" + key + "}:2", Last: "{" + key + "}:1", Kept: time.Minute}
		next := bounded.Claims{Now: "{" + key + "}:3", Last: first.Now, Kept: time.Minute}
		claim := func(c bounded.Claims, want ...bool) {
			t.Helper()
			if won, err := c.Claim(t.Context(), rdb, []string{"a", "b"}); err != nil || !slices.Equal(won, want) {
				t.Errorf("won %v, %v; want %v", won, err, want)
			}
		}
		claim(first, true, true)
		claim(first, false, false)
		claim(next, false, false)
		if err := first.Release(t.Context(), rdb, []string{"a"}); err != nil {
			t.Fatal(err)
		}
		claim(next, true, false)
		if ttl := rdb.TTL(t.Context(), next.Now).Val(); ttl <= 0 {
			t.Errorf("the claims are kept for %v", ttl)
		}
	})
}
