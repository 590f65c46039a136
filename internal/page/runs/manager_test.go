package runs_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"oversell/internal/backend/backendtest"
	"oversell/internal/backend/lockservers"
	"oversell/internal/catalog"
	"oversell/internal/figures"
	"oversell/internal/page/runs"
	"oversell/internal/present"
	"oversell/internal/stock"
)

// The last point of a row agrees with the finished row, and violations were shown.
func TestRunIsShownAsItIs(t *testing.T) {
	m, p := open(t, nil)
	s := m.Defaults()
	s.Requests, s.Stock = 300, 20
	id := start(t, m, s)
	_, told := until(t, m.Subscribe(), ended(id))
	run, err := m.Get(id)
	if err != nil {
		t.Fatal(err)
	}
	if run.State != runs.Done || run.Error != "" || len(run.Rows) != 2 || len(run.Samples) != 2 ||
		run.RowsDone != run.RowsAll || run.Now != nil {
		t.Fatalf("the run came to %+v", run)
	}
	for i, row := range run.Rows {
		if told[i].ID != id || told[i].N != i+1 || !reflect.DeepEqual(told[i].Row, row) {
			t.Errorf("told of row %d was %+v; want %+v", i+1, told[i], row)
		}
		points := run.Samples[i].Points
		last := points[len(points)-1]
		if last.Sold != row.Sold || last.Remaining != row.Stock-row.Sold+row.LostUpdates ||
			last.MaxHolders != row.MaxHolders ||
			last.Served != row.Served || last.SoldOut != row.SoldOut || last.Waiting != 0 {
			t.Errorf("the last point of %s is %+v; the row %+v", row.Strategy, last, row)
		}
	}
	none, held := run.Rows[0], run.Rows[1]
	if none.Verdict != figures.Oversold || held.Verdict != figures.OK || held.Sold != 20 {
		t.Errorf("none: %s; v6_watchdog: %s, sold %d of 20", none.Verdict, held.Verdict, held.Sold)
	}
	if run.Oversold != none.Oversold || !run.AsExpected {
		t.Errorf("the summary is %+v", run.Summary)
	}
	p.CheckEnded(t)
}

func TestBrokenInvariantIsShownWhileTheRowGoesOn(t *testing.T) {
	m, _ := open(t, nil)
	s := m.Defaults()
	s.Strategies, s.Requests, s.Stock, s.Work = []string{"none"}, 2000, 50, 5000
	s.Conditions = []catalog.Condition{catalog.Slow} // for whom the row waits when all is sold
	id := start(t, m, s)
	e, _ := until(t, m.Subscribe(), func(e runs.Event) bool {
		return ended(id)(e) || e.Run.Now != nil && len(e.Run.Now.Broken) == 2
	})
	now := e.Run.Now
	if now == nil {
		t.Fatal("the run has ended, and nothing was shown as broken")
	}
	if now.Point.Sold <= 50 || now.Point.MaxHolders <= 1 || now.Broken[0].Invariant == now.Broken[1].Invariant {
		t.Errorf("shown as broken: %+v with %+v", now.Broken, now.Point)
	}
	for _, b := range now.Broken {
		if b.At > now.Point.T || b.Text == "" {
			t.Errorf("%+v at %v ms", b, now.Point.T)
		}
	}
}

// On the shop's own backends, the stock of a run is beside the shop's and is removed with
// the run. The orders in the database agree with the rows.
func TestRunOnTheBackendsOfTheShop(t *testing.T) {
	on := runs.Backends{RedisURL: backendtest.Redis(t, "embedded"), DBURL: backendtest.Database(t, "embedded")}
	m, p := open(t, func(c *runs.Config) { c.Shop = &on })
	s := m.Defaults()
	s.Backend, s.Requests, s.Stock = runs.Shop, 200, 20
	s.Conditions, s.TTL = []catalog.Condition{catalog.Calm, catalog.Slow}, 5000 // slow holders leave time to count
	id := start(t, m, s)
	sub := m.Subscribe()
	_, rows := until(t, sub, func(e runs.Event) bool { return e.Run != nil && e.Run.RowsDone >= 2 })
	db := backendtest.DialDatabase(t, on.DBURL)
	for _, r := range rows[:2] {
		var sold int64
		err := db.Model(&stock.Order{}).Where("sku = ?", fmt.Sprintf("bench-%s-%d", id, r.N)).
			Select("COALESCE(SUM(quantity), 0)").Scan(&sold).Error
		if err != nil {
			t.Fatal(err)
		}
		if r.Row.Sold != sold || sold < 20 {
			t.Errorf("%s: the row says %d, the database %d", r.Row.Strategy, r.Row.Sold, sold)
		}
	}
	if err := m.Stop(id); err != nil {
		t.Error(err)
	}
	until(t, sub, ended(id))
	var left int64
	if err := db.Model(&stock.Item{}).Count(&left).Error; err != nil || left != 0 {
		t.Errorf("%d items are left: %v", left, err)
	}
	p.CheckEnded(t)
}

