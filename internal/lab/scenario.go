package lab

import (
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strings"
)

// Scenario is an anomaly that can be tried.
type Scenario struct {
	Anomaly

	// Breaks are the subjects that break under it on record. All others hold, unless
	// the question does not apply to them.
	Breaks SubjectSet

	// FoundNA are the subjects of which only the run finds that the question does not
	// apply to them.
	FoundNA SubjectSet

	// Clocks says that it sets the clocks of the servers that keep the lock. That is
	// possible only for servers in memory: elsewhere the question does not apply.
	Clocks bool

	// MySQL says that it is about what MySQL and MariaDB do and SQLite does not. On SQLite
	// the question does not apply.
	MySQL bool

	// Of are the subjects that have a record; nil: the locks.
	Of []Subject

	// NotApplicable says why the question does not apply to a subject, or returns "".
	// Nil: it applies to all.
	NotApplicable func(c Subject) string

	Run func(w *World) Verdict

	// Requires is what must have happened for its outcome to be holds.
	Requires []Claim
}

// FindScenarios returns the anomalies with these names, or an error that says
// which there are.
func FindScenarios(all []Scenario, names []string) ([]Scenario, error) {
	return find("anomaly", all, func(s Scenario) string { return s.Name }, names)
}

// source is the file of the project in which the scenario's Run is.
func (s Scenario) source() string {
	at := reflect.ValueOf(s.Run).Pointer()
	file, _ := runtime.FuncForPC(at).FileLine(at)
	return file[max(0, strings.LastIndex(file, "internal/lab/")):]
}

// Expected returns the outcome on record, or NoRecord for a subject that has none.
func (s Scenario) Expected(strategy string) Outcome {
	of := s.Of
	if of == nil {
		of = recorded()
	}
	i := slices.IndexFunc(of, func(c Subject) bool { return c.Name == strategy })
	switch {
	case i < 0:
		return NoRecord
	case s.whyNot(of[i]) != "", s.FoundNA.has(strategy):
		return NA
	case s.Breaks.has(strategy):
		return Breaks
	}
	return Holds
}

// whyNot says why the question does not apply to a subject, or returns "".
func (s Scenario) whyNot(c Subject) string {
	if s.NotApplicable == nil {
		return ""
	}
	return s.NotApplicable(c)
}

// SubjectSet is a set of subjects, by name. The zero value is empty.
type SubjectSet struct {
	Names  []string
	Others bool // the set is all but these
}

func Only(names ...string) SubjectSet   { return SubjectSet{names, false} }
func AllBut(names ...string) SubjectSet { return SubjectSet{names, true} }

var EverySubject = AllBut()

func (s SubjectSet) has(name string) bool { return slices.Contains(s.Names, name) != s.Others }

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
