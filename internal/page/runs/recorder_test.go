package runs

import (
	"slices"
	"testing"

	"oversell/internal/bench"
	"oversell/internal/locks"
)

// recording returns a recorder of a run that has not begun a row.
func recording(t *testing.T) (*Manager, *recorder) {
	t.Helper()
	m := New(t.Context(), Config{Catalog: locks.Strategies()})
	t.Cleanup(m.Close)
	r := &run{id: "1", state: Running, settings: m.Defaults()}
	m.runs = append(m.runs, r)
	return m, &recorder{manager: m, run: r}
}

// shown is all that is shown of the run.
func shown(t *testing.T, m *Manager) Run {
	t.Helper()
	r, err := m.Get("1")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// What broke at the very end of a row is shown as broken too.
func TestFinishedRowIsShownAsItWasJudged(t *testing.T) {
	m, c := recording(t)
	c.Row(1, 2, "none", locks.Calm)
	if now := shown(t, m).Now; now.Phase != Setup || now.Point != nil || len(now.Broken) != 0 {
		t.Errorf("before the requests are out: %+v", now)
	}
	c.Done(bench.Row{Stock: 100, Sold: 112, LostUpdates: 15, MaxHolders: 2, Wall: 7})
	r := shown(t, m)
	want := Point{T: 7, Holders: -1, MaxHolders: 2, Audited: 7, Remaining: 3, Sold: 112}
	if r.Now.Phase != Judged || *r.Now.Point != want || len(r.Now.Broken) != 2 || len(r.Rows) != 1 || len(r.Samples[0].Points) != 1 {
		t.Errorf("in the end: %+v with %+v", r.Now, r.Now.Point)
	}
}

// Many inside at once break nothing where the losers are turned back at the write.
func TestOneHolderIsAskedOfThoseWhoPromiseIt(t *testing.T) {
	for name, broken := range map[string]int{"v6_watchdog": 1, "watch": 0, "lua_atomic": 0, "sql_version": 0, "sql_for_update": 1} {
		m, c := recording(t)
		c.Row(1, 1, name, locks.Calm)
		c.Done(bench.Row{Stock: 100, Sold: 100, MaxHolders: 5})
		if got := shown(t, m).Now.Broken; len(got) != broken {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// A row that is tried once more, since the machine stood still, begins anew.
func TestRowThatIsTriedAgainBeginsAnew(t *testing.T) {
	m, c := recording(t)
	c.Row(1, 2, "none", locks.Calm)
	c.Done(bench.Row{Stock: 100, Sold: 100})
	c.Row(2, 2, "v6_watchdog", locks.Calm)
	m.update(func() { c.see(Point{T: 1, Waiting: 5}, false) })
	c.Row(2, 2, "v6_watchdog", locks.Calm)
	r := shown(t, m)
	if len(r.Samples) != 2 || len(r.Samples[0].Points) != 1 || len(r.Samples[1].Points) != 0 || r.Now.Phase != Setup || len(r.Rows) != 1 {
		t.Errorf("it is shown as %+v, and now %+v", r.Samples, r.Now)
	}
}

// Two who are inside at this moment are told of before their requests are answered.
func TestTwoHoldersAreToldOfWhileTheyAreInside(t *testing.T) {
	_, c := recording(t)
	c.Row(1, 1, "v6_watchdog", locks.Pause)
	for _, p := range []Point{{T: 50, Holders: 1, MaxHolders: 1}, {T: 100, Holders: -1, MaxHolders: 1}, {T: 150, Holders: 1, MaxHolders: 2}, {T: 200, MaxHolders: 2}} {
		c.manager.update(func() { c.see(p, false) })
	}
	want := []Broken{{OneHolder, 150, "2 holders inside at once"}}
	if got := shown(t, c.manager).Now.Broken; !slices.Equal(got, want) {
		t.Errorf("broken: %+v; want %+v", got, want)
	}
}
