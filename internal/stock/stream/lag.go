package stream

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// lagBuckets is the number of buckets that the histogram has for each doubling of the lag.
const lagBuckets = 8

// lagBucket returns the bucket for the time that an order took to be written.
func lagBucket(lag time.Duration) int {
	return int(math.Ceil(math.Log2(max(1, float64(lag)/float64(time.Millisecond))) * lagBuckets))
}

// recordLag records how long orders waited between their acceptance and the given time, at which
// they were written. The two times come from different clocks: that of the accepting process and
// that of the writing process.
func (s Streams) recordLag(ctx context.Context, sku string, written []Entry, at time.Time) error {
	k, counts := Keys{sku}, make(map[string]map[int]int64)
	for _, e := range written {
		if counts[e.SaleID] == nil {
			counts[e.SaleID] = make(map[int]int64)
		}
		counts[e.SaleID][lagBucket(at.Sub(e.AcceptedAt))]++
	}
	_, err := s.Redis.Pipelined(ctx, func(p redis.Pipeliner) error {
		for saleID, buckets := range counts {
			for bucket, n := range buckets {
				p.HIncrBy(ctx, k.Lag(saleID), strconv.Itoa(bucket), n)
			}
			p.PExpire(ctx, k.Lag(saleID), KeysKept)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("recording when orders of %s were written: %w", sku, err)
	}
	return nil
}

// Lag99 returns the time within which 99 of 100 accepted orders of a sale were written, or 0 if
// none was. It is at most about 9 % too long.
func (s Streams) Lag99(ctx context.Context, sku, saleID string) (time.Duration, error) {
	found, err := s.Redis.HGetAll(ctx, Keys{sku}.Lag(saleID)).Result()
	if err != nil {
		return 0, fmt.Errorf("reading when orders of %s were written: %w", sku, err)
	}
	counts, total := make(map[int]int64), int64(0)
	for name, text := range found {
		bucket, err := strconv.Atoi(name)
		if err != nil {
			continue // not a field of ours
		}
		n, _ := strconv.ParseInt(text, 10, 64)
		counts[bucket], total = n, total+n
	}
	var below int64
	for _, bucket := range slices.Sorted(maps.Keys(counts)) {
		if below += counts[bucket]; below*100 >= total*99 {
			return time.Duration(math.Exp2(float64(bucket)/lagBuckets) * float64(time.Millisecond)), nil
		}
	}
	return 0, nil
}
