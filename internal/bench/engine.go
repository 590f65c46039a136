package bench

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"oversell/internal/bench/report"
	"oversell/internal/catalog"
	"oversell/internal/figures"
	"oversell/internal/fleet"
)

// Progress receives the progress of a bench. Its methods are called from one goroutine at
// a time.
type Progress interface {
	// Row begins row n of all, for a strategy under a condition.
	Row(n, all int, strategy string, c catalog.Condition)
	// Waiting says what the bench waits for, such as outcomes. The function missing returns how many
	// are still to come; it may be called until the next call to Waiting or Row.
	Waiting(what string, missing func() int64)
	// Done receives a finished row.
	Done(row report.Row)
}

// Case is a row that is to be run.
type Case struct {
	Strategy  string
	Condition catalog.Condition
	Repeat    int               // number of this run of the row, from 1
	TTL       time.Duration     // of a lease or a hold; 0: that of the config
	Stalls    *fleet.StallWatch // stalls in this row of the bench's own process; a row may add those of its shops
}

// Result is the outcome of one run of a row.
type Result struct {
	report.Row
	TTL    time.Duration // of the run; 0: not known
	Missed bool          // the fault was not injected, so the run shows nothing
	Final  bool          // it counts even if processes stalled or the fault missed
	Seed   uint64        // of its faults, for error messages; 0: none
	Fleet  *fleet.Fleet  // the processes, whose stalls count; nil: none. It is set even with an error.
}

// Rows runs all rows of a config one after the other: all of them once, then all again, cfg.Repeat
// times in total. So a machine that is slow for a while slows down one run of many rows, and not all
// runs of one row. If it fails, for example because a process ended by itself, it returns the rows
// finished so far and the error. The function run runs a row once, with its own sale, so that nothing
// left over from an earlier row counts.
func Rows(
	ctx context.Context, cfg Config, run func(context.Context, Case) (Result, error), p Progress,
) (rows []report.Row, err error) {
	stalls := fleet.WatchStalls(Tolerable(cfg.TTL), nil)
	defer stalls.Stop()
	all := len(cfg.Strategies) * len(cfg.Conditions) * cfg.Repeat
	for repeat := 1; repeat <= cfg.Repeat; repeat++ {
		for _, condition := range cfg.Conditions {
			for _, name := range cfg.Strategies {
				begin := func() { p.Row(len(rows)+1, all, name, condition) }
				c := Case{Strategy: name, Condition: condition, Repeat: repeat, Stalls: stalls}
				row, err := undisturbed(ctx, run, c, begin)
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

// maxTries is the maximum number of times a row is run because processes stalled or faults were not
// injected.
const maxTries = 4

// Tolerable returns how long a process may stall without affecting the result of a row whose leases
// last ttl.
func Tolerable(ttl time.Duration) time.Duration { return ttl / 5 }

// undisturbed repeats a row until a run counts. A run without a long stall and with all its faults
// counts, as does a final run, the last try, and a first run that matches its expectation. Each
// further try has twice the ttl, and tolerates a stall that is twice as long. Discarded runs stay in
// the report.
func undisturbed(
	ctx context.Context, run func(context.Context, Case) (Result, error), c Case, begin func(),
) (report.Row, error) {
	var discarded []report.Discarded
	for {
		begin()
		c.Stalls.Reset()
		r, err := run(ctx, c)
		if err != nil && r.Fleet != nil && ctx.Err() == nil {
			// A crash explains more than an unanswered request.
			err = cmp.Or(r.Fleet.Crashed(fleet.ExitGrace), err)
		}
		if err != nil && r.Seed > 0 {
			err = fmt.Errorf("with seed %d: %w", r.Seed, err)
		}
		if err != nil {
			return report.Row{}, err
		}
		row, stalled := r.Row, c.Stalls.Get()
		if r.Fleet != nil {
			stalled = max(stalled, r.Fleet.Stalled())
		}
		if r.TTL > 0 {
			row.TTL, row.Stalled = r.TTL.String(), figures.Milliseconds(stalled)
		}
		row.Discarded = discarded
		asExpected := len(discarded) == 0 && row.Expected && !row.Undecided
		quiet := !r.Missed && stalled <= Tolerable(r.TTL)
		if r.Final || asExpected || quiet || len(discarded) == maxTries-1 {
			return row, nil
		}
		discarded = append(discarded, report.Discarded{
			TTL: row.TTL, Verdict: row.Verdict, Differs: row.Differs, Message: row.Message, Stalled: row.Stalled,
			Missed: r.Missed,
		})
		c.TTL = 2 * r.TTL
	}
}

// Quantile returns the q-quantile of durations in milliseconds, or 0 if there are none. It sorts them.
func Quantile(all []time.Duration, q float64) float64 {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return figures.Milliseconds(all[max(0, int(math.Ceil(q*float64(len(all))))-1)])
}
