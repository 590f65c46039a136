package stock

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"oversell/internal/backend/backendtest"
)

// The keys of these tests.
const (
	saleAt   = "{s}:sale"
	stockAt  = "{s}:stock"
	claimsAt = "{s}:claims:2"
	lastAt   = "{s}:claims:1"
)

var scriptKeys = []string{saleAt, stockAt, claimsAt, lastAt}

// setStock begins the sale "now" with the given units. The key "claimed" is claimed in
// this period, and "claimed before" in the last.
func setStock(t *testing.T, rdb redis.UniversalClient, units string) {
	t.Helper()
	ctx := t.Context()
	if err := rdb.FlushDB(ctx).Err(); err != nil {
		t.Fatal(err)
	}
	if err := rdb.MSet(ctx, saleAt, "now", stockAt, units).Err(); err != nil {
		t.Fatal(err)
	}
	if err := rdb.HSet(ctx, claimsAt, "claimed", "").Err(); err != nil {
		t.Fatal(err)
	}
	if err := rdb.HSet(ctx, lastAt, "claimed before", "").Err(); err != nil {
		t.Fatal(err)
	}
}

// The scripts do what their headers say.
func TestScriptsAnswer(t *testing.T) {
	backendtest.EachRedis(t, func(t *testing.T, rdb redis.UniversalClient) {
		for _, tt := range []struct {
			units, key string
			wanted     int64
			answer     int64
			left       string
		}{
			{"5", "", 1, 4, "4"},
			{"5", "", 5, 0, "0"},
			{"5", "", 6, -8, "5"},
			{"0", "", 1, -3, "0"},
			{"-2", "", 1, -3, "-2"},
			{"5", "free", 2, 3, "3"},
			{"5", "claimed", 2, answerClaimed, "5"},
			{"0", "claimed", 2, answerClaimed, "0"},
			{"5", "claimed before", 2, answerClaimed, "5"},
			{"1000000000", "", 1, 999999999, "999999999"},
		} {
			setStock(t, rdb, tt.units)
			one, err := takeScript.Run(t.Context(), rdb, scriptKeys, "now", 60_000, tt.wanted, tt.key).Int64()
			if left := rdb.Get(t.Context(), stockAt).Val(); err != nil || one != tt.answer || left != tt.left {
				t.Errorf("%+v: answer %d, left %s, %v", tt, one, left, err)
			}
			setStock(t, rdb, tt.units)
			all, err := takeAllScript.Run(t.Context(), rdb, scriptKeys, "now", 60_000, tt.wanted, tt.key).Int64Slice()
			if left := rdb.Get(t.Context(), stockAt).Val(); err != nil || !slices.Equal(all, []int64{tt.answer}) || left != tt.left {
				t.Errorf("%+v, for all: answers %d, left %s, %v", tt, all, left, err)
			}
		}
	})
}

func TestScriptsKnowTheirSale(t *testing.T) {
	backendtest.EachRedis(t, func(t *testing.T, rdb redis.UniversalClient) {
		for name, change := range map[string]func(ctx context.Context) error{
			"another sale": func(ctx context.Context) error { return rdb.Set(ctx, saleAt, "next", 0).Err() },
			"no sale":      func(ctx context.Context) error { return rdb.Del(ctx, saleAt).Err() },
			"no stock":     func(ctx context.Context) error { return rdb.Del(ctx, stockAt).Err() },
		} {
			setStock(t, rdb, "5")
			if err := change(t.Context()); err != nil {
				t.Fatal(err)
			}
			one, err := takeScript.Run(t.Context(), rdb, scriptKeys, "now", 60_000, 1, "").Int64()
			if err != nil || one != answerOtherSale {
				t.Errorf("%s: answer %d, %v", name, one, err)
			}
			all, err := takeAllScript.Run(t.Context(), rdb, scriptKeys, "now", 60_000, 1, "").Int64Slice()
			if err != nil || len(all) != 0 {
				t.Errorf("%s, for all: answers %d, %v", name, all, err)
			}
		}
	})
}

// Buyers are served in their order. A buyer that wants less may still be served after one
// that wanted too much, and the first buyer with a key claims it.
func TestScriptServesAllInTheirOrder(t *testing.T) {
	backendtest.EachRedis(t, func(t *testing.T, rdb redis.UniversalClient) {
		setStock(t, rdb, "7")
		got, err := takeAllScript.Run(t.Context(), rdb, scriptKeys, "now", 60_000,
			4, "", 1, "a", 3, "", 1, "a", 1, "claimed", 2, "", 1, "").Int64Slice()
		want := []int64{3, 2, answerTooFew - 2, answerClaimed, answerClaimed, 0, answerTooFew}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("answers %d, %v; want %d", got, err, want)
		}
		if left := rdb.Get(t.Context(), stockAt).Val(); left != "0" {
			t.Errorf("%s left, want none", left)
		}
		if ttl := rdb.PTTL(t.Context(), claimsAt).Val(); ttl <= 0 || ttl > time.Minute {
			t.Errorf("the claims expire in %v, want a minute", ttl)
		}
	})
}
