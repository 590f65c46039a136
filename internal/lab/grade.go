package lab

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"oversell/internal/locks"
)

// WriteGrade compares the reader's own lock with the stages. It groups the promises by the first stage
// that keeps them, writes how many of each group the lock keeps and which it breaks, and suggests which
// promise to keep first.
func WriteGrade(w io.Writer, r Report) error {
	strategy := Yours().Name
	var b strings.Builder
	fmt.Fprintf(&b, "%s, stage by stage, on %s\n\n", strategy, r.Manifest.Redis)
	begin := ""
	for _, stage := range append(locks.Stages(), "") {
		all := slices.DeleteFunc(slices.Clone(r.Cells), func(c Cell) bool {
			return c.Strategy != strategy || c.Outcome == NA || solvedBy(c.Anomaly) != stage
		})
		if len(all) == 0 {
			continue
		}
		broken := slices.DeleteFunc(slices.Clone(all), func(c Cell) bool { return c.Outcome == Holds })
		fmt.Fprintf(&b, "  %-13s keeps %d of %d\n", cmp.Or(stage, "no stage"), len(all)-len(broken), len(all))
		for _, c := range broken {
			fmt.Fprintf(&b, "      %-28s %s: %s\n", c.Anomaly, c.Outcome, c.Note)
			begin = cmp.Or(begin, beginWith(stage, c))
		}
	}
	if _, err := io.WriteString(w, b.String()+"\n"+cmp.Or(begin, "Everything holds.\n")); err != nil {
		return fmt.Errorf("writing the grade: %w", err)
	}
	return nil
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

// beginWith returns a sentence that says which promise to keep first. No stage before the given one
// keeps it.
func beginWith(stage string, c Cell) string {
	does := "breaks"
	if c.Outcome == Unknown {
		does = "is not seen to keep"
	}
	if stage != "" {
		stage = fmt.Sprintf(", which %s is the first to keep", stage)
	}
	return fmt.Sprintf("The first promise that it %s is %s%s:\n  %s\nSee it happen:\n"+
		"  go run ./cmd/lab -run %s -strategies %s\n",
		does, c.Anomaly, stage, AnomalyNamed(c.Anomaly).Sentence, c.Anomaly, c.Strategy)
}
