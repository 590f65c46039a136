package report_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/jedib0t/go-pretty/v6/text"

	"oversell/internal/bench/report"
	"oversell/internal/catalog"
	"oversell/internal/figures"
	"oversell/internal/message"
	"oversell/internal/page/texts"
	"oversell/internal/present"
	"oversell/internal/stock"
)

var update = flag.Bool("update", false, "write the golden files anew")

var twoHolders = catalog.Expectation{Verdicts: []figures.Verdict{figures.OK}, MaxHolders: 1}.Check(
	catalog.Outcome{Verdict: figures.OK, MaxHolders: 2})

// instead says how a row with this verdict differs from the expectation that it is ok.
func instead(v figures.Verdict) message.Message {
	return catalog.Expectation{Verdicts: []figures.Verdict{figures.OK}}.Check(catalog.Outcome{Verdict: v})
}

// sale returns a report with a row of every kind.
func sale() report.Report {
	row := func(strategy string, c catalog.Condition, v figures.Verdict, change func(*report.Row)) report.Row {
		r := report.Row{
			Asked: report.Asked{Key: report.Key{Strategy: strategy, Condition: c, Workload: catalog.Deduct},
				Requests: 5000, Stock: 1000},
			Load: report.Load{
				SoldOut: 4000, Served: 1000, MaxHolders: 1,
				P50: 801.4, P95: 1201.5, P99: 1300.04, Max: 1320, Wall: 1321.5, Throughput: 756.7,
				RedisCommands: new(2.345),
			},
			Audit: report.Audit{Sold: 1000}, Verdict: v, Expected: true,
		}
		change(&r)
		return r
	}
	return report.Report{
		Manifest: report.Manifest{
			Started: time.Date(2026, 11, 20, 8, 30, 0, 0, time.UTC),
			Redis:   "redis 7.0.15 (local)", DB: "MariaDB 10.11.6 (local)", Go: "go1.26.8", OS: "linux/amd64", CPUs: 2,
			Version: "0123abcd", Requests: 5000, Stock: 1000, Workload: "deduct", Instances: 2,
			TTL: "1s", Work: "0s", Wait: "12.8s", Retry: "line:2ms", Keys: "none", SecondLook: true,
		},
		Rows: []report.Row{
			row("none", catalog.Calm, figures.Oversold, func(r *report.Row) {
				r.Sold, r.Served, r.SoldOut = 5000, 5000, 0
				r.Oversold, r.OversoldPossible, r.LostUpdates, r.MaxHolders = 4000, 4000, 4902, 2294
			}),
			row("v6_watchdog", catalog.Calm, figures.OK, func(*report.Row) {}),
			row("v1_setnx", catalog.Crash, figures.Stuck, func(r *report.Row) {
				r.Sold, r.Served, r.SoldOut, r.Failed, r.Unknown = 142, 142, 0, 2482, 2376
				r.Undersold, r.Throughput = 858, 14.2
			}),
			row("v4_lua", catalog.Crash, figures.Unknown, func(r *report.Row) {
				r.Sold, r.Served, r.Unknown, r.SoldOut = 1003, 999, 4, 3997
				r.Oversold, r.OversoldPossible = 3, 7
				r.Expected = false
				r.Differ(instead(figures.Unknown))
				r.Stalled, r.Discarded = 211, []report.Discarded{
					{TTL: "1s", Verdict: figures.OK, Differs: twoHolders.String(), Message: twoHolders, Stalled: 812.4},
					{TTL: "2s", Verdict: figures.OK, Stalled: 11.3, Missed: true},
				}
			}),
			row("watch", catalog.Crash, figures.Drift, func(r *report.Row) {
				r.Sold, r.LostUpdates, r.Unknown, r.SoldOut = 999, -1, 2500, 1501
			}),
		},
	}
}

