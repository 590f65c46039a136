// Package report defines the report of a bench: its rows and settings. It reads and writes reports
// as JSON, draws their tables, conclusions and pages, and compares two reports. It runs nothing.
package report

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"slices"
	"time"

	"oversell/internal/catalog"
	"oversell/internal/figures"
	"oversell/internal/fleet"
	"oversell/internal/message"
	"oversell/internal/present"
	"oversell/internal/stock"
)

// Report is the result of a bench. Programs rely on its JSON form.
type Report struct {
	Manifest Manifest `json:"manifest"`
	Rows     []Row    `json:"rows"`
}

// Manifest describes how the rows of a report were measured.
type Manifest struct {
	Format     int           `json:"format"` // of the report
	ID         string        `json:"id"`     // of the bench: its items are called bench-ID-1 and so on
	Started    time.Time     `json:"started"`
	Redis      string        `json:"redis"` // kind and version
	DB         string        `json:"db"`
	Servers    []string      `json:"servers,omitempty"` // other servers that some strategies need
	Go         string        `json:"go"`
	OS         string        `json:"os"`
	CPUs       int           `json:"cpus"`
	Version    string        `json:"version"`             // of the bench
	Requests   int           `json:"requests"`            // of each row; for an open load, the number planned
	Rate       int           `json:"rate,omitempty"`      // requests a second of an open load; 0: all at once
	Duration   string        `json:"duration,omitempty"`  // of an open load
	InFlight   int           `json:"in_flight,omitempty"` // limit at a rate; otherwise connections, 0: one per request
	Stock      int64         `json:"stock"`
	Workload   string        `json:"workload"`
	Instances  int           `json:"instances"`
	Targets    []string      `json:"targets,omitempty"`
	TTL        string        `json:"ttl,omitempty"` // this and the next three are empty for shops at Targets
	Work       string        `json:"work,omitempty"`
	Wait       string        `json:"wait,omitempty"`
	Retry      string        `json:"retry,omitempty"` // waiting policy
	Keys       string        `json:"keys"`
	SecondLook bool          `json:"second_look"`
	Keeper     stock.Backend `json:"keeper,omitempty"`   // where the bench was asked to keep the stock
	Unfenced   bool          `json:"unfenced,omitempty"` // the stock does not check fencing tokens
	Replicas   int           `json:"replicas,omitempty"` // number of Redis replicas that must have an accepted order
	Repeat     int           `json:"repeat"`             // runs of each row asked for
	Planned    int           `json:"planned,omitempty"`  // rows asked for, times Repeat
	Seed       uint64        `json:"seed,omitempty"`     // for the first run's faults, or for who buys what
	Items      int           `json:"items,omitempty"`    // number of items, which share the stock equally; 0: one
	Skew       string        `json:"skew,omitempty"`     // how unequally buyers want the items
	Flags      []string      `json:"flags,omitempty"`    // given to the bench, without secrets

	// Also lists the manifests of the other workloads in the report.
	Also []Manifest `json:"also,omitempty"`
}

// format is the version of the JSON form. It changes when programs written for the old form cannot
// read the new one.
const format = 1

// NewManifest returns a manifest with the machine and the backends filled in.
func NewManifest(redis, db string) Manifest {
	return Manifest{
		Format:  format,
		Started: time.Now().UTC().Truncate(time.Second),
		Redis:   redis, DB: db,
		Go: runtime.Version(), OS: runtime.GOOS + "/" + runtime.GOARCH, CPUs: runtime.NumCPU(),
		Version: fleet.Version(),
	}
}

