package shop

import (
	"context"
	"time"

	"oversell/internal/backend"
	"oversell/internal/stock"
)

// workerPoll is how often a worker looks for accepted orders.
const workerPoll = 20 * time.Millisecond

// Work writes the accepted orders of shops on the same backends until ctx is cancelled, and
// serves no requests. Several workers may run, beside shops or instead of their consumers.
// Of cfg it uses the backends, Consumer, Mixed and Logger; it calls Ready with "" once it
// writes.
func Work(ctx context.Context, cfg Config) error {
	cfg = cfg.withDefaults()
	watch := new(backend.RedisWatch)
	rdb, err := watch.Dial(ctx, cfg.RedisURL, poolSize)
	if err != nil {
		return err
	}
	defer closing(cfg.Logger, "the connections to Redis", rdb.Close)
	if cfg.Hook != nil {
		rdb.AddHook(cfg.Hook)
	}
	db, err := backend.DialDatabase(ctx, cfg.DBURL)
	if err != nil {
		return err
	}
	defer closing(cfg.Logger, "the connections to the database", func() error { return closeDB(db) })
	if err := stock.Migrate(ctx, db); err != nil {
		return err
	}
	service := stock.New(stock.Config{DB: db, Redis: rdb, Changes: watch.Changes, History: backend.RedisHistory(rdb), Mixed: cfg.Mixed, Logger: cfg.Logger})
	defer service.Close()
	logBackends(ctx, cfg, rdb, db)
	consumer := cfg.Consumer
	if consumer.Poll == 0 {
		consumer.Poll = workerPoll
	}
	finish, end := context.WithCancel(cfg.Hurry)
	defer end()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(finishTime, end) })()
	consumer.Finish = finish
	cfg.Logger.Info("writing accepted orders", "instance", cfg.Instance)
	if cfg.Ready != nil {
		cfg.Ready("")
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		service.Consume(ctx, consumer)
	}()
	<-ctx.Done()
	cfg.Logger.Info("closing")
	<-done
	return nil
}