// repeated returns a report whose rows were run five times, except the last, during which the run
// was interrupted.
func repeated() report.Report {
	once := sale()
	r := report.Report{Manifest: once.Manifest}
	r.Manifest.Repeat = 5
	for repeat := 1; repeat <= 5; repeat++ {
		for i, row := range once.Rows {
			if repeat == 5 && i == len(once.Rows)-1 {
				break
			}
			row.Repeat = repeat
			row.P50 += float64(repeat * 10)
			row.Throughput -= float64(repeat)
			row.Discarded = nil
			switch row.Strategy {
			case "v4_lua":
				row.Oversold, row.OversoldPossible = 0, 0
				row.Verdict, row.Expected = figures.OK, true
				row.Differ(message.Message{})
				if repeat == 3 {
					row.Oversold, row.OversoldPossible, row.Sold = 3, 7, 1003
					row.Verdict, row.Expected = figures.Oversold, false
					row.Differ(instead(figures.Oversold))
				}
			case "watch":
				if repeat == 2 {
					row.Verdict, row.LostUpdates = figures.OK, 0
				}
			}
			r.Rows = append(r.Rows, row)
		}
	}
	return r
}

// reading returns a report of the cache workload on shops that were already running.
func reading() report.Report {
	r := sale()
	r.Manifest.Workload, r.Manifest.SecondLook = "cache", false
	r.Manifest.Targets = []string{"http://127.0.0.1:8080", "http://127.0.0.1:8081"}
	r.Rows = []report.Row{{
		Asked: report.Asked{Key: report.Key{Strategy: "local", Condition: catalog.Calm, Workload: catalog.Cache},
			Requests: 5000, Stock: 1000},
		Load: report.Load{
			Served: 5000, MaxHolders: 2, DBLoads: 5000, P50: 801, P95: 1201, P99: 1300, Max: 1320, Wall: 1321,
			Throughput: 3785, RedisCommands: new(7.0),
		},
		Verdict: figures.Reloaded, Expected: true,
	}}
	return r
}

// opened returns a report of an open load.
func opened() report.Report {
	r := sale()
	r.Manifest.Rate, r.Manifest.Duration, r.Manifest.InFlight = 500, "10s", 1000
	for i := range r.Rows {
		r.Rows[i].Open = &report.Open{Planned: 5000, Sent: 5000, AchievedRate: 500, ServiceP50: 1.04, ServiceP99: 20,
			ServiceMax: 81.06}
	}
	stuck := &r.Rows[2]
	stuck.Open.Sent, stuck.Open.Dropped, stuck.Open.AchievedRate = 1200, 3800, 120
	return r
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A table fits a terminal of 120 columns, although a Chinese character is two columns wide. Below it,
// the report names the columns that were left out. Only the headline, at the end, may be longer.
func TestTable(t *testing.T) {
	text.EnableColors() // regardless of NO_COLOR and TERM
	chinese := present.Style{Language: texts.Listen(texts.OfBench)}
	for name, tt := range map[string]struct {
		report report.Report
		style  present.Style
	}{
		"sale": {sale(), present.Style{}}, "sale-colour": {sale(), present.Style{Colour: true}},
		"sale-zh": {sale(), chinese}, "cache": {reading(), present.Style{}}, "repeated": {repeated(), present.Style{}},
		"open": {opened(), present.Style{}}, "both": {both(), present.Style{}}, "lock": {locks(), present.Style{}},
	} {
		t.Run(name, func(t *testing.T) {
			var got bytes.Buffer
			must(t, tt.report.WriteTable(&got, tt.style))
			checkGolden(t, name+".txt", got.Bytes())
			if n := text.LongestLineLen(strings.TrimSuffix(got.String(), tt.report.Headline(tt.style))); n > 120 {
				t.Errorf("a line is %d wide", n)
			}
		})
	}
}

func checkGolden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		must(t, os.WriteFile(path, got, 0o644))
	}
	want, err := os.ReadFile(path)
	must(t, err)
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs (-update writes it anew); got:\n%s", path, got)
	}
}

