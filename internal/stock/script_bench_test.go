package stock

import (
	"fmt"
	"regexp"
	"strconv"
	"testing"

	"github.com/redis/go-redis/v9"

	"oversell/internal/backend/backendtest"
)

// BenchmarkOneItem is what one Redis can do for one item: take.lua for one buyer at a time, with
// and without a pipeline, and takeall.lua for a batch. The iterations are buyers. µs/buyer is the
// time in the script that Redis itself counted: it runs one script at a time, so a million divided
// by it is the most buyers a second of one primary, without reading and writing its connections.
func BenchmarkOneItem(b *testing.B) {
	rdb := backendtest.DialRedis(b, backendtest.Redis(b, "local"))
	each := func(b *testing.B, n int) error {
		_, err := rdb.Pipelined(b.Context(), func(p redis.Pipeliner) error {
			for range n {
				takeScript.EvalSha(b.Context(), p, scriptKeys, "now", 60_000, 1, "")
			}
			return nil
		})
		return err
	}
	all := func(b *testing.B, n int) error {
		args := []any{"now", 60_000}
		for range n {
			args = append(args, 1, "")
		}
		return takeAllScript.EvalSha(b.Context(), rdb, scriptKeys, args...).Err()
	}
	for _, c := range []struct {
		name  string
		batch int
		take  func(b *testing.B, n int) error
	}{
		{"script", 1, each}, {"script", 64, each}, {"script", MaxBatch, each},
		{"batch", 64, all}, {"batch", MaxBatch, all},
	} {
		b.Run(fmt.Sprintf("take=%s/buyers=%d", c.name, c.batch), func(b *testing.B) {
			if err := rdb.MSet(b.Context(), saleAt, "now", stockAt, "1000000000000").Err(); err != nil {
				b.Fatal(err)
			}
			for _, s := range []*redis.Script{takeScript, takeAllScript} {
				if err := s.Load(b.Context(), rdb).Err(); err != nil {
					b.Fatal(err)
				}
			}
			if err := rdb.ConfigResetStat(b.Context()).Err(); err != nil {
				b.Fatal(err)
			}
			b.ResetTimer()
			for left := b.N; left > 0; left -= c.batch {
				if err := c.take(b, min(left, c.batch)); err != nil {
					b.Fatal(err)
				}
			}
			b.StopTimer()
			spent := scriptTime(b, rdb)
			b.ReportMetric(spent/float64(b.N), "µs/buyer")
			b.ReportMetric(float64(b.N)/spent*1e6, "most/s")
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "buyers/s")
		})
	}
}

var evalTime = regexp.MustCompile(`cmdstat_evalsha:calls=\d+,usec=(\d+)`)

// scriptTime is the time in scripts that a server has counted, in µs.
func scriptTime(b *testing.B, rdb redis.UniversalClient) float64 {
	b.Helper()
	info, err := rdb.Info(b.Context(), "commandstats").Result()
	if err != nil {
		b.Fatal(err)
	}
	found := evalTime.FindStringSubmatch(info)
	if found == nil {
		b.Fatalf("no time of EVALSHA in %q", info)
	}
	spent, err := strconv.ParseFloat(found[1], 64)
	if err != nil {
		b.Fatal(err)
	}
	return spent
}
