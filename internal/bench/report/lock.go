package report

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"

	"oversell/internal/catalog"
	"oversell/internal/figures"
	"oversell/internal/present"
)

// WorkloadLock is the workload without a shop: see package lockbench.
const WorkloadLock catalog.Workload = "lock"

// Lock holds the figures of a row in which contenders take one lock. Times are in milliseconds.
type Lock struct {
	Contender string `json:"contender"`
	Waits     string `json:"waits"` // how a waiter gets the lock
	About     string `json:"about"`

	// Skipped says why the row could not be run; then all figures are zero.
	Skipped string `json:"skipped,omitempty"`

	Contenders  int `json:"contenders"`
	Processes   int `json:"processes"`
	Served      int `json:"served"`       // deducted and unlocked
	Told        int `json:"told"`         // got an error from the lock or from Redis
	NeverServed int `json:"never_served"` // did not get the lock before the end of the wait
	Killed      int `json:"killed"`       // died with their process, without an outcome

	// Throughput is the number served, divided by the time from the start to the last
	// release.
	Throughput float64 `json:"deducts_per_s"`

	// Commands is the number of commands that the server counted from the start to the
	// last outcome, including those inside scripts, per contender served.
	Commands float64 `json:"commands_per_deduct"`

	// The waits of the contenders that entered, measured from the start.
	P50 float64 `json:"wait_p50_ms"`
	P99 float64 `json:"wait_p99_ms"`
	Max float64 `json:"wait_max_ms"`

	// Spread is the longest wait divided by the median. All contenders begin at once, so it is 2 at
	// a steady pace.
	Spread float64 `json:"wait_max_to_p50"`

	// Jain is Jain's fairness index of the processes' deductions while all of them contended; 1 is
	// even. It is 0 if there is one process, or if no contender was served in that time.
	Jain    float64 `json:"jain"`
	Deducts []int   `json:"deducts"` // deductions of each process in that time

	// MaxHolders is the largest number of holders at one moment. In MaxHoldersRunning a stopped
	// holder counts only until it was stopped: no lock can prevent what it does afterwards.
	MaxHolders        int `json:"max_holders"`
	MaxHoldersRunning int `json:"max_holders_running"`

	// LostUpdates is the number of deductions that the counter does not show. Unsure is the number
	// of contenders that were not served but may have deducted. If no update was lost, LostUpdates
	// is between -Unsure and 0.
	LostUpdates int `json:"lost_updates"`
	Unsure      int `json:"unsure"`

	Lost      int            `json:"lost_leases"`               // leases that had expired before they were released
	Reasons   map[string]int `json:"reasons,omitempty"`         // refused contenders by their error
	Releases  map[string]int `json:"failed_releases,omitempty"` // releases that failed, by their error
	Idle      float64        `json:"idle_ms"`                   // time from last release to end, if waiters are left
	Stalled   float64        `json:"stalled_ms"`                // longest stall that was not injected
	Disturbed *Disturbed     `json:"disturbed,omitempty"`
}

// Disturbed lists the faults that were injected; processes are numbered from 1.
type Disturbed struct {
	Killed    int     `json:"killed_process,omitempty"`
	KilledAt  float64 `json:"killed_at_ms,omitempty"`
	Stopped   int     `json:"stopped_process,omitempty"`
	StoppedAt float64 `json:"stopped_at_ms,omitempty"`
	Resumed   float64 `json:"resumed_at_ms,omitempty"`
	Missed    string  `json:"missed,omitempty"` // why a fault was not injected
}

// The verdicts on a lock besides figures.OK, the worst first.
const (
	Skipped figures.Verdict = "skipped"
	Broken  figures.Verdict = "broken"  // two holders at once, or lost updates
	Late    figures.Verdict = "late"    // like Broken, but only because of a process that had been stopped
	Starved figures.Verdict = "starved" // some contenders were neither served nor refused
	GaveUp  figures.Verdict = "gave up" // some contenders were refused
)

// Verdict computes the verdict.
func (l Lock) Verdict() figures.Verdict {
	lossless := -l.Unsure <= l.LostUpdates && l.LostUpdates <= 0
	switch {
	case l.Skipped != "":
		return Skipped
	case l.MaxHoldersRunning > 1 || !lossless && l.MaxHolders < 2:
		return Broken
	case l.MaxHolders > 1:
		return Late
	case l.NeverServed > 0:
		return Starved
	case l.Told > 0:
		return GaveUp
	}
	return figures.OK
}

