package stages

import (
	"strings"

	"oversell/internal/lab"
)

// Fix is an anomaly that a stage fixes.
type Fix struct {
	lab.Anomaly
	Lines []Place `json:"lines"` // by which it does
}

// Place is a line of a stage.
type Place struct {
	File string `json:"file"`
	Line int    `json:"line"` // from 1
}

// fixes returns what the record says that the stage fixes, and by which lines.
func (s Stage) fixes() []Fix {
	all := []Fix{}
	for _, a := range turned(s.Before, lab.Breaks, s.Name, lab.Holds) {
		fix := Fix{Anomaly: a, Lines: []Place{}}
		for _, l := range fixingLines() {
			if l.stage == s.Name && l.anomaly == a.Name {
				fix.Lines = append(fix.Lines, s.find(l.text)...)
			}
		}
		all = append(all, fix)
	}
	return all
}

// reopens returns what the record says that the stage breaks, and that held before.
func (s Stage) reopens() []lab.Anomaly { return turned(s.Before, lab.Holds, s.Name, lab.Breaks) }

// turned returns the anomalies with one outcome on record for one strategy, and
// another for the other.
func turned(before string, was lab.Outcome, stage string, is lab.Outcome) []lab.Anomaly {
	all := []lab.Anomaly{}
	for _, s := range lab.Scenarios() {
		if s.Expected(before) == was && s.Expected(stage) == is {
			all = append(all, s.Anomaly)
		}
	}
	return all
}

// find returns all lines of the stage that have a text in them.
func (s Stage) find(text string) []Place {
	var places []Place
	for _, f := range s.Files {
		for i, line := range strings.Split(f.Source, "\n") {
			if strings.Contains(line, text) {
				places = append(places, Place{f.Name, i + 1})
			}
		}
	}
	return places
}