// Row is the result of one run of a strategy under a condition: its settings, what the load saw,
// what the audit found, and the verdict. Package figures defines the figures.
type Row struct {
	Asked
	Load
	Audit
	*Held  // of a sale by holds; nil for other sales
	*Kills // of a row in which processes were killed at seams; nil for other rows

	Verdict   figures.Verdict `json:"verdict"`
	Expected  bool            `json:"expected"`            // it matched the catalog's expectation
	Differs   string          `json:"differs,omitempty"`   // how it differs from the expectation
	Message   message.Message `json:"message,omitzero"`    // Differs, to be translated; older reports lack it
	Undecided bool            `json:"undecided,omitempty"` // the catalog has no expectation

	Uncompared int64       `json:"uncompared,omitempty"` // replies that were not kept, because there were too many
	Stalled    float64     `json:"stalled_ms"`           // longest stall of a process, if too long for the ttl
	Discarded  []Discarded `json:"discarded,omitempty"`  // earlier tries at this row

	Chaos *Chaos `json:"chaos,omitempty"` // of a row under chaos
	Items *Items `json:"items,omitempty"` // of a row with several items
	Lock  *Lock  `json:"-"`               // of the lock workload, which has no other figures
}

// Key identifies a row: its runs have the same key.
type Key struct {
	Strategy  string            `json:"strategy"`
	Condition catalog.Condition `json:"condition"`
	Workload  catalog.Workload  `json:"workload"`
}

// in returns the name of the row in the language of s. It is not called String, because Row embeds Key and would
// inherit that method.
func (k Key) in(s present.Style) string {
	return s.Sayf("%s under %s", k.Strategy, s.Condition(k.Condition))
}

// Asked holds the settings of a row.
type Asked struct {
	Key
	Keeper   stock.Backend `json:"keeper,omitempty"` // where the stock was; older reports lack it
	Repeat   int           `json:"repeat"`           // the number of this run, from 1
	Requests int           `json:"requests"`
	Stock    int64         `json:"stock"`
	Rate     int           `json:"rate,omitempty"`     // of an open load, in requests a second
	Duration string        `json:"duration,omitempty"` // of an open load
	TTL      string        `json:"ttl,omitempty"`      // of this row's leases
}

// Load holds what the senders of the requests observed, and what the servers counted in that time.
type Load struct {
	Served  int64            `json:"served"`            // requests answered with 200
	SoldOut int64            `json:"sold_out"`          // buyers told that the item is sold out
	Failed  int64            `json:"failed"`            // requests refused for another reason
	Unknown int64            `json:"unknown"`           // requests whose outcome is not known
	Reasons map[string]int64 `json:"reasons,omitempty"` // failed and unknown requests by their code

	MaxHolders int              `json:"max_holders"`
	DBLoads    int64            `json:"db_loads"`        // cache: loads of the cold key
	Loads      map[string]int64 `json:"loads,omitempty"` // cache: loads by instance

	P50           float64  `json:"p50_ms"`
	P95           float64  `json:"p95_ms"`
	P99           float64  `json:"p99_ms"`
	Max           float64  `json:"max_ms"`
	Wall          float64  `json:"wall_ms"`
	Throughput    float64  `json:"throughput"`     // units sold, or values read, per second
	RedisCommands *float64 `json:"redis_commands"` // that the server counted per request; nil: not counted

	// ConnectionTime is the time for which the shops used database connections, in milliseconds per unit sold;
	// nil: not measured.
	ConnectionTime *float64 `json:"connection_ms,omitempty"`

	Open        *Open        `json:"open,omitempty"` // of an open load
	Percentiles *Percentiles `json:"percentiles,omitempty"`
	Timeline    *Timeline    `json:"timeline,omitempty"`
}

// Audit compares the orders with the stock, and both with what buyers were told.
type Audit struct {
	Sold             int64 `json:"sold"` // units in order rows
	Oversold         int64 `json:"oversold"`
	OversoldPossible int64 `json:"oversold_possible"`
	LostUpdates      int64 `json:"lost_updates"`
	Undersold        int64 `json:"undersold"`
	Stranded         int64 `json:"stranded"` // units that are neither sold nor left

	// What buyers were told, compared with the orders by id. All are 0 in older reports.
	Duplicates          int64 `json:"duplicates"`
	AcknowledgedMissing int64 `json:"acknowledged_missing"` // replies that do not match an order in the database
	Unreported          int64 `json:"unreported"`           // orders without a reply, except those of cut-off buyers

	// Figures of orders that are written behind the sale; 0 if there are no such orders.
	AcceptedLost int64   `json:"accepted_lost"`            // orders that were accepted and then lost
	DurableP99   float64 `json:"durable_p99_ms,omitempty"` // time until 99 of 100 accepted orders were written
	Drain        float64 `json:"drain_ms,omitempty"`       // time from the last reply until all orders were written
}