// Of the shop's own servers, a run starts those that its strategies need.
func TestRunStartsTheServersOfTheShopThatItNeeds(t *testing.T) {
	backendtest.System(t)
	dir := t.TempDir()
	specs := lockservers.Specs{Redlock: "embedded", Etcd: "local"}
	servers, err := lockservers.New(t.Context(), specs, catalog.NeedsNodes, catalog.NeedsEtcd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := servers.Close(); err != nil {
			t.Error(err)
		}
	})
	on := runs.Backends{
		RedisURL: backendtest.Redis(t, "embedded"), DBURL: backendtest.Database(t, "embedded"), Servers: servers,
	}
	m, p := open(t, func(c *runs.Config) { c.Shop = &on })
	t.Setenv("TMPDIR", dir)
	for _, tt := range []struct {
		strategy string
		etcds    int // that have started by then
	}{{"v6_watchdog", 0}, {"redlock", 0}, {"etcd", 1}} {
		s := small(m)
		s.Backend, s.Strategies, s.Conditions = runs.Shop, []string{tt.strategy}, []catalog.Condition{catalog.Calm}
		id := start(t, m, s)
		e, _ := until(t, m.Subscribe(), ended(id))
		if e.Run.State != runs.Done || !e.Run.AsExpected {
			t.Errorf("%s came to %s, %q", tt.strategy, e.Run.State, e.Run.Error)
		}
		started, err := filepath.Glob(filepath.Join(dir, "oversell-*", "data", "member"))
		if err != nil || len(started) != tt.etcds {
			t.Errorf("after %s: %v, %v; want %d", tt.strategy, started, err, tt.etcds)
		}
	}
	p.CheckEnded(t)
}

func TestStopKeepsWhatIsFinished(t *testing.T) {
	m, p := open(t, nil)
	s := long(m)
	s.Strategies = []string{"none", "v6_watchdog"}
	id := start(t, m, s)
	sub := m.Subscribe()
	until(t, sub, func(e runs.Event) bool { return loaded(e) && e.Run.Now.Row == 2 })
	if err := m.Stop(id); err != nil {
		t.Fatal(err)
	}
	e, rows := until(t, sub, ended(id))
	if e.Run.State != runs.Stopped || e.Run.RowsDone != 1 || e.Run.RowsAll != 2 || e.Run.Now != nil ||
		e.Run.Error != "" {
		t.Errorf("stopped, it is %+v; told of %d rows more", e.Run, len(rows))
	}
	p.CheckEnded(t)
	if err := m.Stop(id); !errors.Is(err, runs.ErrNotRunning) {
		t.Errorf("stopped once more: %v", err)
	}
	if err := m.Stop("nobody"); !errors.Is(err, runs.ErrUnknownRun) {
		t.Errorf("another one stopped: %v", err)
	}
	var text bytes.Buffer
	err := m.Report(id, &text, present.Style{})
	if err != nil || !strings.Contains(text.String(), "Not finished: 1 of 2 rows") {
		t.Errorf("the report of what is finished: %v, %d bytes", err, text.Len())
	}
}

