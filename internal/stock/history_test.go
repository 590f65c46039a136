package stock_test

import (
	"errors"
	"testing"

	"oversell/internal/backend"
	"oversell/internal/backend/backendtest"
	"oversell/internal/backend/local"
	"oversell/internal/stock"
)

// restartable is a site whose Redis can be restarted with the data that it saved.
type restartable struct {
	*site
	server *local.Redis
}

func newRestartable(t *testing.T) restartable {
	t.Helper()
	t.Parallel()
	server := backendtest.RestartableRedis(t)
	db := backendtest.DialDatabase(t, backendtest.Database(t, kind))
	return restartable{newSite(t, backendtest.DialRedis(t, server.URL), db), server}
}

// process starts an instance with its own connections.
func (s restartable) process(t *testing.T, adjust func(*stock.Config)) *stock.Service {
	t.Helper()
	watch := new(backend.RedisWatch)
	rdb, err := watch.Dial(t.Context(), s.server.URL, 0)
	must(t, err)
	t.Cleanup(func() { _ = rdb.Close() })
	own := *s.site
	own.rdb = rdb
	return own.instance(t, func(cfg *stock.Config) {
		cfg.Changes = watch.Changes
		if adjust != nil {
			adjust(cfg)
		}
	})
}

// save makes Redis save its data.
func (s restartable) save(t *testing.T) {
	t.Helper()
	must(t, s.rdb.Save(t.Context()).Err())
}

// restart kills Redis and starts it again with the data that it last saved.
func (s restartable) restart(t *testing.T) {
	t.Helper()
	s.server.Kill()
	must(t, s.server.Restart(t.Context()))
}

// After Redis restarts with an older stock, no process sells units that are already sold: neither an
// idle process, whose pool reconnects silently, nor a new process.
func TestOlderStockIsNoticedByEveryProcess(t *testing.T) {
	for name, idle := range map[string]bool{"idle": true, "new": false} {
		t.Run(name, func(t *testing.T) {
			s := newRestartable(t)
			for _, strategy := range []string{"lua_atomic", "lua_batch", "watch", "v4_lua", "v9_cohort"} {
				s.sku = newSKU()
				busy := s.process(t, nil)
				s.put(t, busy, 10)
				rush(t, s.site, 3, strategy, busy)
				s.save(t)
				rush(t, s.site, 3, strategy, busy)
				var other *stock.Service
				if idle {
					other = s.process(t, nil)
					rush(t, s.site, 1, strategy, other) // this process has just checked the stock in Redis
				} else {
					rush(t, s.site, 1, strategy, busy)
				}
				s.restart(t)
				if !idle {
					other = s.process(t, nil)
				}
				if sold, soldOut, _ := rush(t, s.site, 10, strategy, other); sold != 3 || soldOut != 7 {
					t.Errorf("%s: %d sold and %d refused, want the last 3 and 7", strategy, sold, soldOut)
				}
				wantStock(t, s.audit(t, other), 10, 0, 10, 10)
			}
		})
	}
}

// Units that were taken from an older stock are not sold, even if the buyer had read the current stock.
func TestUnitsOfAnOlderStockAreNotSold(t *testing.T) {
	s := newRestartable(t)
	for _, strategy := range []string{"lua_atomic", "lua_batch", "v4_lua", "none"} {
		s.sku = newSKU()
		inside, gate := make(chan struct{}), make(chan struct{})
		late := s.process(t, func(cfg *stock.Config) {
			withMixed(cfg)
			withWork(park(inside, gate))(cfg)
		})
		other := s.process(t, withMixed)
		s.put(t, other, 3)
		s.save(t)
		rush(t, s.site, 2, "lua_atomic", other)
		sold := order(t.Context(), late, s.request(strategy, ""))
		<-inside
		rush(t, s.site, 1, "lua_atomic", other)
		s.restart(t)
		close(gate)
		if o := <-sold; !errors.Is(o.err, stock.ErrSoldOut) {
			t.Errorf("%s: the late buyer got %v, want %v", strategy, o.err, stock.ErrSoldOut)
		}
		wantStock(t, s.audit(t, other), 3, 0, 3, 3)
	}
}