// NewAudit computes the figures of one item from its stock, what buyers were told, the number of
// unresolved requests, and the buyers who were turned away.
func NewAudit(found figures.Stock, told figures.Told, unresolved, turnedAway int64) Audit {
	return Audit{
		Sold: found.Sold, Oversold: found.Oversold(), OversoldPossible: found.OversoldPossible(unresolved),
		LostUpdates: found.LostUpdates(), Undersold: found.Undersold(turnedAway), Stranded: found.Stranded(),
		Duplicates:          max(found.Duplicates, told.Duplicates),
		AcknowledgedMissing: told.AcknowledgedMissing, Unreported: told.Unreported, AcceptedLost: told.AcceptedLost,
	}
}

// Add adds the figures of another item. It keeps the longer of the two times until orders were written.
func (a *Audit) Add(b Audit) {
	a.Sold += b.Sold
	a.Oversold += b.Oversold
	a.OversoldPossible += b.OversoldPossible
	a.LostUpdates += b.LostUpdates
	a.Undersold += b.Undersold
	a.Stranded += b.Stranded
	a.Duplicates += b.Duplicates
	a.AcknowledgedMissing += b.AcknowledgedMissing
	a.Unreported += b.Unreported
	a.AcceptedLost += b.AcceptedLost
	a.DurableP99 = max(a.DurableP99, b.DurableP99)
}

// Line describes the outcome in one line, while other rows are still running. Like the table, it
// marks an outcome that differs from the expectation.
func (r Row) Line(s present.Style) string {
	if r.Lock != nil {
		return fmt.Sprintf("%-28s %s", r.Strategy, s.Verdict(r.Verdict))
	}
	verdict, what := s.Verdict(r.Verdict), s.Sayf("sold %5d, oversold %4d", r.Sold, r.Oversold)
	what += r.Items.of(s)
	if r.Workload == catalog.Cache {
		what = s.Sayf("loaded %3d times", r.DBLoads)
	}
	if !r.Expected {
		verdict += " (!)"
	}
	return fmt.Sprintf("%-28s %s  %s", r.in(s), what, verdict)
}

// Held holds the figures of a row whose buyers hold a unit first and pay later.
type Held struct {
	Holds    int64 `json:"holds"`    // number of holds that buyers got before the final sell-out
	Captures int64 `json:"captures"` // payments that the provider has captured
	Refunds  int64 `json:"refunds"`
	// ChargedWithoutOrder is the number of captures that ended in neither exactly one order
	// nor exactly one refund.
	ChargedWithoutOrder int64 `json:"charged_without_order"`
	// SellableAfter is the longest time from the expiry of a hold until its units could be sold
	// again; nil: no hold expired while no buyer was buying.
	SellableAfter *float64 `json:"sellable_after_s"`
	// AgreesAfter is the time from the end of the load until orders, units, holds and
	// payments agreed; nil: they did not.
	AgreesAfter *float64 `json:"agrees_after_s"`
	Seams       []string `json:"seams,omitempty"` // where faults were injected: seams, or partners that were cut off
}

// Kills holds the figures of a row in which processes were killed between two steps of an order that is written
// behind the sale.
type Kills struct {
	KilledAt []string `json:"killed_at"` // the seams, in order
	// AgreesAfterKill is the time from the last kill until all accepted orders were written and
	// the stock agreed with them; nil: it did not.
	AgreesAfterKill *float64 `json:"agrees_after_kill_s"`
}

// Discarded is a run of a row that does not count, because a process stalled for so long that the run says nothing
// about the lock, or because a fault was not injected.
type Discarded struct {
	TTL     string          `json:"ttl"`
	Verdict figures.Verdict `json:"verdict"`
	Differs string          `json:"differs,omitempty"` // from the expectation
	Message message.Message `json:"message,omitzero"`  // Differs, to be translated
	Stalled float64         `json:"stalled_ms"`
	Missed  bool            `json:"missed,omitempty"` // a fault of the row was not injected
}