// Missed reports whether a fault of the row was not injected.
func (l *Lock) Missed() bool { return l != nil && l.Disturbed != nil && l.Disturbed.Missed != "" }

// MarshalJSON leaves the figures of the other workloads out of a row of the lock workload.
func (r Row) MarshalJSON() ([]byte, error) {
	if r.Lock == nil {
		type plain Row
		return json.Marshal(plain(r))
	}
	return json.Marshal(struct {
		Key
		Repeat int `json:"repeat"`
		*Lock
		Verdict   figures.Verdict `json:"verdict"`
		Discarded []Discarded     `json:"discarded,omitempty"`
	}{r.Key, r.Repeat, r.Lock, r.Verdict, r.Discarded})
}

// lockGroup holds the figures of one contender under one condition, over all runs.
type lockGroup struct {
	Strategy   string            `json:"strategy"`
	Condition  catalog.Condition `json:"condition"`
	Throughput figures.Estimate  `json:"deducts_per_s"`
	Commands   figures.Estimate  `json:"commands_per_deduct"`
	Spread     figures.Estimate  `json:"wait_max_to_p50"`
	Jain       figures.Estimate  `json:"jain"`
}

// lockGroups groups the runs by row. Skipped rows are left out.
func (r Report) lockGroups() []lockGroup {
	var all []lockGroup
	for _, g := range r.groups() {
		if g.Verdicts[Skipped] == 0 {
			f := g.Figures
			all = append(all, lockGroup{g.Strategy, g.Condition, f["deducts_per_s"], f["commands_per_deduct"],
				f["wait_max_to_p50"], f["jain"]})
		}
	}
	return all
}

// lockTables draws a table for each condition and run, and the medians of several runs.
func (r Report) lockTables(s present.Style) string {
	var b strings.Builder
	m := r.Manifest
	fmt.Fprintf(&b, "%s\n%s%s%s\n%s\n",
		s.Sayf("%s for one lock, in %s; ttl %s, wait %s",
			s.Count(m.Requests, "contender"), s.Count(m.Instances, "process"), m.TTL, m.Wait),
		s.Sayf("redis: %s", m.Redis), s.Say("; "), s.Sayf("%s on %s, %d CPUs", m.Go, m.OS, m.CPUs),
		s.Say("waits in ms, from the common start"))
	for _, c := range r.conditions() {
		for run := 1; run <= m.Repeat; run++ {
			rows := slices.DeleteFunc(r.under(c), func(row Row) bool { return row.Repeat != run })
			if len(rows) > 0 {
				fmt.Fprintf(&b, "\n%s\n%s", s.Sayf("%s, run %d of %d", s.Condition(c), run, m.Repeat),
					r.lockTable(rows, s))
			}
		}
	}
	if m.Repeat > 1 {
		b.WriteString(r.lockMedians(s))
	}
	return b.String() + "\n"
}

// lockMedians compares all contenders with the first one under the same condition.
func (r Report) lockMedians(s present.Style) string {
	groups := r.lockGroups()
	if len(groups) == 0 {
		return ""
	}
	first := make(map[catalog.Condition]figures.Estimate)
	var runs []int
	for _, g := range groups {
		runs = append(runs, g.Throughput.Runs)
		if _, known := first[g.Condition]; !known {
			first[g.Condition] = g.Throughput
		}
	}
	n, confidence := fewestAndMost(runs, s)
	t := present.Table[lockGroup]{Rows: groups}
	t.Under = func(g lockGroup) string { return s.Condition(g.Condition) }
	t.Add("", func(g lockGroup) string { return g.Strategy })
	t.Number("deducts/s", func(g lockGroup) string { return whole(g.Throughput.Median) })
	t.Add("", func(g lockGroup) string { return s.Sayf("%.0f to %.0f", g.Throughput.Low, g.Throughput.High) })
	t.Number("cmds/deduct", func(g lockGroup) string { return tenths(g.Commands.Median) })
	t.Add("", func(g lockGroup) string { return g.against(first[g.Condition], s) })
	return "\n" + s.Sayf("medians of %s runs: deducts/s, with an interval of %.0f %%, and commands per deduct",
		n, confidence) + "\n" + t.Text(s)
}

// against compares the group's throughput with that of the first group, or returns "".
func (g lockGroup) against(first figures.Estimate, s present.Style) string {
	if g.Throughput == first || first.Median == 0 {
		return ""
	}
	ratio := s.Sayf("%.2f times the first", g.Throughput.Median/first.Median)
	switch g.Throughput.Differs(first) {
	case figures.None:
		return s.Say("no difference from the first")
	case figures.Unclear:
		return s.Sayf("%s, possibly by chance", ratio)
	}
	return ratio
}

