package runs

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"oversell/internal/bench"
	"oversell/internal/bench/report"
	"oversell/internal/catalog"
	"oversell/internal/figures"
	"oversell/internal/message"
)

// rowOf returns a finished row.
func rowOf(stock, sold, lost int64, holders int, wall float64) report.Row {
	return report.Row{
		Asked: report.Asked{Stock: stock}, Load: report.Load{MaxHolders: holders, Wall: wall},
		Audit: report.Audit{Sold: sold, LostUpdates: lost},
	}
}

// recording returns a recorder of a run before its first row.
func recording(t *testing.T) (*Manager, *recorder) {
	t.Helper()
	m := New(t.Context(), Config{})
	t.Cleanup(m.Close)
	r := &run{Summary: Summary{ID: "1", State: Running, Settings: m.Defaults()}}
	m.runs = append(m.runs, r)
	return m, &recorder{manager: m, run: r}
}

// shown returns the run as clients see it.
func shown(t *testing.T, m *Manager) Run {
	t.Helper()
	r, err := m.Get("1")
	must(t, err)
	return r
}

// A violation that is found only when the row is judged is shown too.
func TestFinishedRowIsShownAsItWasJudged(t *testing.T) {
	m, c := recording(t)
	c.Row(1, 2, "none", catalog.Calm)
	if now := shown(t, m).Now; now.Phase != Setup || now.Point != nil || len(now.Broken) != 0 {
		t.Errorf("before the requests are out: %+v", now)
	}
	c.Done(rowOf(100, 112, 15, 2, 7))
	r := shown(t, m)
	want := Point{T: 7, Holders: -1, MaxHolders: 2, Audited: 7, Remaining: 3, Sold: 112}
	if r.Now.Phase != Judged || *r.Now.Point != want || len(r.Now.Broken) != 2 || len(r.Rows) != 1 ||
		len(r.Samples[0].Points) != 1 {
		t.Errorf("in the end: %+v with %+v", r.Now, r.Now.Point)
	}
}

