package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"oversell/internal/bench/chaos"
	"oversell/internal/figures"
	"oversell/internal/locks"
	"oversell/internal/stock"
)

// Report is what a bench found. Its JSON form is relied upon.
type Report struct {
	Manifest Manifest `json:"manifest"`
	Rows     []Row    `json:"rows"`
}

// Manifest says what a report was made with.
type Manifest struct {
	Format     int          `json:"format"` // of the report
	ID         string       `json:"id"`     // of the bench: its items are called bench-ID-1 and so on
	Started    time.Time    `json:"started"`
	Redis      string       `json:"redis"` // kind and version
	DB         string       `json:"db"`
	Servers    []string     `json:"servers,omitempty"` // others, that some of the strategies need
	Go         string       `json:"go"`
	OS         string       `json:"os"`
	CPUs       int          `json:"cpus"`
	Version    string       `json:"version"`            // of the bench
	Requests   int          `json:"requests"`           // of each row; of an open load those that were planned
	Rate       int          `json:"rate,omitempty"`     // of an open load, in requests a second; 0: all go at once
	Duration   string       `json:"duration,omitempty"` // of an open load
	InFlight   int          `json:"in_flight,omitempty"`
	Stock      int64        `json:"stock"`
	Workload   string       `json:"workload"`
	Instances  int          `json:"instances"`
	Targets    []string     `json:"targets,omitempty"`
	TTL        string       `json:"ttl,omitempty"` // this and the next three: not of shops at Targets
	Work       string       `json:"work,omitempty"`
	Wait       string       `json:"wait,omitempty"`
	Retry      string       `json:"retry,omitempty"` // waiting policy
	Keys       Keys         `json:"keys"`
	SecondLook bool         `json:"second_look"`
	Keeper     stock.Keeper `json:"keeper,omitempty"`   // of the stock, where it was asked for
	Unfenced   bool         `json:"unfenced,omitempty"` // the stock does not look at fencing tokens
	Repeat     int          `json:"repeat"`             // runs of each row that were asked for
	Planned    int          `json:"planned,omitempty"`  // rows that were to be run, each as often as it was to be repeated
	Seed       uint64       `json:"seed,omitempty"`     // by which the faults of condition chaos were drawn in the first run
	Flags      []string     `json:"flags,omitempty"`    // that the bench was given, but for secrets
}

// format is the one in which reports are written and read. One that programs
// cannot read by what they know of this one is to have another number.
const format = 1

// Row is what came out of one run of a strategy under a condition. Figures have
// one meaning everywhere: see package figures.
type Row struct {
	Strategy  string          `json:"strategy"`
	Condition locks.Condition `json:"condition"`
	Workload  locks.Workload  `json:"workload"`
	Undecided bool            `json:"undecided,omitempty"` // the catalog expects nothing of it
	Keeper    stock.Keeper    `json:"keeper,omitempty"`    // of the stock; not in reports from before it was asked
	Repeat    int             `json:"repeat"`              // which run of the row it is, from 1
	Requests  int             `json:"requests"`
	Stock     int64           `json:"stock"`

	Sold             int64 `json:"sold"`     // units in order rows
	SoldOut          int64 `json:"sold_out"` // buyers told that the item is sold out
	Failed           int64 `json:"failed"`   // requests refused for another reason
	Unknown          int64 `json:"unknown"`  // requests whose outcome was not learned
	Oversold         int64 `json:"oversold"`
	OversoldPossible int64 `json:"oversold_possible"`
	LostUpdates      int64 `json:"lost_updates"`
	Undersold        int64 `json:"undersold"`
	Duplicates       int64 `json:"duplicates"`

	// What buyers were told, compared with the orders by id. All are 0 in reports
	// from before it was compared.
	AcknowledgedMissing int64 `json:"acknowledged_missing"` // replies that named an order that is not in the database as it was told
	Unreported          int64 `json:"unreported"`           // orders that nobody was told of, other than those of buyers who were cut off
	Uncompared          int64 `json:"uncompared,omitempty"` // replies that were too many to be kept
	Stranded            int64 `json:"stranded"`             // units that are neither sold nor left

	MaxHolders int   `json:"max_holders"`
	DBLoads    int64 `json:"db_loads"` // cache: loads of the cold key, in all

	P50           float64  `json:"p50_ms"`
	P95           float64  `json:"p95_ms"`
	P99           float64  `json:"p99_ms"`
	Max           float64  `json:"max_ms"`
	Wall          float64  `json:"wall_ms"`
	Throughput    float64  `json:"throughput"`     // units sold, or values read, a second
	RedisCommands *float64 `json:"redis_commands"` // commands the server counted, a request; nil: they were not counted

	Verdict  figures.Verdict `json:"verdict"`
	Expected bool            `json:"expected"`          // it came out as the catalog says it must
	Differs  string          `json:"differs,omitempty"` // what did not

	Rate     int    `json:"rate,omitempty"`     // of an open load, in requests a second
	Duration string `json:"duration,omitempty"` // of an open load

	TTL       string      `json:"ttl,omitempty"`       // of this row's leases
	Stalled   float64     `json:"stalled_ms"`          // longest time that a process stood still, if that was too long for the ttl
	Discarded []Discarded `json:"discarded,omitempty"` // earlier tries at this row

	Chaos *chaos.Result `json:"chaos,omitempty"` // of a row under chaos: its seed and faults, and what came of them

	Open        *Open        `json:"open,omitempty"` // of an open load
	Percentiles *Percentiles `json:"percentiles,omitempty"`
	Timeline    *Timeline    `json:"timeline,omitempty"`

	Served  int64            `json:"served"`            // requests answered with 200
	Reasons map[string]int64 `json:"reasons,omitempty"` // failed and unknown requests by the word for what ended them
	Loads   map[string]int64 `json:"loads,omitempty"`   // cache: loads by instance
}

// Discarded is a try at a row that decides nothing: a process stood still for
// too long to tell what the lock did.
type Discarded struct {
	TTL     string          `json:"ttl"`
	Verdict figures.Verdict `json:"verdict"`
	Differs string          `json:"differs,omitempty"` // from what must come out
	Stalled float64         `json:"stalled_ms"`
}

// AsExpected reports whether every row came out as the catalog says it must.
func (r Report) AsExpected() bool {
	for _, row := range r.Rows {
		if !row.Expected {
			return false
		}
	}
	return true
}

// WriteJSON writes the report in the form that is relied upon, and what its runs
// have in common.
func (r Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	if err := e.Encode(struct {
		Report
		Summary []Group `json:"summary"`
	}{r, r.Groups()}); err != nil {
		return fmt.Errorf("writing the report as JSON: %w", err)
	}
	return nil
}