// The conclusion says what is missing, because a reader may see only the end of an interrupted run. Rows
// without an expectation do not count as matching it.
func TestConclusion(t *testing.T) {
	right := slices.Clip(sale().Rows[:3])
	other := sale().Rows[1]
	other.Strategy, other.Undecided = "redislock", true
	strange := other
	strange.Verdict = figures.NotComparable
	leased := slices.Clone(right[:2])
	leased[0].TTL, leased[1].TTL, leased[1].Strategy = "1s", "2s", "etcd"
	for name, tt := range map[string]struct {
		rows            []report.Row
		planned, repeat int
		want, not       string
	}{
		"missing rows":   {right[:1], 3, 1, "Not finished: 1 of 3 rows done.", "runs"},
		"missing runs":   {right[:1], 3, 3, "Not finished: 1 of 3 runs done.", "rows"},
		"whole":          {right[:1], 1, 3, "The row matched", "Not finished"},
		"one undecided":  {append(right, other), 4, 1, "All 3 rows with an expectation matched the catalog's", "Not"},
		"one strange":    {append(right, strange), 4, 1, "Not comparable here: redislock.", "No expectation for"},
		"only a strange": {[]report.Row{strange}, 1, 1, "Not comparable here: redislock.", "match"},
		"granted leases": {leased, 2, 1, "a ttl of 1s, and the ttl they granted: etcd 2s.", "Not"},
	} {
		r := report.Report{Manifest: sale().Manifest, Rows: tt.rows}
		r.Manifest.Planned, r.Manifest.Repeat = tt.planned, tt.repeat
		if got := r.Conclusion(present.Style{}); !strings.Contains(got, tt.want) || strings.Contains(got, tt.not) {
			t.Errorf("%s: %q; want %q, and not %q", name, got, tt.want, tt.not)
		}
	}
}

// afterFailover returns a report in which one row had a different load, and its commands were not
// counted.
func afterFailover() report.Report {
	r := sale()
	row := r.Rows[1]
	row.Condition, row.Keeper, row.RedisCommands = catalog.Failover, stock.InDatabase, nil
	row.Rate, row.Duration, row.TTL, row.Open = 500, "10s", "10s", &report.Open{Planned: 5000, Sent: 5000}
	r.Rows = append(r.Rows[:2], row)
	return r
}

func TestConditionSaysHowItsRowsWereRun(t *testing.T) {
	for repeat := 1; repeat <= 2; repeat++ {
		r := afterFailover()
		r.Rows[2].Repeat = repeat
		var table bytes.Buffer
		must(t, r.WriteTable(&table, present.Style{}))
		want := "\nfailover: 500 buyers a second for 10s; ttl 10s; stock in the database where the strategy allows " +
			"it; latencies from the planned time of each request\n"
		if !strings.Contains(table.String(), want) || !strings.Contains(table.String(), "\ncalm\n") {
			t.Errorf("%q is not in\n%s", want, table.String())
		}
		if widest := slices.Max(lengths(table.String(), "──")); widest > 150 {
			t.Errorf("the heading makes the table %d wide:\n%s", widest, table.String())
		}
		var page strings.Builder
		must(t, r.WriteHTML(&page, present.Style{}))
		for _, want := range []string{`"title":"calm","open":false`, `"title":"failover","open":true`} {
			if !strings.Contains(page.String(), want) {
				t.Errorf("no plots with %s", want)
			}
		}
	}
}

// lengths returns the lengths of the lines that begin with the prefix.
func lengths(of, prefix string) []int {
	var all []int
	for line := range strings.Lines(of) {
		if strings.HasPrefix(line, prefix) {
			all = append(all, utf8.RuneCountInString(line))
		}
	}
	return all
}

// cellsOf returns the cells of a column, or the names of all columns.
func cellsOf(r report.Report, column string) (all []string) {
	table := r.Table(present.Style{})
	for _, c := range table.Columns {
		if column == "" {
			all = append(all, c.Name)
		}
		for _, row := range table.Rows {
			if column != "" && c.Name == column {
				all = append(all, c.Cell(row))
			}
		}
	}
	return all
}