// More than one holder inside is not a violation of a strategy that refuses the write of every
// holder but one.
func TestOneHolderIsAskedOfThoseWhoPromiseIt(t *testing.T) {
	for name, broken := range map[string]int{
		"v6_watchdog": 1, "watch": 0, "lua_atomic": 0, "sql_version": 0, "sql_for_update": 1,
	} {
		m, c := recording(t)
		c.Row(1, 1, name, catalog.Calm)
		c.Done(rowOf(100, 100, 0, 5, 0))
		if got := shown(t, m).Now.Broken; len(got) != broken {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// A row that is repeated after a stall of the machine starts from the beginning.
func TestRowThatIsTriedAgainBeginsAnew(t *testing.T) {
	m, c := recording(t)
	c.Row(1, 2, "none", catalog.Calm)
	c.Done(rowOf(100, 100, 0, 0, 0))
	c.Row(2, 2, "v6_watchdog", catalog.Calm)
	m.update(func() { c.see(bench.Live{Elapsed: time.Millisecond, Waiting: 5}) })
	c.Row(2, 2, "v6_watchdog", catalog.Calm)
	r := shown(t, m)
	if len(r.Samples) != 2 || len(r.Samples[0].Points) != 1 || len(r.Samples[1].Points) != 0 ||
		r.Now.Phase != Setup || len(r.Rows) != 1 {
		t.Errorf("it is shown as %+v, and now %+v", r.Samples, r.Now)
	}
}

// The points of a row are in order, although its last outcome is earlier than the samples during its audit, and may be
// a little earlier than the last sample before it.
func TestPointsAreInOrder(t *testing.T) {
	for wall, want := range map[float64][]float64{1000: {900, 1000}, 899: {900, 900}} {
		m, c := recording(t)
		c.Row(1, 1, "none", catalog.Calm)
		m.update(func() {
			c.see(bench.Live{Elapsed: 900 * time.Millisecond, Waiting: 5})
			c.see(bench.Live{Elapsed: 1500 * time.Millisecond})
		})
		c.Done(rowOf(100, 100, 0, 0, wall))
		var at []float64
		for _, p := range shown(t, m).Samples[0].Points {
			at = append(at, p.T)
		}
		if !slices.Equal(at, want) {
			t.Errorf("points at %v; want %v", at, want)
		}
	}
}

// Two holders inside at the same time are reported before their requests are answered. Oversold
// units are reported while the row is still running.
func TestWhatIsBrokenIsToldWhileTheRowGoesOn(t *testing.T) {
	_, c := recording(t)
	c.Row(1, 1, "v6_watchdog", catalog.Pause)
	const ms = time.Millisecond
	for _, l := range []bench.Live{
		{Elapsed: 50 * ms, Holders: 1, MaxHolders: 1}, {Elapsed: 100 * ms, Holders: -1, MaxHolders: 1},
		{Elapsed: 150 * ms, Holders: 1, MaxHolders: 2}, {Elapsed: 200 * ms, MaxHolders: 2},
		{Elapsed: 250 * ms, MaxHolders: 2, Stock: figures.Stock{Sold: 101}, Audited: 240 * ms},
	} {
		c.manager.update(func() { c.see(l) })
	}
	want := []Broken{
		brokenBy(OneHolder, 150, message.Newf("%d holders inside at once", 2)),
		brokenBy(StockHolds, 240, message.Newf("%d units sold of %d", 101, 100)),
	}
	if got := shown(t, c.manager).Now.Broken; !reflect.DeepEqual(got, want) {
		t.Errorf("broken: %+v; want %+v", got, want)
	}
}

func brokenBy(what Invariant, at float64, said message.Message) Broken {
	return Broken{what, at, said.String(), said}
}

// The faults of a row, and the time from which no buyer was served, are stored with the row's
// samples. A fault that ended after the last sample also gets its end.
func TestWhatHappenedStaysWithTheRow(t *testing.T) {
	m, c := recording(t)
	const ms = time.Millisecond
	c.Row(1, 2, "v1_setnx", catalog.Crash)
	now := bench.Live{
		Elapsed: 1600 * ms, Waiting: 70, Faults: []bench.Fault{{Kind: bench.Stopped, At: 100}},
		Unserved: &bench.Unserved{Since: 95 * ms, At: 1595 * ms, Waiting: 70, Left: 38},
	}
	c.look = func() bench.Live { return now }
	m.update(func() { c.see(now) })
	now.Faults = []bench.Fault{{Kind: bench.Stopped, At: 100, Until: 1650}}
	c.Done(rowOf(50, 12, 0, 0, 0))
	c.Row(2, 2, "v2_ttl", catalog.Crash)

	r := shown(t, m)
	if len(r.Now.Broken)+len(r.Now.Faults) > 0 {
		t.Errorf("the next row begins with %+v, %+v", r.Now.Broken, r.Now.Faults)
	}
	broken := []Broken{brokenBy(Served, 1595,
		message.Newf("nobody was served after %.0f ms; %d requests waited for %d units", 95.0, 70, 38))}
	faults := []bench.Fault{{Kind: bench.Stopped, At: 100, Until: 1650}}
	if s := r.Samples[0]; !reflect.DeepEqual(s.Broken, broken) || !slices.Equal(s.Faults, faults) {
		t.Errorf("the row has %+v, %+v; want %+v, %+v", s.Broken, s.Faults, broken, faults)
	}
}

// Every option can be started when it is chosen alone.
func TestOptionsAreWhatCanBeStarted(t *testing.T) {
	m := New(t.Context(), Config{Shop: &Backends{RedisURL: "redis://127.0.0.1:1", DBURL: "u@tcp(127.0.0.1:1)/d"}})
	t.Cleanup(m.Close)
	o := m.Options()
	if len(o.Strategies) < 15 || len(o.Conditions) != 6 || len(o.Backends) != 2 {
		t.Fatalf("%d strategies, %d conditions, %d backends", len(o.Strategies), len(o.Conditions), len(o.Backends))
	}
	for _, strategy := range o.Strategies {
		for _, backend := range strategy.Backends {
			for _, keeper := range strategy.Keepers {
				s := m.Defaults()
				s.Strategies, s.Backend, s.Keeper = []string{strategy.Name}, backend, keeper
				if _, err := m.check(s); err != nil {
					t.Errorf("%s on %s with the stock in %s: %v", strategy.Name, backend, keeper, err)
				}
			}
		}
	}
}

// A long row keeps few points, spread from its beginning to its end.
func TestLongRowKeepsFewPoints(t *testing.T) {
	for _, n := range []int{1, 99, 100, 101, 250, 20_000} {
		var s Series
		for i := range n {
			s.add(Point{T: float64(i) * 50}, false)
		}
		s.add(Point{T: float64(n) * 50}, true)
		points := s.Points
		if len(points) > maxPoints || len(points) < min(n, maxPoints/3) || cap(points) > 2*maxPoints {
			t.Errorf("%d points of %d, room for %d", len(points), n+1, cap(points))
		}
		if points[0].T != 0 || points[len(points)-1].T != float64(n)*50 {
			t.Errorf("of %d points the first is at %v and the last at %v", n+1, points[0].T, points[len(points)-1].T)
		}
		widest := 0.0
		for i := range len(points) - 1 {
			gap := points[i+1].T - points[i].T
			if gap <= 0 {
				t.Fatalf("point %d comes %v ms after the one before", i+1, gap)
			}
			widest = max(widest, gap)
		}
		if even := float64(n) * 50 / float64(len(points)); widest > 4*even {
			t.Errorf("of %d points, two neighbours are %v ms apart; evenly it would be %v", n+1, widest, even)
		}
	}
}
