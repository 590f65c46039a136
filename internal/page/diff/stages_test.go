package diff

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"testing"

	"oversell/internal/catalog"
	"oversell/internal/lab"
	"oversell/internal/lab/anomalies"
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

func TestEachStageIsComparedWithTheOneBefore(t *testing.T) {
	var names []string
	before := noLock
	for _, s := range all(t) {
		names = append(names, s.Name)
		if s.Before != before {
			t.Errorf("%s is compared with %s; want %s", s.Name, s.Before, before)
		}
		before = s.Name
		known, err := catalog.Strategies().Find(s.Name)
		if err != nil || s.Adds != known.Adds || s.Breaks != known.Breaks {
			t.Errorf("%s is not described as in the catalog (%v)", s.Name, err)
		}
	}
	if !slices.Equal(names, locks.Stages()) {
		t.Errorf("stages %v; want %v", names, locks.Stages())
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
		for _, part := range []string{"Package lock is stage ", "\nNew: ", "\nHolds:\n", "\nBreaks:\n"} {
			if !strings.Contains(s.Comment, part) {
				t.Errorf("the comment of %s lacks %q", s.Name, part)
			}
		}
	}
}

// What a stage adds is read first: the script of stage 4, not the comments of its mutex.go.
func TestReadingBeginsWithWhatIsNew(t *testing.T) {
	first := map[string]string{"v1_setnx": "mutex.go", "v4_lua": "unlock.lua", "v5_reentrant": "lock.lua", "v6_watchdog": "renewal.go"}
	var before []File
	for _, s := range all(t) {
		if want, ok := first[s.Name]; ok && s.Files[0].Name != want {
			t.Errorf("the reading of %s begins with %s, want %s", s.Name, s.Files[0].Name, want)
		}
		changed, gone := false, false
		for _, f := range s.Files {
			isNew := sourceOf(before, f.Name) == ""
			if isNew && changed || gone && f.Source != "" {
				t.Errorf("%s: %s comes too late", s.Name, f.Name)
			}
			changed, gone = changed || !isNew, gone || f.Source == ""
		}
		before = s.Files
	}
}

func TestFilesOfAStageAreOrderedByWhatTheyChange(t *testing.T) {
	before := []File{
		{Name: "comment.go", Source: "package a\n"}, {Name: "fixes.go", Source: "package a\n"},
		{Name: "gone.go", Source: "package a\n"}, {Name: "much.go", Source: "package a\n"}, {Name: "same.go", Source: "package a\n"},
	}
	files := []File{
		{Name: "comment.go", Source: "// A.\n\n// B.\n// C.\n// D.\npackage a\n"}, {Name: "fixes.go", Source: "package a\nvar a int\n"},
		{Name: "much.go", Source: "package a\nvar b, c int\nvar d int\n"}, {Name: "new.lua", Source: "return 1\n"}, {Name: "same.go", Source: "package a\n"},
	}
	s := Stage{Files: beside(before, files)}
	s.Fixes = []Fix{{Lines: []Lines{{"fixes.go", 2, 2}}}}
	s.order(before)
	var names []string
	for _, f := range s.Files {
		names = append(names, f.Name)
	}
	if got := strings.Join(names, " "); got != "new.lua fixes.go much.go comment.go same.go gone.go" {
		t.Errorf("the order is %s", got)
	}
}

// The comment that begins a file can be folded without a line of code in it, and no line of
// it is left over.
func TestHeadOfAFileIsItsFirstComment(t *testing.T) {
	for _, s := range all(t) {
		for _, f := range s.Files {
			for i, r := range f.Rows {
				for _, l := range []*Line{r.Old, r.New} {
					if i < f.Head && l.code() {
						t.Errorf("%s/%s: %q is in the head", s.Name, f.Name, l.Text)
					}
				}
				if i >= f.Head && r.New != nil && r.New.Number <= head(f.Source) {
					t.Errorf("%s/%s: %q is not in the head", s.Name, f.Name, r.New.Text)
				}
			}
			if f.Name == "mutex.go" && f.Head == 0 {
				t.Errorf("%s/%s has no head", s.Name, f.Name)
			}
		}
	}
}

// Each side of the rows is a file, line by line.
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

