package locktest_test

import (
	"context"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"oversell/internal/backend/backendtest"
	"oversell/internal/locks/locktest"
)

const benchTTL = 30 * time.Second

// BenchmarkUncontended takes a free lock and gives it back.
func BenchmarkUncontended(b *testing.B) {
	eachRedis(b, func(b *testing.B, rdb redis.UniversalClient) {
		for _, stage := range stages(b) {
			b.Run("stage="+stage.name, func(b *testing.B) {
				pair := locked(b, stage, rdb)
				for b.Loop() {
					pair(b)
				}
			})
		}
	})
}

// BenchmarkOverhead takes turns between a stage and the bare commands that it
// sends, so that whatever else the machine does meets both alike. An op is one
// of each. The medians are reported, and how often one goes into the other.
func BenchmarkOverhead(b *testing.B) {
	eachRedis(b, func(b *testing.B, rdb redis.UniversalClient) {
		bare := bareCommands(b, rdb)
		for _, stage := range stages(b) {
			if bare[stage.name] == nil {
				continue
			}
			b.Run("stage="+stage.name, func(b *testing.B) {
				m, c := sideBySide(b, locked(b, stage, rdb), bare[stage.name])
				b.ReportMetric(float64(m.Nanoseconds()), "mutex-ns")
				b.ReportMetric(float64(c.Nanoseconds()), "bare-ns")
				b.ReportMetric(float64(m)/float64(c), "mutex/bare")
			})
		}
	})
}

// BenchmarkStep takes turns between a stage and the one before it, alike.
func BenchmarkStep(b *testing.B) {
	eachRedis(b, func(b *testing.B, rdb redis.UniversalClient) {
		all := stages(b)
		for i, stage := range all[1:] {
			b.Run("stage="+stage.name, func(b *testing.B) {
				after, before := sideBySide(b, locked(b, stage, rdb), locked(b, all[i], rdb))
				b.ReportMetric(float64(after.Nanoseconds()), "after-ns")
				b.ReportMetric(float64(before.Nanoseconds()), "before-ns")
				b.ReportMetric(float64(after)/float64(before), "after/before")
			})
		}
	})
}

// sideBySide runs one of each in an op, and returns the median of each.
func sideBySide(b *testing.B, one, other func(*testing.B)) (time.Duration, time.Duration) {
	pairs := []func(*testing.B){one, other}
	took := make([][]time.Duration, len(pairs))
	for n := 0; b.Loop(); n++ {
		for k := range pairs {
			i := (n + k) % len(pairs) // who comes first changes
			start := time.Now()
			pairs[i](b)
			took[i] = append(took[i], time.Since(start))
		}
	}
	return median(took[0]), median(took[1])
}

func eachRedis(b *testing.B, f func(b *testing.B, rdb redis.UniversalClient)) {
	for _, kind := range backendtest.Kinds() {
		b.Run("redis="+kind, func(b *testing.B) {
			f(b, backendtest.DialRedis(b, backendtest.Redis(b, kind)))
		})
	}
}

// locked returns a TryLock and Unlock of the stage.
func locked(b *testing.B, stage stage, rdb redis.UniversalClient) func(*testing.B) {
	ctx := stage.as(context.Background(), uuid.NewString())
	m := stage.New(rdb, locktest.Key(b), benchTTL)
	return func(b *testing.B) {
		if ok, err := m.TryLock(ctx); !ok || err != nil {
			b.Fatal(ok, err)
		}
		if err := m.Unlock(ctx); err != nil {
			b.Fatal(err)
		}
	}
}

// bareCommands returns, for some stages, what they send to take a lock and to
// give it back.
func bareCommands(b *testing.B, rdb redis.UniversalClient) map[string]func(*testing.B) {
	ctx := context.Background()
	load := func(path string) (hash string) {
		source, err := os.ReadFile(path)
		if err != nil {
			b.Fatal(err)
		}
		hash, err = rdb.ScriptLoad(ctx, string(source)).Result()
		if err != nil {
			b.Fatal(err)
		}
		return hash
	}
	must := func(b *testing.B, err error) {
		if err != nil {
			b.Fatal(err)
		}
	}
	unlock4 := load("../v4_lua/unlock.lua")
	lock6, unlock6 := load("../v6_watchdog/lock.lua"), load("../v6_watchdog/unlock.lua")
	key4, key6, owner := locktest.Key(b), locktest.Key(b), uuid.NewString()
	return map[string]func(*testing.B){
		"v4_lua": func(b *testing.B) {
			must(b, rdb.SetNX(ctx, key4, owner, benchTTL).Err())
			must(b, rdb.EvalSha(ctx, unlock4, []string{key4}, owner).Err())
		},
		"v6_watchdog": func(b *testing.B) {
			must(b, rdb.EvalSha(ctx, lock6, []string{key6}, owner, benchTTL.Milliseconds()).Err())
			must(b, rdb.EvalSha(ctx, unlock6, []string{key6}, owner).Err())
		},
	}
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}