func TestOneRunAtATime(t *testing.T) {
	m, _ := open(t, nil)
	id := start(t, m, long(m))
	if _, err := m.Start(small(m)); !errors.Is(err, runs.ErrBusy) || !strings.Contains(err.Error(), id) {
		t.Errorf("got %v, want %v and which", err, runs.ErrBusy)
	}
	if err := m.Report(id, new(bytes.Buffer), present.Style{}); !errors.Is(err, runs.ErrNoReport) {
		t.Errorf("a report of nothing: %v", err)
	}
	if err := m.Stop(id); err != nil {
		t.Error(err)
	}
	until(t, m.Subscribe(), ended(id))
	next := start(t, m, small(m))
	if e, _ := until(t, m.Subscribe(), ended(next)); e.Run.State != runs.Done {
		t.Errorf("the next one came to %+v", e.Run)
	}
}

// Closing the shop in the middle of a run waits for its processes.
func TestCloseInTheMiddleLeavesNothing(t *testing.T) {
	m, p := open(t, nil)
	id := start(t, m, long(m))
	sub := m.Subscribe()
	until(t, sub, loaded)
	m.Close()
	p.CheckEnded(t)
	if run, err := m.Get(id); err != nil || run.State != runs.Stopped {
		t.Errorf("closed, the run is %s, %v", run.State, err)
	}
	if _, err := sub.Next(t.Context()); !errors.Is(err, runs.ErrClosed) {
		t.Errorf("a subscriber is told %v", err)
	}
	if _, err := m.Start(small(m)); !errors.Is(err, runs.ErrClosed) {
		t.Errorf("a start after that: %v", err)
	}
	m.Close() // once more does no harm
}

func TestRunEndsWithItsTime(t *testing.T) {
	m, _ := open(t, func(c *runs.Config) {
		c.Limits = runs.DefaultLimits()
		c.Limits.Time = time.Millisecond
	})
	id := start(t, m, long(m))
	e, _ := until(t, m.Subscribe(), ended(id))
	if e.Run.State != runs.Failed || !strings.Contains(e.Run.Error, "1ms") {
		t.Errorf("it came to %s, %q", e.Run.State, e.Run.Error)
	}
}

// The error about an unreachable backend of the shop does not have its address.
func TestShopsBackendIsNotTold(t *testing.T) {
	m, _ := open(t, func(c *runs.Config) {
		c.Shop = &runs.Backends{RedisURL: "redis://:sesame@127.0.0.1:1", DBURL: backendtest.Database(t, "embedded")}
	})
	s := small(m)
	s.Backend = runs.Shop
	id := start(t, m, s)
	e, _ := until(t, m.Subscribe(), ended(id))
	if e.Run.State != runs.Failed || e.Run.Error == "" || strings.Contains(e.Run.Error, "127.0.0.1") {
		t.Errorf("it came to %s, %q", e.Run.State, e.Run.Error)
	}
}

func TestWhatCannotBeRunIsRefused(t *testing.T) {
	m, _ := open(t, nil)
	requests := fmt.Sprintf("1 to %d", m.Options().Limits.Requests.Max) // by how many files may be open here
	for _, tt := range []struct {
		change func(*runs.Settings)
		want   string
	}{
		{func(s *runs.Settings) { s.Requests = 20_001 }, requests},
		{func(s *runs.Settings) { s.Requests = 0 }, requests},
		{func(s *runs.Settings) { s.Stock = 10_001 }, "1 to 10000"},
		{func(s *runs.Settings) { s.Instances = 5 }, "1 to 4"},
		{func(s *runs.Settings) { s.TTL = 99 }, "100 to 10000"},
		{func(s *runs.Settings) { s.Work = 100_001 }, "0 to 100000"},
		{func(s *runs.Settings) { s.Strategies = nil }, "1 to 40"},
		{func(s *runs.Settings) { s.Strategies = []string{"v99"} }, `"v99"; allowed: none, local`},
		{func(s *runs.Settings) { s.Strategies = []string{strings.Repeat("x", 900)} }, "xxx..."},
		{func(s *runs.Settings) { s.Strategies = []string{"none", "none"} }, "none is named twice"},
		{func(s *runs.Settings) { s.Strategies = []string{"zookeeper"} }, "allowed: none"},
		{func(s *runs.Settings) { s.Strategies = []string{"sql_get_lock"} }, "allowed: none"},
		{func(s *runs.Settings) { s.Conditions = []catalog.Condition{catalog.Failover} }, "allowed: calm, slow, late"},
		{func(s *runs.Settings) {
			s.Conditions, s.Instances = []catalog.Condition{catalog.Crash}, 1
		}, "at least 2 instances"},
		{func(s *runs.Settings) { s.Backend = runs.Shop }, "allowed: embedded"},
		{func(s *runs.Settings) { s.Keeper = "me" }, "allowed: redis, database"},
		{func(s *runs.Settings) {
			s.Strategies, s.Keeper = []string{"lua_atomic"}, stock.InDatabase
		}, "it goes with redis"},
		{func(s *runs.Settings) {
			s.Strategies = []string{"none", "local", "watch", "v1_setnx", "v2_ttl", "v3_uuid", "v4_lua"}
			s.Conditions = []catalog.Condition{
				catalog.Calm, catalog.Slow, catalog.Late, catalog.Crash, catalog.Pause, catalog.Partition,
			}
		}, "is 42; allowed: 1 to 40"},
	} {
		s := m.Defaults()
		tt.change(&s)
		if _, err := m.Start(s); !errors.Is(err, runs.ErrSettings) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("got %v, want %v and %q", err, runs.ErrSettings, tt.want)
		}
	}
	if len(m.List()) != 0 {
		t.Error("something was started")
	}
}