// Every anomaly that the record says a stage fixes has its lines, and no part is said to
// fix what the record does not. That the parts exist and have changed, Stages checks.
func TestEveryFixHasItsLines(t *testing.T) {
	stages := all(t)
	fixed := make(map[[2]string]bool)
	for _, s := range stages {
		for _, f := range s.Fixes {
			fixed[[2]string{s.Name, f.Name}] = true
			if len(f.Lines) == 0 {
				t.Errorf("By the lab's record %s fixes %s, and no part is named for it. Add to cures in internal/page/diff/fixes.go "+
					"the function or script of internal/locks/%s that fixes it. It has to be new or changed since %s.", s.Name, f.Name, s.Name, s.Before)
			}
			for _, l := range f.Lines {
				for _, n := range []int{l.First, l.Last} {
					if r := s.row(l.File, n); r.Kind != Added && r.Kind != Changed {
						t.Errorf("line %d of %s/%s is %q: it cannot fix %s", n, s.Name, l.File, r.Kind, f.Name)
					}
				}
			}
		}
	}
	for _, c := range cures() {
		for _, anomaly := range c.anomalies {
			if !fixed[[2]string{c.stage, anomaly}] {
				before := stages[slices.IndexFunc(stages, func(s Stage) bool { return s.Name == c.stage })].Before
				t.Errorf("By the lab's record %s does not fix %s: with %s it %s, with %s it %s. Remove it from cures in internal/page/diff/fixes.go.",
					c.stage, anomaly, before, outcome(anomaly, before), c.stage, outcome(anomaly, c.stage))
			}
		}
	}
}

func TestLinesOfAPart(t *testing.T) {
	before := []File{{Name: "a.go", Language: "go", Source: "package a\n\nfunc (t *T) F() {\n\told()\n}\n\nfunc same() {}\n"}}
	files := []File{
		{Name: "a.go", Language: "go", Source: "package a\n\n// F does.\nfunc (t *T) F() {\n\tone()\n\n\t// why\n\ttwo()\n\told()\n\tthree()\n}\n\nfunc same() {}\n"},
		{Name: "b.lua", Language: "lua", Source: "-- What it is.\nreturn 1\n"},
	}
	s := Stage{About: About{Name: "v2", Before: "v1"}, Files: beside(before, files)}
	for part, want := range map[string]string{
		"T.F":   "[{a.go 5 8} {a.go 10 10}] <nil>",
		"b.lua": "[{b.lua 2 2}] <nil>",
		"same":  "[] same of v2 is as in v1: it cannot fix anything",
		"F":     "[] v2 has no function and no script called F",
		"c.lua": "[] v2 has no function and no script called c.lua",
	} {
		lines, err := s.changed(part)
		if got := fmt.Sprint(lines, err); got != want {
			t.Errorf("%s: got %s; want %s", part, got, want)
		}
	}
}

func TestFixIsToldInTheWordsOfTheLab(t *testing.T) {
	told := make(map[string]lab.Anomaly)
	for _, s := range anomalies.All() {
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

// What holds with a stage is what held before, plus what it fixes, plus what holds only because
// its lock never expires, minus what it breaks again.
func TestFixesAndReopensAreWhatTheRecordSays(t *testing.T) {
	for _, s := range all(t) {
		held := with(s.Before, lab.Holds, s.Name)
		for _, f := range s.Fixes {
			held = append(held, f.Name)
		}
		held = append(held, endless(s.Name)...)
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

// with lists the anomalies with an outcome for a strategy that apply to the other one too.
func with(strategy string, outcome lab.Outcome, other string) []string {
	var names []string
	for _, a := range anomalies.All() {
		if o := a.Expected(other); a.Expected(strategy) == outcome && (o == lab.Holds || o == lab.Breaks) {
			names = append(names, a.Name)
		}
	}
	return names
}

func outcome(anomaly, strategy string) lab.Outcome {
	for _, a := range anomalies.All() {
		if a.Name == anomaly {
			return a.Expected(strategy)
		}
	}
	return "is unknown"
}

// row is the row of a line of the stage.
func (s Stage) row(file string, line int) Row {
	for _, f := range s.Files {
		for _, r := range f.Rows {
			if f.Name == file && r.New != nil && r.New.Number == line {
				return r
			}
		}
	}
	return Row{New: &Line{}}
}
