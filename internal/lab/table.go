package lab

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
)

// Table is a table of the lab: its anomalies, and the subjects on which they are tried.
type Table struct {
	Scenarios []Scenario
	Subjects  []Subject // tried by default
	Others    []Subject // tried only if they are named
}

// All returns all subjects.
func (t Table) All() []Subject { return slices.Concat(t.Subjects, t.Others) }

// Cells returns the number of cells that are tried by default.
func (t Table) Cells() int { return len(t.Subjects) * len(t.Scenarios) }

// Pick returns the tables with only the named anomalies and strategies. Without names it keeps all
// anomalies and all default subjects. Some of the tables may have no cell.
func Pick(tables []Table, anomalies, strategies []string) ([]Table, error) {
	var scenarios []Scenario
	var subjects []Subject
	for _, t := range tables {
		scenarios, subjects = append(scenarios, t.Scenarios...), append(subjects, t.All()...)
	}
	_, unknown := FindSubjects(subjects, strategies)
	_, unknown2 := FindScenarios(scenarios, anomalies)
	if err := cmp.Or(unknown, unknown2); err != nil {
		return nil, err
	}
	cells := 0
	picked := make([]Table, len(tables))
	for i, t := range tables {
		picked[i] = Table{Scenarios: t.Scenarios, Subjects: t.Subjects}
		if len(anomalies) > 0 {
			picked[i].Scenarios = only(t.Scenarios, Scenario.name, anomalies)
		}
		if len(strategies) > 0 {
			picked[i].Subjects = only(t.All(), Subject.name, strategies)
		}
		cells += picked[i].Cells()
	}
	if cells == 0 {
		return nil, errNoCell
	}
	return picked, nil
}

var errNoCell = errors.New("none of these anomalies is tried on any of these strategies: " +
	"-run names anomalies of one table and -strategies strategies of another (-list shows all)")

//go:embed anomalies.json
var anomaliesFile []byte

var described = sync.OnceValue(func() map[string]Anomaly {
	var all []Anomaly
	if err := json.Unmarshal(anomaliesFile, &all); err != nil {
		panic(fmt.Sprintf("lab: anomalies.json: %v", err)) // the file is part of the program
	}
	byName := make(map[string]Anomaly, len(all))
	for _, a := range all {
		byName[a.Name] = a
	}
	return byName
})

// AnomalyNamed returns the description of an anomaly in anomalies.json.
func AnomalyNamed(name string) Anomaly {
	a, ok := described()[name]
	if !ok {
		panic(fmt.Sprintf("lab: anomalies.json does not describe %s", name))
	}
	return a
}

//go:embed record.json
var recordFile []byte

// Record contains the outcome of every cell in an earlier run, by strategy and then by anomaly. The
// outcomes of each strategy are together, so that a diff of the record can be reviewed.
type Record map[string]map[string]Outcome

// Recorded returns the record that this program was built with. It must not be changed.
var Recorded = sync.OnceValue(func() Record {
	var r Record
	if err := json.Unmarshal(recordFile, &r); err != nil {
		panic(fmt.Sprintf("lab: record.json: %v", err)) // the file is part of the program
	}
	return r
})

// With returns the record updated with the outcomes of a run, without entries that are no longer in
// the tables. A cell does not change the record if its outcome is Unknown, or if it does not apply
// on the servers of the run, such as a MySQL anomaly on SQLite.
func (r Record) With(tables []Table, cells []Cell) Record {
	found := make(map[[2]string]Outcome)
	for _, c := range cells {
		if c.Outcome != Unknown && c.Outcome != c.Expected {
			found[[2]string{c.Strategy, c.Anomaly}] = c.Outcome
		}
	}
	out := make(Record)
	for _, t := range tables {
		for _, c := range t.All() {
			outcomes := make(map[string]Outcome)
			for _, s := range t.Scenarios {
				if o := cmp.Or(found[[2]string{c.Name, s.Name}], r[c.Name][s.Name]); o != NoRecord {
					outcomes[s.Name] = o
				}
			}
			if len(outcomes) > 0 {
				out[c.Name] = outcomes
			}
		}
	}
	return out
}

// WriteJSON writes the record in the format of record.json, with one anomaly per line.
func (r Record) WriteJSON(w io.Writer) error {
	out := json.NewEncoder(w)
	out.SetIndent("", " ")
	return out.Encode(r)
}
