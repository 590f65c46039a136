// Package lab breaks each strategy on purpose, in the same way every time. A cell is one
// anomaly tried on one strategy: actors, each of them a process to Redis, run the real
// lock code while faults are injected: replies are delayed or lost, processes are frozen
// or killed. The outcome is computed from what happened, and compared with the outcome
// on record.
//
// A Scenario plays an anomaly in a World: it starts a Process for each actor, takes the
// lock with a Holder, injects faults into processes and servers, and returns a Verdict.
// The catalogue of scenarios is package anomalies. The scheduler (Play, Search) plays
// two or three buyers command by command.
package lab

import (
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"time"
)

// Outcome is what came out of a cell.
type Outcome string

// The outcomes.
const (
	Holds   Outcome = "holds"   // the strategy keeps what it is asked for
	Breaks  Outcome = "breaks"  // it does not
	NA      Outcome = "n/a"     // the question does not apply to it; the note says why
	Unknown Outcome = "unknown" // what happened does not decide; the note says what did not happen

	NoRecord Outcome = "" // of Cell.Expected: nothing is on record, as for a lock of your own
)

// Report is what a run of the lab found. Its JSON form is relied upon.
type Report struct {
	Manifest  Manifest  `json:"manifest"`
	Anomalies []Anomaly `json:"anomalies"` // of the cells, in their order
	Cells     []Cell    `json:"cells"`

	// Holds is the report on the stages of holds, in one on locks: nil if none of them ran.
	Holds *Report `json:"holds,omitempty"`

	// Behind is the report on repairs, and on orders that are written behind the sale, in the
	// first one of a run: nil if none of them ran.
	Behind *Report `json:"behind,omitempty"`
}

// Manifest says what a report was made with.
type Manifest struct {
	Started    time.Time     `json:"started"`
	Redis      string        `json:"redis"` // kind and version
	Go         string        `json:"go"`
	OS         string        `json:"os"`
	CPUs       int           `json:"cpus"`
	Version    string        `json:"version"`                // of the lab
	TTL        time.Duration `json:"ttl_ns"`                 // lease of a lock
	AskedTTL   time.Duration `json:"asked_ttl_ns,omitempty"` // lease that was asked for; 0: the default
	Virtual    bool          `json:"virtual"`                // time was virtual
	Wall       time.Duration `json:"wall_ns"`                // how long the run took
	Strategies []string      `json:"strategies"`
	Database   string        `json:"database,omitempty"` // kind and version, of a sale
	Servers    []string      `json:"servers,omitempty"`  // beside Redis: what the locks of some strategies live on
}

// Anomaly is what can go wrong, told.
type Anomaly struct {
	Name     string `json:"name"`
	Loss     Loss   `json:"loss"`     // what the shop's users lose by it
	Sentence string `json:"sentence"` // one that a beginner understands
	Sequence string `json:"sequence"` // what happens in which order
	Source   string `json:"source"`   // where it happened for real
}

// Loss is what the users of a shop lose when an anomaly breaks its lock, or its sale. An
// anomaly that costs several of these has the worst one.
type Loss string

// The losses.
const (
	SellsTwice Loss = "sells-twice" // a unit goes to two buyers, or two holders are inside at once
	Stuck      Loss = "stuck"       // a lock or a unit stays taken, and nobody gets it any more
	// WaitsForNothing: somebody waits, or is turned away, although the lock is free, or could be.
	WaitsForNothing Loss = "waits-for-nothing"
	WastedWork      Loss = "wasted-work" // work is done more than once, or thrown away
	APITrap         Loss = "api-trap"    // a call returns something else than its caller expects
)

// Losses returns all losses, the worst first.
func Losses() []Loss { return []Loss{SellsTwice, Stuck, WaitsForNothing, WastedWork, APITrap} }

// Cell is one anomaly tried on one strategy.
type Cell struct {
	Anomaly  string  `json:"anomaly"`
	Strategy string  `json:"strategy"`
	Outcome  Outcome `json:"outcome"`
	Expected Outcome `json:"expected"` // the outcome on record, or NoRecord
	Note     string  `json:"note"`     // what decided the outcome, in one sentence
	Trace    []Event `json:"trace"`
}

// AsExpected reports whether the cell has the recorded outcome.
func (c Cell) AsExpected() bool { return c.Expected == NoRecord || c.Outcome == c.Expected }

// Kind is what an event is about.
type Kind string

// The kinds of events.
const (
	// Command: a command reached Redis, or was kept from it. A lock that is not in Redis was called.
	Command Kind = "command"
	Hold    Kind = "hold"    // from here on the actor believes that it holds the lock
	Release Kind = "release" // from here on it no longer does, by its own will
	Lost    Kind = "lost"    // from here on it no longer does: it was told that the lock is lost
	Fault   Kind = "fault"   // something was done to the actor from outside: frozen, killed, a reply lost
	Note    Kind = "note"    // what the actor does or learns
	Break   Kind = "break"   // the moment at which it goes wrong
)

