package runs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"oversell/internal/backend/backendtest"
	"oversell/internal/backend/lockservers"
	"oversell/internal/catalog"
	"oversell/internal/figures"
	"oversell/internal/message"
	"oversell/internal/present"
	"oversell/internal/stock"
)

// The last point of a row agrees with the finished row, and violations are shown.
func TestRunIsShownAsItIs(t *testing.T) {
	m, p := open(t, nil)
	s := m.Defaults()
	s.Requests, s.Stock = 300, 20
	id := start(t, m, s)
	_, told := until(t, m.Subscribe(), ended(id))
	run, err := m.Get(id)
	must(t, err)
	if run.State != Done || run.Error != "" || len(run.Rows) != 2 || len(run.Samples) != 2 ||
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

// On the shop's own backends, the stock of a run is separate from the shop's stock, and is removed
// with the run. The orders in the database agree with the rows.
func TestRunOnTheBackendsOfTheShop(t *testing.T) {
	on := Backends{RedisURL: backendtest.Redis(t, "embedded"), DBURL: backendtest.Database(t, "embedded")}
	m, p := open(t, &on)
	s := m.Defaults()
	s.Backend, s.Requests, s.Stock = Shop, 200, 20
	s.Strategies, s.TTL = []string{"v6_watchdog"}, 5000
	s.Conditions = []catalog.Condition{catalog.Calm, catalog.Slow} // slow holders leave time to count them
	id := start(t, m, s)
	sub := m.Subscribe()
	_, rows := until(t, sub, func(e Event) bool { return e.Run != nil && e.Run.RowsDone >= 1 })
	db := backendtest.DialDatabase(t, on.DBURL)
	for _, r := range rows[:1] {
		var sold int64
		err := db.Model(&stock.Order{}).Where("sku = ?", fmt.Sprintf("bench-%s-%d", id, r.N)).
			Select("COALESCE(SUM(quantity), 0)").Scan(&sold).Error
		must(t, err)
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

// A run starts those of the shop's lock servers that its strategies need.
func TestRunStartsTheServersOfTheShopThatItNeeds(t *testing.T) {
	backendtest.System(t)
	dir := t.TempDir()
	specs := lockservers.Specs{Redlock: "embedded", Etcd: "local"}
	servers, err := lockservers.New(t.Context(), specs, catalog.NeedsNodes, catalog.NeedsEtcd)
	must(t, err)
	backendtest.CloseAfter(t, servers)
	on := Backends{
		RedisURL: backendtest.Redis(t, "embedded"), DBURL: backendtest.Database(t, "embedded"), Servers: servers,
	}
	m, p := open(t, &on)
	t.Setenv("TMPDIR", dir)
	for _, tt := range []struct {
		strategy string
		etcds    int // started up to the end of this run
	}{{"v6_watchdog", 0}, {"redlock", 0}, {"etcd", 1}} {
		s := small(m)
		s.Backend, s.Strategies, s.Conditions = Shop, []string{tt.strategy}, []catalog.Condition{catalog.Calm}
		id := start(t, m, s)
		e, _ := until(t, m.Subscribe(), ended(id))
		if e.Run.State != Done || !e.Run.AsExpected {
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
	m := pretending(t)
	var log bytes.Buffer
	m.cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
	measure := m.measure
	m.measure = func(ctx context.Context, r *run) error { return errors.Join(measure(ctx, r), errGone) }
	id := start(t, m, long(m))
	sub := m.Subscribe()
	until(t, sub, func(e Event) bool { return e.Run != nil && e.Run.Now != nil && e.Run.Now.Row == 2 })
	must(t, m.Stop(id))
	e, rows := until(t, sub, ended(id))
	if e.Run.State != Stopped || e.Run.RowsDone != 1 || e.Run.RowsAll != 2 || e.Run.Now != nil || e.Run.Error != "" {
		t.Errorf("stopped, it is %+v; told of %d rows more", e.Run, len(rows))
	}
	if text := log.String(); !strings.Contains(text, "level=INFO") || !strings.Contains(text, errGone.Error()) {
		t.Errorf("an error beside the stop is logged as %q", text)
	}
	checkRefused(t, m.Stop(id), ErrNotRunning, id)
	checkRefused(t, m.Stop("nobody"), ErrUnknownRun, "nobody")
	var text bytes.Buffer
	if err := m.Report(id, &text, present.Style{}); err != nil || !strings.Contains(text.String(), "none") ||
		strings.Contains(text.String(), endless) {
		t.Errorf("the report of what is finished: %v, %d bytes", err, text.Len())
	}
}

func TestOneRunAtATime(t *testing.T) {
	m := pretending(t)
	s := long(m)
	s.Strategies = s.Strategies[1:]
	id := start(t, m, s)
	_, err := m.Start(small(m))
	checkRefused(t, err, ErrBusy, id)
	checkRefused(t, m.Report(id, new(bytes.Buffer), present.Style{}), ErrNoReport, id)
	must(t, m.Stop(id))
	until(t, m.Subscribe(), ended(id))
	next := start(t, m, small(m))
	if e, _ := until(t, m.Subscribe(), ended(next)); e.Run.State != Done {
		t.Errorf("the next one came to %+v", e.Run)
	}
}

// Closing the manager in the middle of a run waits until the processes of the run have ended.
func TestCloseInTheMiddleLeavesNothing(t *testing.T) {
	m, p := open(t, nil)
	id := start(t, m, long(m))
	sub := m.Subscribe()
	until(t, sub, loaded)
	m.Close()
	p.CheckEnded(t)
	if run, err := m.Get(id); err != nil || run.State != Stopped {
		t.Errorf("closed, the run is %s, %v", run.State, err)
	}
	if _, err := sub.Next(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("a subscriber is told %v", err)
	}
	if _, err := m.Start(small(m)); !errors.Is(err, ErrClosed) {
		t.Errorf("a start after that: %v", err)
	}
	m.Close() // a second call has no effect
}

func TestRunEndsWithItsTime(t *testing.T) {
	m := pretending(t)
	m.limits.Time = time.Millisecond
	id := start(t, m, long(m))
	e, _ := until(t, m.Subscribe(), ended(id))
	if e.Run.State != Failed || !strings.Contains(e.Run.Error, "1ms") || e.Run.Message.String() != e.Run.Error {
		t.Errorf("it came to %s, %q, %q", e.Run.State, e.Run.Error, e.Run.Message)
	}
}

// If the shop's backend cannot be reached, the error does not contain its address.
func TestShopsBackendIsNotTold(t *testing.T) {
	m, _ := open(t, &Backends{RedisURL: "redis://:sesame@127.0.0.1:1", DBURL: backendtest.Database(t, "embedded")})
	s := small(m)
	s.Backend = Shop
	id := start(t, m, s)
	e, _ := until(t, m.Subscribe(), ended(id))
	if e.Run.State != Failed || e.Run.Error == "" || strings.Contains(e.Run.Error, "127.0.0.1") {
		t.Errorf("it came to %s, %q", e.Run.State, e.Run.Error)
	}
}

func TestWhatCannotBeRunIsRefused(t *testing.T) {
	m, _ := open(t, nil)
	requests := fmt.Sprintf("1 to %d", m.Options().Limits.Requests.Max) // depends on the limit of open files
	for _, tt := range []struct {
		change func(*Settings)
		want   string
	}{
		{func(s *Settings) { s.Requests = 20_001 }, requests},
		{func(s *Settings) { s.Requests = 0 }, requests},
		{func(s *Settings) { s.Stock = 10_001 }, "1 to 10000"},
		{func(s *Settings) { s.Instances = 5 }, "1 to 4"},
		{func(s *Settings) { s.TTL = 99 }, "100 to 10000"},
		{func(s *Settings) { s.Work = 100_001 }, "0 to 100000"},
		{func(s *Settings) { s.Strategies = nil }, "1 to 40"},
		{func(s *Settings) { s.Strategies = []string{"v99"} }, `"v99"; allowed: none, local`},
		{func(s *Settings) { s.Strategies = []string{strings.Repeat("x", 900)} }, "xxx..."},
		{func(s *Settings) { s.Strategies = []string{"none", "none"} }, "none is named twice"},
		{func(s *Settings) { s.Strategies = []string{"zookeeper"} }, "allowed: none"},
		{func(s *Settings) { s.Strategies = []string{"sql_get_lock"} }, "allowed: none"},
		{func(s *Settings) { s.Conditions = []catalog.Condition{catalog.Failover} }, "allowed: calm, slow, late"},
		{func(s *Settings) { s.Conditions = []catalog.Condition{catalog.Calm, catalog.Calm} }, "calm is named twice"},
		{func(s *Settings) {
			s.Conditions, s.Instances = []catalog.Condition{catalog.Crash}, 1
		}, "at least 2 instances"},
		{func(s *Settings) { s.Instances, s.Requests = 4, 3 }, "4"},
		{func(s *Settings) { s.Backend = "moon" }, "allowed: embedded"},
		{func(s *Settings) { s.Backend = Shop }, "allowed: embedded"},
		{func(s *Settings) { s.Keeper = "me" }, "allowed: redis, database"},
		{func(s *Settings) {
			s.Strategies, s.Keeper = []string{"lua_atomic"}, stock.InDatabase
		}, "it goes with redis"},
		{func(s *Settings) {
			s.Strategies = []string{"none", "local", "watch", "v1_setnx", "v2_ttl", "v3_uuid", "v4_lua"}
			s.Conditions = []catalog.Condition{
				catalog.Calm, catalog.Slow, catalog.Late, catalog.Crash, catalog.Pause, catalog.Partition,
			}
		}, "is 42; allowed: 1 to 40"},
	} {
		s := m.Defaults()
		tt.change(&s)
		_, err := m.Start(s)
		checkRefused(t, err, ErrSettings, tt.want)
	}
	if len(m.List()) != 0 {
		t.Error("something was started")
	}
}

// The manager deletes old runs so that it keeps no more than the limits allow.
func TestOldRunsAreLetGo(t *testing.T) {
	m := pretending(t)
	m.limits.Kept = 2
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
	if _, err := m.Get(ids[0]); !errors.Is(err, ErrUnknownRun) {
		t.Errorf("the one before them: %v", err)
	}
}

var errGone = errors.New("gone")

func TestEventsComeInBatches(t *testing.T) {
	m := pretending(t)
	id := start(t, m, long(m))
	sub := m.Subscribe()
	until(t, sub, func(e Event) bool { return e.Run != nil && e.Run.Now != nil && e.Run.Now.Row == 2 })
	began, n := time.Now(), 0
	changes := make(chan struct{})
	go func() {
		defer close(changes)
		for range 300 {
			m.update(func() {})
			time.Sleep(time.Millisecond)
		}
		_ = m.Stop(id) // if the run has already ended, the wait below ends as well
	}()
	until(t, sub, func(e Event) bool { n++; return ended(id)(e) })
	<-changes
	if took := time.Since(began); float64(n) > took.Seconds()*10+2 {
		t.Errorf("%d events in %v; want 10 a second at most", n, took)
	}
}

// Next returns the cancellation even if a change is pending.
func TestSubscriberWhoHasGoneIsToldNothing(t *testing.T) {
	m, _ := open(t, nil)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errGone)
	for range 50 { // a select with two ready channels takes either
		if e, err := m.Subscribe().Next(ctx); !errors.Is(err, errGone) {
			t.Fatalf("a subscriber that has gone gets %+v, %v", e, err)
		}
	}
}

// A run cannot start beside other work that uses the processor, nor the other way round.
func TestNothingBesideARun(t *testing.T) {
	m := pretending(t)
	leave, err := m.Occupy(message.Text("the lab, for the matrix"))
	must(t, err)
	also, err := m.Occupy(message.Newf("a search for a schedule of %s", "none"))
	must(t, err)
	leave()
	_, err = m.Start(small(m))
	checkRefused(t, err, ErrOccupied, "a search for a schedule of none")
	also()
	id := start(t, m, long(m))
	_, err = m.Occupy(message.Text("the lab"))
	checkRefused(t, err, ErrBusy, id)
	m.Close()
	_, err = m.Occupy(message.Text("the lab"))
	checkRefused(t, err, ErrClosed, "")
}
