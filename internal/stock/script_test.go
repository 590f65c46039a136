package stock

import (
	"context"
	"slices"
	"testing"

	"github.com/redis/go-redis/v9"

	"oversell/internal/backend/backendtest"
)

// The keys of these tests, and how a buyer's key is told that there is none.
const (
	saleAt  = "{s}:sale"
	stockAt = "{s}:stock"
	noKey   = stockAt
)

// setStock begins the sale "now" with the units given, and nothing claimed but
// "{s}:claimed".
func setStock(t *testing.T, rdb redis.UniversalClient, units string) {
	t.Helper()
	ctx := t.Context()
	if err := rdb.FlushDB(ctx).Err(); err != nil {
		t.Fatal(err)
	}
	if err := rdb.MSet(ctx, saleAt, "now", stockAt, units, "{s}:claimed", "").Err(); err != nil {
		t.Fatal(err)
	}
}

// What the headers of the scripts promise.
func TestScriptsAnswer(t *testing.T) {
	backendtest.EachRedis(t, func(t *testing.T, rdb redis.UniversalClient) {
		for _, tt := range []struct {
			units, sale, claim string
			wanted             int64
			answer             int64
			left               string
		}{
			{"5", "now", noKey, 1, 4, "4"},
			{"5", "now", noKey, 5, 0, "0"},
			{"5", "now", noKey, 6, -8, "5"},
			{"0", "now", noKey, 1, -3, "0"},
			{"-2", "now", noKey, 1, -3, "-2"},
			{"5", "now", "{s}:free", 2, 3, "3"},
			{"5", "now", "{s}:claimed", 2, answerClaimed, "5"},
			{"0", "now", "{s}:claimed", 2, answerClaimed, "0"},
			{"1000000000", "now", noKey, 1, 999999999, "999999999"},
		} {
			keys := []string{saleAt, stockAt, tt.claim}
			setStock(t, rdb, tt.units)
			one, err := takeScript.Run(t.Context(), rdb, keys, tt.sale, 60_000, tt.wanted).Int64()
			if left := rdb.Get(t.Context(), stockAt).Val(); err != nil || one != tt.answer || left != tt.left {
				t.Errorf("%+v: answer %d, left %s, %v", tt, one, left, err)
			}
			setStock(t, rdb, tt.units)
			all, err := takeAllScript.Run(t.Context(), rdb, keys, tt.sale, 60_000, tt.wanted).Int64Slice()
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
			keys := []string{saleAt, stockAt, noKey}
			one, err := takeScript.Run(t.Context(), rdb, keys, "now", 60_000, 1).Int64()
			if err != nil || one != answerOtherSale {
				t.Errorf("%s: answer %d, %v", name, one, err)
			}
			all, err := takeAllScript.Run(t.Context(), rdb, keys, "now", 60_000, 1).Int64Slice()
			if err != nil || len(all) != 0 {
				t.Errorf("%s, for all: answers %d, %v", name, all, err)
			}
		}
	})
}

// First come, first served; who wants less may still be served after one for
// whom there were too few, and a key is claimed by the first who has it.
func TestScriptServesAllInTheirOrder(t *testing.T) {
	backendtest.EachRedis(t, func(t *testing.T, rdb redis.UniversalClient) {
		setStock(t, rdb, "7")
		keys := []string{saleAt, stockAt, noKey, "{s}:a", noKey, "{s}:a", "{s}:claimed", noKey, noKey}
		got, err := takeAllScript.Run(t.Context(), rdb, keys, "now", 60_000, 4, 1, 3, 1, 1, 2, 1).Int64Slice()
		want := []int64{3, 2, answerTooFew - 2, answerClaimed, answerClaimed, 0, answerTooFew}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("answers %d, %v; want %d", got, err, want)
		}
		if left := rdb.Get(t.Context(), stockAt).Val(); left != "0" {
			t.Errorf("%s left, want none", left)
		}
		if ttl := rdb.PTTL(t.Context(), "{s}:a").Val(); ttl <= 0 {
			t.Errorf("the claim stays for %v, want a minute", ttl)
		}
	})
}