// Parts divides the report by workload. Each part has the rows of one workload and their manifest. A part may have
// no rows.
func (r Report) Parts() []Report {
	if len(r.Manifest.Also) == 0 {
		return []Report{r}
	}
	parts := make([]Report, 0, 1+len(r.Manifest.Also))
	for _, m := range append([]Manifest{r.Manifest}, r.Manifest.Also...) {
		part := Report{Manifest: m}
		part.Manifest.Also = nil
		for _, row := range r.Rows {
			if string(row.Workload) == m.Workload {
				part.Rows = append(part.Rows, row)
			}
		}
		parts = append(parts, part)
	}
	return parts
}

// conditions returns the conditions of the rows, in the order in which they were run.
func (r Report) conditions() (all []catalog.Condition) {
	for _, row := range r.Rows {
		if !slices.Contains(all, row.Condition) {
			all = append(all, row.Condition)
		}
	}
	return all
}

// under returns the rows under a condition.
func (r Report) under(c catalog.Condition) []Row {
	return slices.DeleteFunc(slices.Clone(r.Rows), func(row Row) bool { return row.Condition != c })
}

// Differ records how the row differs from the expectation. It does not if the message is empty.
func (r *Row) Differ(m message.Message) { r.Differs, r.Message = m.String(), m }

// AsExpected reports whether every row matched the catalog's expectation.
func (r Report) AsExpected() bool {
	for _, row := range r.Rows {
		if !row.Expected {
			return false
		}
	}
	return true
}

// ofLocks reports whether the rows are of the lock workload.
func (r Report) ofLocks() bool { return r.Manifest.Workload == string(WorkloadLock) }

// WriteJSON writes the report as JSON, with a summary of the runs of each row.
func (r Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	var summary any = r.groups()
	if r.ofLocks() {
		summary = r.lockGroups()
	}
	if err := e.Encode(struct {
		Report
		Summary any `json:"summary"`
	}{r, summary}); err != nil {
		return fmt.Errorf("writing the report as JSON: %w", err)
	}
	return nil
}

// Open holds the figures of a row whose requests were sent at a constant rate. The latencies of the row itself are
// measured from the planned times.
type Open struct {
	Planned      int64   `json:"planned"`
	Sent         int64   `json:"sent"`
	Dropped      int64   `json:"dropped"`       // too many were in flight at the planned time
	AchievedRate float64 `json:"achieved_rate"` // requests sent per second
	Late         float64 `json:"late_ms"`       // longest delay of a request after its planned time
	ServiceP50   float64 `json:"service_p50_ms"`
	ServiceP99   float64 `json:"service_p99_ms"`
	ServiceMax   float64 `json:"service_max_ms"`
}

// Timeline counts the requests that were served in each interval of a row.
type Timeline struct {
	Bin    float64 `json:"bin_ms"`
	Served []int64 `json:"served"`
}

// Percentiles holds percentiles of a row's latencies and waits, in ms.
type Percentiles struct {
	P       []float64 `json:"p"`
	Latency []float64 `json:"latency_ms"`
	Service []float64 `json:"service_ms,omitempty"` // of an open load
	Wait    []float64 `json:"wait_ms,omitempty"`    // wait for the critical section, of requests that entered it
}

// Untrue describes the untrue replies to buyers. The message is empty if there were none.
func (a Audit) Untrue() message.Message {
	var wrong []message.Message
	for _, w := range []struct {
		n    int64
		what string
	}{
		{a.AcknowledgedMissing, "replies that do not match an order in the database: %d"},
		{a.Unreported, "orders that no buyer was told of: %d"},
		{a.Duplicates, "orders beyond the first for one idempotency key: %d"},
	} {
		if w.n > 0 {
			wrong = append(wrong, message.Newf(w.what, w.n))
		}
	}
	return message.Join("%v, %v", wrong...)
}
