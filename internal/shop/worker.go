package shop

import (
	"cmp"
	"context"
	"time"

	"oversell/internal/stock"
)

// workerPoll is the interval at which a worker looks for accepted orders.
const workerPoll = 20 * time.Millisecond

// Work writes the accepted orders of shops on the same backends until ctx is cancelled, and serves
// no requests. Several workers may run, in addition to the shops' consumers or instead of them.
// From cfg it uses the backends, Stock, Consumer, Hurry, Ready and Logger. It calls Ready with ""
// when it begins.
func Work(ctx context.Context, cfg Config) error {
	cfg = cfg.withDefaults()
	rdb, hangUp, err := cfg.dial(ctx)
	if err != nil {
		return err
	}
	defer hangUp()
	service := stock.New(cfg.Stock)
	defer service.Close()
	cfg.logBackends(ctx, rdb)
	consumer := cfg.Consumer
	consumer.Poll = cmp.Or(consumer.Poll, workerPoll)
	cfg.Logger.Info("writing accepted orders", "instance", cfg.Instance)
	if cfg.Ready != nil {
		cfg.Ready("")
	}
	stop := consume(ctx, cfg.Hurry, service, consumer, func() time.Duration { return finishTime })
	<-ctx.Done()
	cfg.Logger.Info("closing")
	stop()
	return nil
}
