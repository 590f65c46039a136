package runs

import (
	"slices"
	"testing"

	"oversell/internal/bench/report"
	"oversell/internal/catalog"
)

// recording returns a recorder of a run that has not begun a row.
func recording(t *testing.T) (*Manager, *recorder) {
	t.Helper()
	m := New(t.Context(), Config{Catalog: catalog.Strategies()})
	t.Cleanup(m.Close)
	r := &run{id: "1", state: Running, settings: m.Defaults()}
	m.runs = append(m.runs, r)
	return m, &recorder{manager: m, run: r}
}

// shown is the run as it is shown.
func shown(t *testing.T, m *Manager) Run {
	t.Helper()
	r, err := m.Get("1")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// A violation at the very end of a row is shown too.
func TestFinishedRowIsShownAsItWasJudged(t *testing.T) {
	m, c := recording(t)
	c.Row(1, 2, "none", catalog.Calm)
	if now := shown(t, m).Now; now.Phase != Setup || now.Point != nil || len(now.Broken) != 0 {
		t.Errorf("before the requests are out: %+v", now)
	}
	c.Done(report.Row{Stock: 100, Sold: 112, LostUpdates: 15, MaxHolders: 2, Wall: 7})
	r := shown(t, m)
	want := Point{T: 7, Holders: -1, MaxHolders: 2, Audited: 7, Remaining: 3, Sold: 112}
	if r.Now.Phase != Judged || *r.Now.Point != want || len(r.Now.Broken) != 2 || len(r.Rows) != 1 || len(r.Samples[0].Points) != 1 {
		t.Errorf("in the end: %+v with %+v", r.Now, r.Now.Point)
	}
}

// Several holders inside are no violation where the losers' writes are refused.
func TestOneHolderIsAskedOfThoseWhoPromiseIt(t *testing.T) {
	for name, broken := range map[string]int{"v6_watchdog": 1, "watch": 0, "lua_atomic": 0, "sql_version": 0, "sql_for_update": 1} {
		m, c := recording(t)
		c.Row(1, 1, name, catalog.Calm)
		c.Done(report.Row{Stock: 100, Sold: 100, MaxHolders: 5})
		if got := shown(t, m).Now.Broken; len(got) != broken {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// A row that is repeated, because the machine stalled, starts over.
func TestRowThatIsTriedAgainBeginsAnew(t *testing.T) {
	m, c := recording(t)
	c.Row(1, 2, "none", catalog.Calm)
	c.Done(report.Row{Stock: 100, Sold: 100})
	c.Row(2, 2, "v6_watchdog", catalog.Calm)
	m.update(func() { c.see(Point{T: 1, Waiting: 5}, false) })
	c.Row(2, 2, "v6_watchdog", catalog.Calm)
	r := shown(t, m)
	if len(r.Samples) != 2 || len(r.Samples[0].Points) != 1 || len(r.Samples[1].Points) != 0 || r.Now.Phase != Setup || len(r.Rows) != 1 {
		t.Errorf("it is shown as %+v, and now %+v", r.Samples, r.Now)
	}
}

// Two holders inside at once are reported before their requests are answered.
func TestTwoHoldersAreToldOfWhileTheyAreInside(t *testing.T) {
	_, c := recording(t)
	c.Row(1, 1, "v6_watchdog", catalog.Pause)
	for _, p := range []Point{{T: 50, Holders: 1, MaxHolders: 1}, {T: 100, Holders: -1, MaxHolders: 1}, {T: 150, Holders: 1, MaxHolders: 2}, {T: 200, MaxHolders: 2}} {
		c.manager.update(func() { c.see(p, false) })
	}
	want := []Broken{{OneHolder, 150, "2 holders inside at once"}}
	if got := shown(t, c.manager).Now.Broken; !slices.Equal(got, want) {
		t.Errorf("broken: %+v; want %+v", got, want)
	}
}
