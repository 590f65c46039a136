package lab

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"oversell/internal/locks"
)

// Grade compares the reader's own lock with the stages.
type Grade struct {
	Name   string
	Redis  string
	Stages []StageGrade
}

// StageGrade lists the cells whose promises no stage before this one keeps.
type StageGrade struct {
	Stage string // "" for the promises that no stage keeps
	Cells []Cell
}

// GradeOf groups the cells of a strategy by the first stage that keeps their promise.
func GradeOf(r Report, strategy string) Grade {
	g := Grade{Name: strategy, Redis: r.Manifest.Redis}
	solved := make(map[string][]Cell)
	for _, c := range r.Cells {
		if c.Strategy == strategy && c.Outcome != NA {
			stage := solvedBy(c.Anomaly)
			solved[stage] = append(solved[stage], c)
		}
	}
	for _, stage := range append(locks.Stages(), "") {
		if cells := solved[stage]; len(cells) > 0 {
			g.Stages = append(g.Stages, StageGrade{stage, cells})
		}
	}
	return g
}

// solvedBy returns the first stage that keeps the promise together with all later stages, according
// to the record. If the last stage breaks the promise, solvedBy returns "".
func solvedBy(anomaly string) string {
	solved := ""
	for _, stage := range locks.Stages() {
		switch {
		case Recorded()[stage][anomaly] != Holds:
			solved = ""
		case solved == "":
			solved = stage
		}
	}
	return solved
}

// Write writes the grade as text. For each stage it says how many promises are kept and which are
// broken, and it suggests which promise to keep first.
func (g Grade) Write(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, stage by stage, on %s\n\n", g.Name, g.Redis)
	begin := "Everything holds.\n"
	for _, s := range slices.Backward(g.Stages) {
		if broken := s.broken(); len(broken) > 0 {
			begin = g.begin(s.Stage, broken[0])
		}
	}
	for _, s := range g.Stages {
		broken := s.broken()
		fmt.Fprintf(&b, "  %-13s keeps %d of %d\n", cmp.Or(s.Stage, "no stage"), len(s.Cells)-len(broken), len(s.Cells))
		for _, c := range broken {
			fmt.Fprintf(&b, "      %-28s %s: %s\n", c.Anomaly, c.Outcome, c.Note)
		}
	}
	if _, err := io.WriteString(w, b.String()+"\n"+begin); err != nil {
		return fmt.Errorf("writing the grade: %w", err)
	}
	return nil
}

// broken returns the cells that do not hold.
func (s StageGrade) broken() []Cell {
	return slices.DeleteFunc(slices.Clone(s.Cells), func(c Cell) bool { return c.Outcome == Holds })
}

// begin returns a sentence that says which promise to keep first.
func (g Grade) begin(stage string, c Cell) string {
	does := "breaks"
	if c.Outcome == Unknown {
		does = "is not seen to keep"
	}
	if stage != "" {
		stage = fmt.Sprintf(", which %s is the first to keep", stage)
	}
	return fmt.Sprintf("The first promise that it %s is %s%s:\n  %s\nSee it happen:\n"+
		"  go run ./cmd/lab -run %s -strategies %s\n",
		does, c.Anomaly, stage, AnomalyNamed(c.Anomaly).Sentence, c.Anomaly, g.Name)
}
