package stages

import (
	"io/fs"
	"path"
	"slices"
	"strings"
	"testing"

	"oversell/internal/lab"
	"oversell/internal/locks"
)

func all(t *testing.T) []Stage {
	t.Helper()
	list, err := Stages()
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestStagesAreTaughtInTheOrderOfTheCatalog(t *testing.T) {
	var names []string
	before := noLock
	for _, s := range all(t) {
		names = append(names, s.Name)
		if s.Before != before {
			t.Errorf("%s is compared with %s; want %s", s.Name, s.Before, before)
		}
		before = s.Name
		known, err := locks.Strategies().Find(s.Name)
		if err != nil || s.Adds != known.Adds || s.Breaks != known.Breaks {
			t.Errorf("%s is told otherwise than in the catalog (%v)", s.Name, err)
		}
	}
	folders, err := fs.Glob(locks.Sources(), "*")
	if err != nil {
		t.Fatal(err)
	}
	// The folders are numbered: their names sort as they are taught.
	if len(names) == 0 || !slices.Equal(names, folders) {
		t.Errorf("stages %v; want those that have sources: %v", names, folders)
	}
}

func TestStageHasItsSourcesAndItsComment(t *testing.T) {
	for _, s := range all(t) {
		for _, f := range s.Files {
			text, err := fs.ReadFile(locks.Sources(), path.Join(s.Name, f.Name))
			if err != nil || f.Source != string(text) {
				t.Errorf("%s/%s is not as it is in the folder (%v)", s.Name, f.Name, err)
			}
			if f.Language != "go" && f.Language != "lua" {
				t.Errorf("%s/%s is in %q", s.Name, f.Name, f.Language)
			}
		}
		if s.Files[0].Name != "mutex.go" {
			t.Errorf("the reading of %s begins with %s", s.Name, s.Files[0].Name)
		}
		for _, part := range []string{"Package lock is stage ", "\nNew: ", "\nHolds:\n", "\nBreaks:\n"} {
			if !strings.Contains(s.Comment, part) {
				t.Errorf("the comment of %s lacks %q", s.Name, part)
			}
		}
	}
}

// Each side of the rows is the file on that side, line by line.
func TestRowsAreTheTwoFiles(t *testing.T) {
	before := make(map[string]string)
	for _, s := range all(t) {
		now := make(map[string]string)
		for _, f := range s.Files {
			if got := side(f.Rows, func(r Row) *Line { return r.Old }); got != before[f.Name] {
				t.Errorf("%s/%s: the old side of the rows is not the file of the stage before", s.Name, f.Name)
			}
			if got := side(f.Rows, func(r Row) *Line { return r.New }); got != f.Source {
				t.Errorf("%s/%s: the new side of the rows is not the file", s.Name, f.Name)
			}
			now[f.Name] = f.Source
		}
		for name := range before {
			if _, ok := now[name]; !ok {
				t.Errorf("%s/%s is gone, and no row says so", s.Name, name)
			}
		}
		before = now
	}
}

// Every anomaly that the record says a stage fixes has a line; every line is one
// line, it is new or changed, and what it fixes is fixed by the record.
func TestEveryFixHasItsLine(t *testing.T) {
	stages := all(t)
	fixed := make(map[[2]string]bool)
	for _, s := range stages {
		for _, f := range s.Fixes {
			fixed[[2]string{s.Name, f.Name}] = true
			if len(f.Lines) == 0 {
				t.Errorf("By the lab's record %s fixes %s, and no line is named for it. "+
					"Add to fixingLines in internal/stages/lines.go, among the lines of %s:\n"+
					"\t{%q, %q, `TEXT`},\n"+
					"where TEXT is a piece of the line in internal/locks/%s by which it does. "+
					"The line has to be new or changed since %s, and no other line of the stage may have the piece.",
					s.Name, f.Name, s.Name, s.Name, f.Name, s.Name, s.Before)
			}
		}
	}
	for _, l := range fixingLines() {
		i := slices.IndexFunc(stages, func(s Stage) bool { return s.Name == l.stage })
		if i < 0 {
			t.Errorf("%v: there is no stage %s", l, l.stage)
			continue
		}
		s := stages[i]
		if !fixed[[2]string{l.stage, l.anomaly}] {
			t.Errorf("By the lab's record %s does not fix %s: with %s it %s, with %s it %s. "+
				"Remove the line of internal/stages/lines.go that says so: %q",
				l.stage, l.anomaly, s.Before, outcome(l.anomaly, s.Before), s.Name, outcome(l.anomaly, s.Name), l)
		}
		places := s.find(l.text)
		if len(places) != 1 {
			t.Errorf("%d lines of %s have the text %q; want one: %v", len(places), l.stage, l.text, places)
			continue
		}
		if kind := s.kind(places[0]); kind != Added && kind != Changed {
			t.Errorf("%q of %s is the %s line as in %s: it cannot fix %s", l.text, l.stage, kind, s.Before, l.anomaly)
		}
	}
}

func TestFixIsToldInTheWordsOfTheLab(t *testing.T) {
	told := make(map[string]lab.Anomaly)
	for _, s := range lab.Scenarios() {
		told[s.Name] = s.Anomaly
	}
	for _, s := range all(t) {
		for _, f := range s.Fixes {
			if f.Sentence == "" || f.Anomaly != told[f.Name] {
				t.Errorf("%s is told by %s as %+v; want %+v", f.Name, s.Name, f.Anomaly, told[f.Name])
			}
		}
	}
}

// What holds with a stage is what held before, and what it fixes, without what
// it breaks anew.
func TestFixesAndReopensAreWhatTheRecordSays(t *testing.T) {
	for _, s := range all(t) {
		held := with(s.Before, lab.Holds, s.Name)
		for _, f := range s.Fixes {
			held = append(held, f.Name)
		}
		held = slices.DeleteFunc(held, func(name string) bool {
			return slices.ContainsFunc(s.Reopens, func(a lab.Anomaly) bool { return a.Name == name })
		})
		now := with(s.Name, lab.Holds, s.Before)
		slices.Sort(held)
		slices.Sort(now)
		if !slices.Equal(held, now) {
			t.Errorf("%s holds %v, less what has no meaning for %s; on record is %v", s.Name, held, s.Before, now)
		}
	}
}

func TestUnknownAnomalyIsNotFixed(t *testing.T) {
	if got := turned("no such strategy", lab.Breaks, "v1_setnx", lab.Holds); len(got) != 0 {
		t.Errorf("what is not on record counts as broken: %v", got)
	}
}

// with lists the anomalies with an outcome for a strategy that make sense for
// another one as well.
func with(strategy string, outcome lab.Outcome, other string) []string {
	var names []string
	for _, a := range lab.Scenarios() {
		if o := a.Expected(other); a.Expected(strategy) == outcome && (o == lab.Holds || o == lab.Breaks) {
			names = append(names, a.Name)
		}
	}
	return names
}

func outcome(anomaly, strategy string) lab.Outcome {
	for _, a := range lab.Scenarios() {
		if a.Name == anomaly {
			return a.Expected(strategy)
		}
	}
	return "is unknown"
}

func (s Stage) kind(p Place) Kind {
	for _, f := range s.Files {
		for _, r := range f.Rows {
			if f.Name == p.File && r.New != nil && r.New.Number == p.Line {
				return r.Kind
			}
		}
	}
	return ""
}