// Event is one moment of a cell's timeline.
type Event struct {
	At    float64 `json:"at_ms"`              // since the cell began
	Until float64 `json:"until_ms,omitempty"` // command: when its reply came, or 0 if none did
	Actor string  `json:"actor"`              // "" for what concerns all
	Kind  Kind    `json:"kind"`
	Text  string  `json:"text"`            // a command, as one would type it, or what happened
	Reply string  `json:"reply,omitempty"` // command: what Redis answered, or what became of it
	// Lock is who holds the lock after a command, as Redis has it, or "free". It is absent after a
	// command that waited in Redis.
	Lock string   `json:"lock,omitempty"`
	TTL  *float64 `json:"ttl_ms,omitempty"` // after a command: what is left of the lease; absent: no lease
	// Keys are those that, after a command or a fault, are not in Redis as the events before it have
	// left them. What is left of a ttl goes on to shrink.
	Keys []Key `json:"keys,omitempty"`

	// LeftOut says that the text is about commands that were left out. The keys in Redis are
	// not known from the last command before it on.
	LeftOut bool `json:"left_out,omitempty"`
}

// Unexpected returns the cells that do not have the recorded outcome.
func (r Report) Unexpected() []Cell {
	var out []Cell
	for _, c := range r.Cells {
		if !c.AsExpected() {
			out = append(out, c)
		}
	}
	return out
}

// Everything returns the cells of all tables.
func (r Report) Everything() []Cell {
	all := slices.Clone(r.Cells)
	for _, beside := range []*Report{r.Holds, r.Behind} {
		if beside != nil {
			all = append(all, beside.Cells...)
		}
	}
	return all
}

// AsExpected reports whether every cell came out as on record, or nothing is on record.
func (r Report) AsExpected() bool {
	return !slices.ContainsFunc(r.Everything(), func(c Cell) bool { return !c.AsExpected() })
}

// WriteJSON writes the report in the form that is relied upon.
func (r Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	if err := e.Encode(r); err != nil {
		return fmt.Errorf("writing the report as JSON: %w", err)
	}
	return nil
}

// Scenario is an anomaly that can be tried.
type Scenario struct {
	Anomaly

	// Clocks says that it sets the clocks of the servers that keep the lock. That is
	// possible only for servers in memory: elsewhere the question does not apply.
	Clocks bool

	// MySQL says that it is about what MySQL and MariaDB do and SQLite does not. On SQLite
	// the question does not apply.
	MySQL bool

	// NotApplicable says why the question does not apply to a subject, or returns "".
	// Nil: it applies to all.
	NotApplicable func(c Subject) string

	Run func(w *World) Verdict

	// Requires is what must have happened for its outcome to be holds.
	Requires []Claim
}

// Try returns the scenario of an anomaly that anomalies.json describes. WhyNot may be nil.
func Try(anomaly string, whyNot func(Subject) string, run func(*World) Verdict, requires ...Claim) Scenario {
	return Scenario{Anomaly: AnomalyNamed(anomaly), NotApplicable: whyNot, Run: run, Requires: requires}
}

func (s Scenario) name() string { return s.Name }

// FindScenarios returns the anomalies with these names, or an error that says
// which there are.
func FindScenarios(all []Scenario, names []string) ([]Scenario, error) {
	return find("anomaly", all, Scenario.name, names)
}

// source is the file of the project in which the scenario's Run is.
func (s Scenario) source() string {
	at := reflect.ValueOf(s.Run).Pointer()
	file, _ := runtime.FuncForPC(at).FileLine(at)
	return file[max(0, strings.LastIndex(file, "internal/lab/")):]
}

// Expected returns the outcome on record, or NoRecord for a subject that has none.
func (s Scenario) Expected(strategy string) Outcome { return Recorded()[strategy][s.Name] }

func (s Scenario) whyNot(c Subject) string {
	if s.NotApplicable == nil {
		return ""
	}
	return s.NotApplicable(c)
}

// Verdict is the outcome of a cell, and what decided it.
type Verdict struct {
	Outcome Outcome
	Note    string
}

// Because is the verdict with this outcome and a reason for it.
func (o Outcome) Because(format string, args ...any) Verdict {
	return Verdict{o, fmt.Sprintf(format, args...)}
}

// stuck ends a scenario that cannot go on: something that it needs did not happen,
// so nothing is decided. It is panicked with, and caught by play.
type stuck struct{ why string }

// Need ends the scenario, with nothing decided, unless ok.
func Need(ok bool, format string, args ...any) {
	if !ok {
		panic(stuck{fmt.Sprintf(format, args...)})
	}
}
