package bench

import (
	"context"
	"fmt"
	"time"

	"oversell/internal/bench/report"
	"oversell/internal/catalog"
	"oversell/internal/figures"
)

// Progress receives the progress of a bench. Its methods are called from one goroutine at
// a time.
type Progress interface {
	// Row begins row n of all, for a strategy under a condition.
	Row(n, all int, strategy string, c catalog.Condition)
	// Waiting gets a function that returns how many outcomes of the row are missing. It may
	// be called until the next Row.
	Waiting(waiting func() int64)
	// Done gets a finished row.
	Done(row report.Row)
}

// Workload runs the rows of one kind of sale.
type Workload interface {
	// Row runs a row once, with a sale of its own, so that nothing of an earlier row can count
	// for it.
	Row(ctx context.Context, c Case) (Result, error)
}

// Case is a row that is to be run.
type Case struct {
	Strategy  string
	Condition catalog.Condition
	Repeat    int           // number of this run of the row, from 1
	TTL       time.Duration // of a lease or a hold; 0: that of the config
}

// Result is what a row has come to.
type Result struct {
	report.Row
	TTL     time.Duration // that it was run with; 0: not known
	Stalled time.Duration // longest stall of a process that was not injected
	Missed  bool          // a fault found nobody where it was to hit: the run shows nothing
	Final   bool          // it counts whatever stalled or was missed
}

// Series is the rows of a run.
type Series struct {
	Strategies []string
	Conditions []catalog.Condition
	Repeat     int
}

// Run runs all rows one after the other: all once, then all again, as often as they are
// repeated. A machine that is slow for a while thus slows down all rows and not all runs of one.
// It returns the finished rows also with an error.
func (s Series) Run(ctx context.Context, w Workload, p Progress) (rows []report.Row, err error) {
	all := len(s.Strategies) * len(s.Conditions) * s.Repeat
	for repeat := 1; repeat <= s.Repeat; repeat++ {
		for _, condition := range s.Conditions {
			for _, name := range s.Strategies {
				begin := func() { p.Row(len(rows)+1, all, name, condition) }
				c := Case{Strategy: name, Condition: condition, Repeat: repeat}
				row, err := undisturbed(ctx, w, c, begin)
				if err != nil {
					return rows, fmt.Errorf("running %s under %s: %w", name, condition, err)
				}
				row.Repeat = repeat
				rows = append(rows, row)
				p.Done(row)
			}
		}
	}
	return rows, nil
}

// maxTries bounds how often a row is run if processes stall or faults hit nobody.
const maxTries = 4

// Tolerable is how long a process may stall without affecting what a lease of ttl shows.
func Tolerable(ttl time.Duration) time.Duration { return ttl / 5 }

// undisturbed runs a row. The first run without a stall and with all its faults counts. So does a run that matches
// an expectation at once, one that is final, and the last try. Each further try has twice the
// ttl, and tolerates twice the stall. Discarded runs stay in the report.
func undisturbed(ctx context.Context, w Workload, c Case, begin func()) (report.Row, error) {
	var discarded []report.Discarded
	for {
		begin()
		r, err := w.Row(ctx, c)
		if err != nil {
			return report.Row{}, err
		}
		row := r.Row
		if r.TTL > 0 {
			row.TTL, row.Stalled = r.TTL.String(), figures.Milliseconds(r.Stalled)
		}
		row.Discarded = discarded
		asExpected := len(discarded) == 0 && row.Expected && !row.Undecided
		if r.Final || asExpected || !r.Missed && r.Stalled <= Tolerable(r.TTL) || len(discarded) == maxTries-1 {
			return row, nil
		}
		discarded = append(discarded, report.Discarded{
			TTL: row.TTL, Verdict: row.Verdict, Differs: row.Differs, Stalled: row.Stalled,
		})
		c.TTL = 2 * r.TTL
	}
}
