package diff

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"

	"oversell/internal/lab"
	"oversell/internal/lab/anomalies"
)

// Fix is an anomaly that a stage fixes.
type Fix struct {
	lab.Anomaly
	Lines []Lines `json:"lines"` // the ones that fix it
}

// Lines is a block of lines in a file of a stage.
type Lines struct {
	File  string `json:"file"`
	First int    `json:"line"` // from 1
	Last  int    `json:"last"`
}

// A cure is a part of a stage that fixes anomalies: a Go function, a method, written
// Type.Method, or a script. The page points to the lines that the stage added or changed
// in it. A name and a diff need no markers in sources that are there to be compared, and
// stay right when the code inside is reworded.
type cure struct {
	stage, part string
	anomalies   []string
}

// cures says by which part a stage fixes an anomaly. Whether it fixes the anomaly is on
// the lab's record; how it does so only a reader of the source can say. An anomaly may
// be fixed by several parts.
func cures() []cure {
	return []cure{
		{"v1_setnx", "Mutex.TryLock", []string{"lost-update", "local-mutex-across-instances",
			"cache-stampede", "cache-load-per-instance", "cache-failed-load"}},
		{"v2_ttl", "Mutex.TryLock", []string{"orphan-after-crash", "crash-before-expire", "handed-on-holder-dies", "forgotten-unlock"}},
		{"v3_uuid", "Mutex.TryLock", []string{"failed-re-entry-frees-outer", "token-not-unique"}},
		{"v3_uuid", "Mutex.Unlock", []string{"foreign-delete", "foreign-delete-chain", "foreign-unlock", "late-unlock-not-told",
			"lost-hold-handed-on", "unlock-after-failed-acquire", "repeated-unlock", "failed-re-entry-frees-outer", "token-not-unique"}},
		{"v4_lua", "Mutex.Unlock", []string{"check-then-delete"}},
		{"v4_lua", "unlock.lua", []string{"check-then-delete"}},
		{"v5_reentrant", "lock.lua", []string{"nested-acquire"}},
		{"v6_watchdog", "enter", []string{"expires-while-held", "long-work", "cache-load-outlives-lease", "late-reply"}},
		{"v6_watchdog", "renewal.renew", []string{"expires-while-held", "long-work", "cache-load-outlives-lease", "loss-not-told"}},
		{"v6_watchdog", "renewal.over", []string{"late-reply", "cut-off-holder"}},
		{"v6_watchdog", "Mutex.Context", []string{"loss-not-told"}},
		{"v7_queue", "lock.lua", []string{"starvation"}},
		{"v7_queue", "unlock.lua", []string{"starvation", "retry-storm"}},
		{"v7_queue", "Mutex.sleep", []string{"retry-storm"}},
		{"v8_fenced", "lock.lua", []string{"paused-writer"}},
		{"v8_fenced", "Mutex.ask", []string{"paused-writer"}},
		{"v8_fenced", "Mutex.Token", []string{"paused-writer"}},
		{"v9_cohort", "cohort.try", []string{"lost-reply-asks-again"}},
		{"v9_cohort", "cohort.reenter", []string{"failed-re-entry-frees-outer"}},
		{"v9_cohort", "Mutex.Unlock", []string{"failed-re-entry-frees-outer"}},
		{"v9_cohort", "newTicket", []string{"token-not-unique"}},
	}
}

// endless are the anomalies that do not happen to a stage only because its lock never expires,
// which is no fix: they come back with the ttl of the stage after it.
func endless(stage string) []string {
	if stage == "v1_setnx" {
		return []string{"paused-writer", "cache-load-outlives-lease"}
	}
	return nil
}

// fixes returns what the record says that the stage fixes, and by which lines.
func (s Stage) fixes() ([]Fix, error) {
	all := []Fix{}
	for _, a := range turned(s.Before, lab.Breaks, s.Name, lab.Holds) {
		if slices.Contains(endless(s.Name), a.Name) {
			continue
		}
		fix := Fix{Anomaly: a, Lines: []Lines{}}
		for _, c := range cures() {
			if c.stage != s.Name || !slices.Contains(c.anomalies, a.Name) {
				continue
			}
			lines, err := s.changed(c.part)
			if err != nil {
				return nil, err
			}
			fix.Lines = append(fix.Lines, lines...)
		}
		all = append(all, fix)
	}
	return all, nil
}

// reopens returns what held before the stage and breaks with it, by the record.
func (s Stage) reopens() []lab.Anomaly { return turned(s.Before, lab.Holds, s.Name, lab.Breaks) }

// turned returns the anomalies with one outcome on record for one strategy, and
// another for the other.
func turned(before string, was lab.Outcome, stage string, is lab.Outcome) []lab.Anomaly {
	all := []lab.Anomaly{}
	for _, s := range anomalies.All() {
		if s.Expected(before) == was && s.Expected(stage) == is {
			all = append(all, s.Anomaly)
		}
	}
	return all
}

// changed returns the lines of a part that are new or changed in this stage.
func (s Stage) changed(part string) ([]Lines, error) {
	for _, f := range s.Files {
		if f.Source == "" {
			continue // the stage before had it
		}
		first, last, err := f.find(part)
		if err != nil {
			return nil, err
		}
		if first == 0 {
			continue
		}
		lines := f.changed(first, last)
		if len(lines) == 0 {
			return nil, fmt.Errorf("%s of %s is as in %s: it cannot fix anything", part, s.Name, s.Before)
		}
		return lines, nil
	}
	return nil, fmt.Errorf("%s has no function and no script called %s", s.Name, part)
}

// find returns the first and the last line of a part of the file, or 0 if it has none
// of that name.
func (f File) find(part string) (first, last int, err error) {
	if f.Language != "go" {
		if f.Name != part {
			return 0, 0, nil
		}
		return 1, strings.Count(f.Source, "\n"), nil
	}
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, f.Name, f.Source, parser.SkipObjectResolution)
	if err != nil {
		return 0, 0, err
	}
	for _, d := range parsed.Decls {
		if d, ok := d.(*ast.FuncDecl); ok && nameOf(d) == part {
			return set.Position(d.Pos()).Line, set.Position(d.End()).Line, nil
		}
	}
	return 0, 0, nil
}

// nameOf is the name of a function, or Type.Method.
func nameOf(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return f.Name.Name
	}
	of := f.Recv.List[0].Type
	if pointer, ok := of.(*ast.StarExpr); ok {
		of = pointer.X
	}
	return fmt.Sprintf("%s.%s", of, f.Name)
}

// changed returns the blocks of code between two lines that are new or changed. Comments
// and empty lines neither begin nor end a block.
func (f File) changed(first, last int) []Lines {
	var all []Lines
	open := false
	for _, r := range f.Rows {
		if r.New == nil || r.New.Number < first || r.New.Number > last {
			continue
		}
		switch {
		case !r.New.code():
		case r.Kind == Same:
			open = false
		case open:
			all[len(all)-1].Last = r.New.Number
		default:
			all, open = append(all, Lines{f.Name, r.New.Number, r.New.Number}), true
		}
	}
	return all
}
