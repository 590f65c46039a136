package lock

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"oversell/internal/backend/backendtest"
	"oversell/internal/locks/locktest"
)

// BenchmarkWakeUp compares two ways for a waiter to sleep and be woken by a
// script: a blocking pop and a subscription. It reports how long it takes from
// the script's call until the sleeper is awake.
func BenchmarkWakeUp(b *testing.B) {
	rdb := backendtest.DialRedis(b, backendtest.Redis(b, "local"))
	ctx, name := b.Context(), locktest.Key(b)
	for _, way := range []struct {
		name, script string
		sleep        func() (sleep func() error, close func() error)
	}{
		{"blpop", `return redis.call('RPUSH', KEYS[1], 'held')`, func() (func() error, func() error) {
			return func() error { return rdb.BLPop(ctx, time.Minute, name).Err() }, func() error { return nil }
		}},
		{"pubsub", `return redis.call('PUBLISH', KEYS[1], 'held')`, func() (func() error, func() error) {
			sub := rdb.Subscribe(ctx, name)
			if _, err := sub.Receive(ctx); err != nil {
				b.Fatal(err)
			}
			return func() error { _, err := sub.ReceiveMessage(ctx); return err }, sub.Close
		}},
	} {
		b.Run("wake="+way.name, func(b *testing.B) {
			sleep, closeIt := way.sleep()
			script, asleep, awake := redis.NewScript(way.script), make(chan bool), make(chan error)
			go func() {
				for range asleep {
					awake <- sleep()
				}
			}()
			var took time.Duration
			for b.Loop() {
				asleep <- true
				time.Sleep(200 * time.Microsecond) // it is about to be
				start := time.Now()
				if err := script.Run(ctx, rdb, []string{name}).Err(); err != nil {
					b.Fatal(err)
				}
				if err := <-awake; err != nil {
					b.Fatal(err)
				}
				took += time.Since(start)
			}
			close(asleep)
			if err := closeIt(); err != nil {
				b.Error(err)
			}
			b.ReportMetric(float64(took.Nanoseconds())/float64(b.N), "wake-ns")
		})
	}
}