// The number of connections limits the strategies that work in the database. So the table shows the
// time of connections in every row if one of these strategies was run.
func TestTimeOfConnectionsIsShownBesideDatabaseStrategies(t *testing.T) {
	r := sale()
	for i := range r.Rows {
		r.Rows[i].ConnectionTime = new(12.34)
	}
	if slices.Contains(cellsOf(r, ""), "conn ms/sale") {
		t.Error("it is shown without such a strategy")
	}
	r.Rows[1].Strategy = "sql_units"
	if got := cellsOf(r, "conn ms/sale"); len(got) != 5 || len(slices.Compact(got)) != 1 || got[0] != "12.3" {
		t.Errorf("the column is %q", got)
	}
	var table bytes.Buffer
	must(t, r.WriteTable(&table, present.Style{}))
	if widest := slices.Max(lengths(table.String(), "──")) - len("\n"); widest > 120 ||
		!strings.Contains(table.String(), "conn ms/sale: the time") {
		t.Errorf("%d wide:\n%s", widest, table.String())
	}
}

// A figure that was not counted is blank: a zero would mean that Redis had nothing to do.
func TestWhatWasNotCountedIsBlank(t *testing.T) {
	r := afterFailover()
	if got := cellsOf(r, "cmds/req"); !slices.Equal(got, []string{"2.3", "2.3", ""}) {
		t.Errorf("the column is %q", got)
	}
	if n := strings.Count(written(t, r), `"redis_commands": null`); n != 1 {
		t.Errorf("%d rows without commands", n)
	}
}

// Programs rely on these names: names may be added, but none may be removed.
func TestJSONHasTheNamesThatAreReliedUpon(t *testing.T) {
	var written bytes.Buffer
	must(t, sale().WriteJSON(&written))
	var got struct {
		Manifest map[string]any   `json:"manifest"`
		Rows     []map[string]any `json:"rows"`
		Summary  []map[string]any `json:"summary"`
	}
	d := json.NewDecoder(&written)
	d.DisallowUnknownFields()
	must(t, d.Decode(&got))
	relied := []string{
		"strategy", "condition", "workload", "requests", "stock", "sold", "sold_out", "failed", "unknown",
		"oversold", "oversold_possible", "lost_updates", "undersold", "duplicates", "acknowledged_missing",
		"unreported", "stranded", "accepted_lost", "max_holders", "db_loads",
		"p50_ms", "p95_ms", "p99_ms", "max_ms", "wall_ms", "throughput", "redis_commands", "verdict",
	}
	added := []string{"expected", "differs", "message", "served", "reasons", "loads", "ttl", "stalled_ms", "discarded",
		"repeat", "open", "percentiles", "timeline", "rate", "duration", "durable_p99_ms", "drain_ms"}
	for _, row := range got.Rows {
		for _, name := range relied {
			if _, ok := row[name]; !ok {
				t.Errorf("%s under %s has no %s", row["strategy"], row["condition"], name)
			}
		}
		for name := range row {
			if !slices.Contains(append(added, relied...), name) {
				t.Errorf("%s is a name that nobody knows of", name)
			}
		}
	}
	for _, name := range []string{"started", "redis", "db", "go", "os", "cpus", "version", "requests", "stock",
		"workload", "instances", "ttl", "work", "wait", "retry", "keys", "second_look", "format", "id", "repeat"} {
		if _, ok := got.Manifest[name]; !ok {
			t.Errorf("the manifest has no %s", name)
		}
	}
	for _, name := range []string{"strategy", "condition", "workload", "runs", "expected", "verdicts", "confidence",
		"figures"} {
		if _, ok := got.Summary[0][name]; !ok {
			t.Errorf("the summary has no %s", name)
		}
	}
}

// The table and the page contain the faults and their seed.
func TestFaultsAreTold(t *testing.T) {
	var table, page strings.Builder
	must(t, chaotic().WriteTable(&table, present.Style{}))
	must(t, chaotic().WriteHTML(&page, present.Style{}))
	for where, wants := range map[string][]string{
		table.String(): {"seed 77", "acknowledged_missing 4", "redis-oom", "0.25", "shop 2", "skipped", "never (!)"},
		page.String(): {"none, seed 77: acknowledged 123", "<td>redis-black-hole</td>", "<td>shop 2</td>",
			"<td>never (!)</td>", "<td>0.25, 0.20 of it stalled</td>"},
	} {
		for _, want := range wants {
			if !strings.Contains(where, want) {
				t.Errorf("no %q in\n%s", want, where)
			}
		}
	}
}