// lockTable returns a table with a line for each row that was run, and below it notes on faults,
// errors and skipped rows.
func (r Report) lockTable(rows []Row, s present.Style) string {
	run := Report{Manifest: r.Manifest}
	run.Rows = slices.DeleteFunc(slices.Clone(rows), func(row Row) bool { return row.Lock.Skipped != "" })
	if len(run.Rows) == 0 {
		return lockNotes(rows, s)
	}
	t := run.Table(s)
	t.Under = nil // all rows have the same condition
	verdict := &t.Columns[len(t.Columns)-1]
	verdict.Cell, verdict.Mark = func(l Line) string { return s.Verdict(l.Rows[0].Verdict) }, nil
	return t.Text(s) + lockNotes(rows, s)
}

// holders formats MaxHolders, with the figure without a stopped holder in brackets.
func (l *Lock) holders() string {
	if l.MaxHoldersRunning != l.MaxHolders {
		return fmt.Sprintf("%d (%d)", l.MaxHolders, l.MaxHoldersRunning)
	}
	return fmt.Sprint(l.MaxHolders)
}

// lockNotes lists what does not fit into a column.
func lockNotes(rows []Row, s present.Style) string {
	var b strings.Builder
	var incomparable []string
	for _, r := range rows {
		for _, note := range r.Lock.notes(s) {
			b.WriteString("  " + s.Sayf("%s: %s", r.Strategy, note) + "\n")
		}
		if r.Verdict == figures.NotComparable {
			incomparable = append(incomparable, r.Strategy)
		}
	}
	if len(incomparable) > 0 {
		b.WriteString("  " + s.Sayf("not comparable here: %s", strings.Join(incomparable, s.Say(", "))) + "\n  " +
			s.Say("These locks were written for a real Redis, and their waiters fare worse on an embedded one: use "+
				"-redis local.") + "\n")
	}
	return b.String()
}

// notes describes what happened in a row, in a line each. Errors are in English in every language.
func (l *Lock) notes(s present.Style) []string {
	if l.Skipped != "" {
		return []string{s.Say(l.Skipped)}
	}
	var notes []string
	if d := l.Disturbed; d != nil {
		notes = append(notes, d.note(s))
	}
	for _, text := range slices.Sorted(maps.Keys(l.Reasons)) {
		notes = append(notes, s.Sayf("%d refused: %s", l.Reasons[text], Printable(text)))
	}
	for _, text := range slices.Sorted(maps.Keys(l.Releases)) {
		notes = append(notes, s.Sayf("%d releases failed: %s", l.Releases[text], Printable(text)))
	}
	if l.Lost > 0 {
		notes = append(notes, s.Sayf("%d leases had expired at their release", l.Lost))
	}
	if l.NeverServed > 0 {
		notes = append(notes, s.Sayf("%d never served; the last release was %.0f ms before the end", l.NeverServed,
			l.Idle))
	}
	return notes
}

func (d Disturbed) note(s present.Style) string {
	var did []string
	if d.Killed > 0 {
		did = append(did, s.Sayf("process %d was killed at %.0f ms", d.Killed, d.KilledAt))
	}
	if d.Stopped > 0 {
		did = append(did, s.Sayf("process %d was stopped from %.0f to %.0f ms", d.Stopped, d.StoppedAt, d.Resumed))
	}
	if d.Missed != "" {
		did = append(did, s.Say(d.Missed))
	}
	return strings.Join(did, s.Say(", "))
}

// broke returns what went wrong with a lock and by how much, or "".
func (l *Lock) broke(v figures.Verdict, s present.Style) (what string, by int64) {
	say := func(format string, n int) (string, int64) { return s.Sayf(format, humanize.Comma(int64(n))), int64(n) }
	switch {
	case v == Broken && l.MaxHolders < 2 && l.LostUpdates < 0:
		return say("deducted %s too many", -l.LostUpdates-l.Unsure)
	case v == Broken && l.MaxHolders < 2:
		return say("lost %s updates", l.LostUpdates)
	case v == Broken, v == Late:
		return say("had %s holders at once", l.MaxHolders)
	case v == Starved:
		return say("never served %s", l.NeverServed)
	case v == GaveUp:
		return say("refused %s", l.Told)
	}
	return "", 0
}
