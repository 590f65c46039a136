// Package lab breaks each strategy on purpose, in the same way every time. A cell is one anomaly
// tried on one strategy. In a cell several actors, each with its own connection to Redis, run the
// real lock code while faults are injected: replies are delayed or lost, processes are frozen or
// killed. The outcome is computed from what happened, and compared with the outcome on record.
//
// A Scenario plays an anomaly in a World: it starts a Process for each actor, takes the
// lock with a Holder, injects faults into processes and servers, and returns a Verdict. The
// catalogue of scenarios is package anomalies. The scheduler (Play) plays two or three buyers
// command by command, and package search tries all schedules.
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

	"oversell/internal/message"
)

// Outcome is the result of a cell.
type Outcome string

// The outcomes.
const (
	Holds   Outcome = "holds"   // the strategy keeps the promise
	Breaks  Outcome = "breaks"  // the strategy does not keep it
	NA      Outcome = "n/a"     // the anomaly does not apply to it; the note says why
	Unknown Outcome = "unknown" // the run was inconclusive; the note says what did not happen

	NoRecord Outcome = "" // the value of Cell.Expected if no outcome is on record, as for your own lock
)

// Report is the result of a run of the lab. Other programs rely on its JSON form.
type Report struct {
	Manifest  Manifest  `json:"manifest"`
	Anomalies []Anomaly `json:"anomalies"` // the anomalies of the cells, in the order of the cells
	Cells     []Cell    `json:"cells"`

	// In a report on locks, Holds is the report on the stages of a sale by holds. It is nil if none
	// of these stages ran.
	Holds *Report `json:"holds,omitempty"`

	// In the first report of a run, Behind is the report on repairs and on orders that are written
	// asynchronously. It is nil if no such cell ran.
	Behind *Report `json:"behind,omitempty"`
}

// Manifest describes the run that produced a report.
type Manifest struct {
	Started    time.Time     `json:"started"`
	Redis      string        `json:"redis"` // kind and version
	Go         string        `json:"go"`
	OS         string        `json:"os"`
	CPUs       int           `json:"cpus"`
	Version    string        `json:"version"`                // version of the lab
	TTL        time.Duration `json:"ttl_ns"`                 // lease of a lock
	AskedTTL   time.Duration `json:"asked_ttl_ns,omitempty"` // the lease from Config.TTL; 0: the default
	Virtual    bool          `json:"virtual"`                // time was virtual
	Wall       time.Duration `json:"wall_ns"`                // how long the run took
	Strategies []string      `json:"strategies"`
	Database   string        `json:"database,omitempty"` // kind and version, if sales were tried
	Servers    []string      `json:"servers,omitempty"`  // servers, other than Redis, of some strategies' locks
}

// Anomaly describes one thing that can go wrong.
type Anomaly struct {
	Name     string `json:"name"`
	Loss     Loss   `json:"loss"`     // the damage to the shop's users
	Sentence string `json:"sentence"` // a sentence that a beginner understands
	Sequence string `json:"sequence"` // what happens in which order
	Source   string `json:"source"`   // a report of it from production, or a description
}

// Loss is the damage to a shop's users when an anomaly breaks its lock or its sale. An anomaly that
// does several kinds of damage is given the worst one.
type Loss string

// The losses.
const (
	SellsTwice Loss = "sells-twice" // a unit goes to two buyers, or two holders are in the section at once
	Stuck      Loss = "stuck"       // a lock or a unit stays taken, and nobody can ever get it
	// WaitsForNothing: a caller waits or is refused although the lock is free or could be freed.
	WaitsForNothing Loss = "waits-for-nothing"
	WastedWork      Loss = "wasted-work" // work is done more than once or thrown away
	APITrap         Loss = "api-trap"    // a call returns something that its caller does not expect
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

	Message message.Message `json:"message,omitzero"` // Note, to be translated

	TTL time.Duration `json:"-"` // lease of its lock; 0: that of the manifest
}

// AsExpected reports whether the cell has the recorded outcome.
func (c Cell) AsExpected() bool { return c.Expected == NoRecord || c.Outcome == c.Expected }

// Kind says what an event is, such as a command or a release.
type Kind string