func TestLate(t *testing.T) {
	after := func(s float64) *float64 { return &s }
	for _, tt := range []struct {
		done report.Fault
		late bool
	}{
		{report.Fault{Limit: 2, Again: after(1.9)}, false},
		{report.Fault{Limit: 2, Again: after(2.1)}, true},
		{report.Fault{Limit: 2, Again: after(2.1), Stalled: 0.2}, false},
		{report.Fault{Limit: 2, Again: after(9), Stalled: 0.2}, true},
		{report.Fault{Limit: 2, Stalled: 9}, true}, // the item was never sold again
		{report.Fault{Limit: 2, Skipped: true}, false},
	} {
		if got := tt.done.Late(); got != tt.late {
			t.Errorf("%+v: late %v, want %v", tt.done, got, tt.late)
		}
	}
}

// The headline names the strategies that broke the most, and the fastest one that held.
func TestHeadline(t *testing.T) {
	row := func(strategy string, c catalog.Condition, v figures.Verdict, speed float64) report.Row {
		r := report.Row{Verdict: v, Load: report.Load{Throughput: speed}}
		r.Key = report.Key{Strategy: strategy, Condition: c, Workload: catalog.Deduct}
		return r
	}
	broke := row("v2_ttl", catalog.Slow, figures.Oversold, 900)
	broke.Oversold = 7
	left := row("v4_lua", catalog.Slow, figures.Stuck, 900)
	left.Undersold = 1234
	last := row("watch", catalog.Chaos, figures.Undersold, 0)
	last.Chaos = &report.Chaos{SoldOut: true, Remaining: 3}
	unread, few := row("v2_ttl", catalog.Calm, figures.Stuck, 0), row("v4_lua", catalog.Calm, figures.Undersold, 0)
	unread.Workload, few.Workload, few.Failed = catalog.Cache, catalog.Cache, 1200
	strange := row("etcd", catalog.Calm, figures.NotComparable, 9000)
	two, refused := row("v2_ttl", catalog.Calm, report.Broken, 0), row("redsync", catalog.Calm, report.GaveUp, 0)
	two.Workload, two.Lock = report.WorkloadLock, &report.Lock{MaxHolders: 2, MaxHoldersRunning: 2}
	refused.Workload, refused.Lock = report.WorkloadLock, &report.Lock{Told: 4800}
	timed := row("lua_batch", catalog.Failover, figures.OK, 500)
	timed.Open = new(report.Open)
	good := []report.Row{row("v9_cohort", catalog.Calm, figures.OK, 400),
		row("lua_batch", catalog.Calm, figures.OK, 1291.4), row("v2_ttl", catalog.Calm, figures.OK, 5000)}
	for want, rows := range map[string][]report.Row{
		"v2_ttl oversold 7 under slow; fastest that held: lua_batch, 1,291 sold/s, 3.2 times v9_cohort\n": append(
			good, broke, strange),
		"fastest that held: v2_ttl, 5,000 sold/s, 3.9 times lua_batch\n": good,
		"v2_ttl oversold 7 under slow, v4_lua got stuck with 1,234 units left under slow; fastest that held: " +
			"lua_batch, 1,291 sold/s, 3.2 times v9_cohort\n": append(good, left, broke),
		"v2_ttl oversold 7 under slow; nothing held\n":  {broke},
		"watch undersold 3 under chaos; nothing held\n": {last},
		"v2_ttl served no reader under calm, v4_lua did not serve 1,200 readers under calm; nothing held\n": {
			few, unread},
		"v2_ttl had 2 holders at once under calm, redsync refused 4,800 under calm; nothing held\n": {refused, two},
		"held: lua_batch\n": {timed, good[1]}, "": {strange},
	} {
		if got := (report.Report{Rows: rows}).Headline(present.Style{}); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