// Several runs keep no more than the limits allow.
func TestOldRunsAreLetGo(t *testing.T) {
	m, p := open(t, func(c *runs.Config) {
		c.Limits = runs.DefaultLimits()
		c.Limits.Kept = 2
	})
	var ids []string
	for range 3 {
		id := start(t, m, small(m))
		ids = append(ids, id)
		until(t, m.Subscribe(), ended(id))
	}
	kept := m.List()
	if len(kept) != 2 || kept[0].ID != ids[2] || kept[1].ID != ids[1] {
		t.Errorf("%d are kept, the newest %s; want the last two of %v", len(kept), kept[0].ID, ids)
	}
	if _, err := m.Get(ids[0]); !errors.Is(err, runs.ErrUnknownRun) {
		t.Errorf("the one before them: %v", err)
	}
	p.CheckEnded(t)
}

var errGone = errors.New("gone")

func TestEventsComeInBatches(t *testing.T) {
	m, _ := open(t, nil)
	s := m.Defaults()
	s.Strategies, s.Work = []string{"v6_watchdog"}, 5000
	id := start(t, m, s)
	sub := m.Subscribe()
	began, n := m.List()[0].Started, 0
	e, _ := until(t, sub, func(e runs.Event) bool { n++; return ended(id)(e) })
	if took := e.Run.Ended.Sub(began); float64(n) > took.Seconds()*10+2 {
		t.Errorf("%d events in %v; want 10 a second at most", n, took)
	}
}

// Next returns the cancellation, even when something is new.
func TestSubscriberWhoHasGoneIsToldNothing(t *testing.T) {
	m, _ := open(t, nil)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errGone)
	for range 50 { // of two things that are ready, a select takes either
		if e, err := m.Subscribe().Next(ctx); !errors.Is(err, errGone) {
			t.Fatalf("a subscriber that has gone gets %+v, %v", e, err)
		}
	}
}

// A run and other work that uses the processor exclude each other.
func TestNothingBesideARun(t *testing.T) {
	m, _ := open(t, nil)
	leave, err := m.Occupy("a search")
	if err != nil {
		t.Fatal(err)
	}
	also, err := m.Occupy("the lab")
	if err != nil {
		t.Fatal(err)
	}
	leave()
	leave() // is no other's
	if _, err := m.Start(small(m)); !errors.Is(err, runs.ErrOccupied) || !strings.Contains(err.Error(), "the lab") {
		t.Errorf("beside the lab a run starts with %v", err)
	}
	also()
	id := start(t, m, long(m))
	if _, err := m.Occupy("a search"); !errors.Is(err, runs.ErrBusy) || !strings.Contains(err.Error(), id) {
		t.Errorf("beside a run a search starts with %v", err)
	}
	m.Close()
	if _, err := m.Occupy("a search"); !errors.Is(err, runs.ErrClosed) {
		t.Errorf("when all is closed a search starts with %v", err)
	}
}
