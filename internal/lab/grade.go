package lab

import (
	"fmt"
	"io"
	"strings"

	"oversell/internal/locks"
)

// Grade compares a lock of the reader's with the stages.
type Grade struct {
	Name   string
	Redis  string
	Stages []StageGrade
	Told   map[string]Anomaly // by name
}

// StageGrade has the cells of the promises that one stage is the first to keep.
type StageGrade struct {
	Stage string // "" for what none of them keeps
	Cells []Cell
}

// GradeOf groups the cells of a strategy by the first stage that keeps their promise.
func GradeOf(r Report, scenarios []Scenario, strategy string) Grade {
	names := append(locks.Stages(), "")
	g := Grade{Name: strategy, Redis: r.Manifest.Redis, Told: make(map[string]Anomaly)}
	by := make(map[string][]Cell)
	for _, c := range r.Cells {
		for _, s := range scenarios {
			if c.Strategy == strategy && s.Name == c.Anomaly && c.Outcome != NA {
				by[solvedBy(s)] = append(by[solvedBy(s)], c)
				g.Told[s.Name] = s.Anomaly
			}
		}
	}
	for _, name := range names {
		if len(by[name]) > 0 {
			g.Stages = append(g.Stages, StageGrade{name, by[name]})
		}
	}
	return g
}

// solvedBy returns the first stage from which on every stage holds on record, or "".
func solvedBy(s Scenario) string {
	solved := ""
	for _, stage := range locks.Stages() {
		switch {
		case s.Expected(stage) != Holds:
			solved = ""
		case solved == "":
			solved = stage
		}
	}
	return solved
}

func (g Grade) first() (Cell, string, bool) {
	for _, s := range g.Stages {
		for _, c := range s.Cells {
			if c.Outcome != Holds {
				return c, s.Stage, true
			}
		}
	}
	return Cell{}, "", false
}

// Write writes the grade as text.
func (g Grade) Write(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, stage by stage, on %s\n\n", g.Name, g.Redis)
	for _, s := range g.Stages {
		s.write(&b)
	}
	g.writeFirst(&b)
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("writing the grade: %w", err)
	}
	return nil
}

func (s StageGrade) write(b *strings.Builder) {
	var broken []Cell
	for _, c := range s.Cells {
		if c.Outcome != Holds {
			broken = append(broken, c)
		}
	}
	name := s.Stage
	if name == "" {
		name = "no stage"
	}
	fmt.Fprintf(b, "  %-13s keeps %d of %d\n", name, len(s.Cells)-len(broken), len(s.Cells))
	for _, c := range broken {
		fmt.Fprintf(b, "      %-28s %s: %s\n", c.Anomaly, c.Outcome, c.Note)
	}
}

func (g Grade) writeFirst(b *strings.Builder) {
	c, stage, found := g.first()
	if !found {
		b.WriteString("\nEverything holds.\n")
		return
	}
	does := "breaks"
	if c.Outcome == Unknown {
		does = "is not seen to keep"
	}
	fmt.Fprintf(b, "\nThe first promise that it %s is %s", does, c.Anomaly)
	if stage != "" {
		fmt.Fprintf(b, ", which %s is the first to keep", stage)
	}
	fmt.Fprintf(b, ":\n  %s\nSee it happen:\n  go run ./cmd/lab -run %s -strategies %s\n",
		g.Told[c.Anomaly].Sentence, c.Anomaly, g.Name)
}
