package stock

import (
	"context"
	"slices"
	"strconv"
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

// The accepting script serves a batch in its order, does for each buyer what its header says,
// and leaves a full batch completely on record.
func TestAcceptScriptServesABatch(t *testing.T) {
	at := append(slices.Clone(scriptKeys), "{s}:stream", "{s}:orders", "{s}:keys", "{s}:buyers")
	header := func(limit int64) []any { return []any{"now", 600, 60_000, "s", "sale", "id", limit, "lua_stream", 7} }
	backendtest.EachRedis(t, func(t *testing.T, rdb redis.UniversalClient) {
		setStock(t, rdb, "7")
		batch := append(header(4),
			3, "a", "o1", "ann", 1, "a", "o2", "bob", 2, "", "o3", "ann", 5, "", "o4", "bob", 1, "claimed", "o5", "bob",
			4, "", "o6", "bob", 1, "", "o7", "cat")
		lost := slices.Repeat([]int64{acceptLost}, 7)
		lost[4] = acceptClaimed
		if got, err := acceptScript.Run(t.Context(), rdb, at, batch...).Int64Slice(); err != nil || !slices.Equal(got, lost) {
			t.Errorf("without the counts of buyers: answers %d, %v; want %d", got, err, lost)
		}
		if err := rdb.HSet(t.Context(), at[7], "", 0).Err(); err != nil {
			t.Fatal(err)
		}
		want := []int64{4, acceptClaimed, acceptLimit, acceptLimit, acceptClaimed, 0, acceptTooFew}
		if got, err := acceptScript.Run(t.Context(), rdb, at, batch...).Int64Slice(); err != nil || !slices.Equal(got, want) {
			t.Errorf("answers %d, %v; want %d", got, err, want)
		}
		if has := rdb.HGetAll(t.Context(), at[7]).Val(); has["ann"] != "3" || has["bob"] != "4" || len(has) != 3 {
			t.Errorf("the buyers have %v", has)
		}

		setStock(t, rdb, "1000")
		batch = header(0)
		for i := range 650 {
			batch = append(batch, 1, "key"+strconv.Itoa(i), "order"+strconv.Itoa(i), "")
		}
		got, err := acceptScript.Run(t.Context(), rdb, at, batch...).Int64Slice()
		if err != nil || len(got) != 650 || got[599] != 400 || got[600] != acceptFull || rdb.Get(t.Context(), stockAt).Val() != "400" {
			t.Fatalf("a large batch, into a stream for 600: %d answers, %v", len(got), err)
		}
		entries, err := rdb.XRange(t.Context(), at[4], "-", "+").Result()
		orders, byKey := rdb.HGetAll(t.Context(), at[5]).Val(), rdb.HGetAll(t.Context(), at[6]).Val()
		if err != nil || len(entries) != 600 || len(orders) != 600 || len(byKey) != 600 {
			t.Fatalf("%d entries, %d orders, %d keys, %v; want 600 of each", len(entries), len(orders), len(byKey), err)
		}
		for i, m := range entries {
			id, key := "order"+strconv.Itoa(i), "key"+strconv.Itoa(i)
			v := m.Values
			if v["id"] != id || v["key"] != key || orders[id] != m.ID || byKey[key] != id || v["strategy"] != "lua_stream" || v["time"] != "7" {
				t.Fatalf("entry %d is %+v, at %s; the key leads to %q", i, m, orders[id], byKey[key])
			}
		}
		if ttl := rdb.PTTL(t.Context(), at[6]).Val(); ttl <= 0 || ttl > time.Minute {
			t.Errorf("the keys expire in %v, want a minute", ttl)
		}
	})
}
