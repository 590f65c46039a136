package report_test

import (
	"bytes"
	"strings"
	"testing"

	"oversell/internal/bench/report"
	"oversell/internal/catalog"
	"oversell/internal/figures"
	"oversell/internal/present"
)

// locks returns a report of the lock workload with a row for every outcome.
func locks() report.Report {
	r := report.Report{Manifest: report.Manifest{
		Redis: "redis 7.0.15 (local)", DB: "none", Go: "go1.26.8", OS: "linux/amd64", CPUs: 2, Workload: "lock",
		Requests: 100, Instances: 4, TTL: "5s", Wait: "1m0s", Repeat: 1, Planned: 4,
	}}
	for _, l := range []report.Lock{
		{
			Contender: "v7_queue", Contenders: 100, Processes: 4, Served: 75, Killed: 25, Throughput: 4821.4,
			Commands: 2.44,
			P50:      10.4, P99: 20, Max: 22, Spread: 2.11, Jain: 0.998, MaxHolders: 2, MaxHoldersRunning: 1,
			Disturbed: &report.Disturbed{Killed: 2, KilledAt: 7, Stopped: 1, StoppedAt: 8, Resumed: 3008},
		},
		{
			Contender: "v4_lua", Contenders: 100, Processes: 1, Told: 99, NeverServed: 1, Idle: 1000, LostUpdates: -3,
			Lost:    2,
			Reasons: map[string]int{"E1\nE3": 99}, Releases: map[string]int{"E2\x1b[2J": 1},
		},
		{Contender: "v9_cohort", Served: 100, Throughput: 9000, Disturbed: &report.Disturbed{
			Missed: "the row was over before the fault could be injected"}},
		{Contender: "rueidislock", Skipped: "needs a real Redis: this one has no CLIENT TRACKING"},
	} {
		row := report.Row{Lock: &l, Verdict: l.Verdict()}
		row.Key, row.Repeat = report.Key{Strategy: l.Contender, Condition: catalog.Crash,
			Workload: report.WorkloadLock}, 1
		if l.Missed() {
			row.Discarded = []report.Discarded{{Verdict: figures.OK, Missed: true}}
		}
		r.Rows = append(r.Rows, row)
	}
	return r
}

// A row of the lock workload has the figures of a lock, and none of the figures of a sale.
func TestLockJSON(t *testing.T) {
	var got bytes.Buffer
	must(t, locks().WriteJSON(&got))
	for want, n := range map[string]int{`"deducts_per_s": 4821.4`: 1, `"verdict": "late"`: 1, `"sold"`: 0,
		`"wait_max_to_p50": {`: 3} {
		if found := strings.Count(got.String(), want); found != n {
			t.Errorf("%d times %s, want %d, in\n%s", found, want, n, &got)
		}
	}
}

// The last run was interrupted. The confidence of an interval of four runs is 87.5 %.
func TestMediansOfLocks(t *testing.T) {
	r := locks()
	for range 4 {
		r.Rows = append(r.Rows, locks().Rows...)
	}
	r.Manifest.Repeat, r.Rows = 5, r.Rows[:len(r.Rows)-2]
	var table strings.Builder
	must(t, r.WriteTable(&table, present.Style{}))
	const want = "medians of 4 or 5 runs: deducts/s, with an interval of 87 %, and commands per deduct\n"
	if !strings.Contains(table.String(), want) {
		t.Errorf("%q is not in\n%s", want, table.String())
	}
}

func TestLockVerdict(t *testing.T) {
	for _, test := range []struct {
		row  report.Lock
		want figures.Verdict
	}{
		{report.Lock{MaxHolders: 1, MaxHoldersRunning: 1}, figures.OK},
		{report.Lock{MaxHolders: 1, MaxHoldersRunning: 1, Told: 1}, report.GaveUp},
		{report.Lock{MaxHolders: 1, MaxHoldersRunning: 1, Told: 1, NeverServed: 1}, report.Starved},
		{report.Lock{MaxHolders: 2, MaxHoldersRunning: 1, NeverServed: 1}, report.Late},
		{report.Lock{MaxHolders: 2, MaxHoldersRunning: 1, LostUpdates: 1}, report.Late},
		{report.Lock{MaxHolders: 2, MaxHoldersRunning: 2}, report.Broken},
		{report.Lock{MaxHolders: 1, MaxHoldersRunning: 1, LostUpdates: 1}, report.Broken},
		{report.Lock{MaxHolders: 1, MaxHoldersRunning: 1, LostUpdates: -1}, report.Broken},
		{report.Lock{MaxHolders: 1, MaxHoldersRunning: 1, LostUpdates: -1, Unsure: 1, Told: 1}, report.GaveUp},
		{report.Lock{MaxHolders: 1, MaxHoldersRunning: 1, LostUpdates: -2, Unsure: 1, Told: 1}, report.Broken},
	} {
		if got := test.row.Verdict(); got != test.want {
			t.Errorf("%+v: %s, want %s", test.row, got, test.want)
		}
	}
}