// The kinds of events.
const (
	// Command: a command was sent to Redis (it may not have arrived), or a lock that is not in
	// Redis was called.
	Command Kind = "command"
	Hold    Kind = "hold"    // from here on the actor believes that it holds the lock
	Release Kind = "release" // from here on it no longer believes so, because it released the lock
	Lost    Kind = "lost"    // from here on it no longer believes so, because it has learned that the lock is lost
	Fault   Kind = "fault"   // a fault was injected into the actor: frozen, killed, a reply lost
	Note    Kind = "note"    // what the actor does or learns
	Break   Kind = "break"   // the moment when the promise is broken
)

// Texts that package show looks for.
const (
	Killed     = "killed"                         // the text of the Fault that kills the actor's process
	HeldUp     = "delayed on its way"             // begins the text of a Fault; the delayed command follows
	JumpsAhead = " jumps ahead by "               // in the text of the Fault that sets clocks ahead
	InRealTime = " in real time, with leases of " // in one of Manifest.Servers: between a strategy and its lease
)

// Event is one moment of a cell's timeline.
type Event struct {
	At    float64 `json:"at_ms"`              // since the cell began
	Until float64 `json:"until_ms,omitempty"` // command: when its reply arrived, or 0 if none did
	Actor string  `json:"actor"`              // "" for an event that concerns all actors
	Kind  Kind    `json:"kind"`
	Text  string  `json:"text"`            // a command as typed into redis-cli, or what happened
	Reply string  `json:"reply,omitempty"` // command: the reply, or in brackets why there is none
	// Lock is the holder of the lock in Redis after a command, or "free". It is absent after a
	// command that blocked in Redis.
	Lock string   `json:"lock,omitempty"`
	TTL  *float64 `json:"ttl_ms,omitempty"` // after a command: the time left on the lease; absent: no lease
	// Keys are the keys that a command or a fault changed since an earlier event showed them. A ttl
	// that has only run down is not a change.
	Keys []Key `json:"keys,omitempty"`

	Message message.Message `json:"message,omitzero"` // Text, to be translated

	// LeftOut says that this event stands for commands that were left out. From the last command
	// before this event on, the keys in Redis are not known.
	LeftOut bool `json:"left_out,omitempty"`
}

func newEvent(at float64, actor string, kind Kind, said message.Message) Event {
	return Event{At: at, Actor: actor, Kind: kind, Text: said.String(), Message: said}
}

// Unexpected returns the cells that do not have the recorded outcome.
func (r Report) Unexpected() []Cell {
	return slices.DeleteFunc(slices.Clone(r.Cells), Cell.AsExpected)
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

// AsExpected reports whether every cell that has an outcome on record has that outcome.
func (r Report) AsExpected() bool {
	return !slices.ContainsFunc(r.Everything(), func(c Cell) bool { return !c.AsExpected() })
}

// WriteJSON writes the report as JSON.
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

	// Clocks says that the scenario sets the clocks of the servers that keep the lock. Only the
	// clocks of servers in memory can be set; on other servers the scenario does not apply.
	Clocks bool

	// MySQL says that the scenario needs MySQL or MariaDB. It does not apply on SQLite.
	MySQL bool

	// NotApplicable returns why the scenario does not apply to a subject, or "" if it does. Nil:
	// the scenario applies to all subjects.
	NotApplicable func(c Subject) string

	Run func(w *World) Verdict

	// Requires lists what must have happened before the outcome can be Holds.
	Requires []Claim
}

// Try returns the scenario for an anomaly described in anomalies.json. WhyNot becomes NotApplicable
// and may be nil.
func Try(anomaly string, whyNot func(Subject) string, run func(*World) Verdict, requires ...Claim) Scenario {
	return Scenario{Anomaly: AnomalyNamed(anomaly), NotApplicable: whyNot, Run: run, Requires: requires}
}

func (s Scenario) name() string { return s.Name }

// FindScenarios returns the scenarios with these names, or an error that hints at the valid names.
func FindScenarios(all []Scenario, names []string) ([]Scenario, error) {
	return find("anomaly", all, Scenario.name, names)
}

// source returns the path of the file that defines the scenario's Run.
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

// Verdict is the outcome of a cell and the reason for it.
type Verdict struct {
	Outcome Outcome
	Note    message.Message
}

// Because returns a verdict with this outcome and the reason for it.
func (o Outcome) Because(format string, args ...any) Verdict {
	return Verdict{o, message.Newf(format, args...)}
}

// Need ends the scenario with the outcome Unknown unless ok. It panics with the Verdict, from which
// World.Go recovers.
func Need(ok bool, format string, args ...any) {
	if !ok {
		panic(Unknown.Because(format, args...))
	}
}
