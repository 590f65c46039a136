package search

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"sync"

	"oversell/internal/lab"
	"oversell/internal/present"
)

//go:embed record.json
var recorded []byte

// Record contains the results of searches. The page depends on its JSON form.
type Record struct {
	Goals   []lab.Goal `json:"goals"`
	Results []Result   `json:"results"` // sorted by the number of buyers, then in the order of lab.Levels
}

// Recorded returns the record that is embedded in this program. A search of the same code has the
// same results. The record must not be changed.
var Recorded = sync.OnceValue(func() (r Record) {
	if err := json.Unmarshal(recorded, &r); err != nil {
		panic(fmt.Sprintf("search: record.json: %v", err)) // the file is part of the program
	}
	return r
})

// Find returns the result for a strategy and a number of buyers.
func (r Record) Find(strategy string, buyers int) (Result, bool) {
	i := slices.IndexFunc(r.Results, func(o Result) bool { return o.Strategy == strategy && o.Buyers == buyers })
	if i < 0 {
		return Result{}, false
	}
	return r.Results[i], true
}

// With returns the record with the given results in place of older ones.
func (r Record) With(results ...Result) Record {
	all := slices.DeleteFunc(slices.Clone(r.Results), func(o Result) bool {
		return slices.ContainsFunc(results, func(n Result) bool {
			return n.Strategy == o.Strategy && n.Buyers == o.Buyers
		})
	})
	all = append(all, results...)
	levels := lab.Levels()
	slices.SortStableFunc(all, func(a, b Result) int {
		return cmp.Or(cmp.Compare(a.Buyers, b.Buyers),
			cmp.Compare(slices.Index(levels, a.Strategy), slices.Index(levels, b.Strategy)))
	})
	return Record{lab.Goals(), all}
}

// WriteJSON writes the record in the format of record.json.
func (r Record) WriteJSON(w io.Writer) error {
	out := json.NewEncoder(w)
	out.SetIndent("", " ")
	return out.Encode(r)
}

// Same reports whether two searches had the same result.
func (r Result) Same(o Result) bool {
	return r.Strategy == o.Strategy && r.Buyers == o.Buyers && r.Faults == o.Faults && r.States == o.States &&
		maps.Equal(r.Breaks, o.Breaks) && slices.Equal(r.NotApplicable, o.NotApplicable)
}

// Words contains the words of the table in one language.
type Words struct{ Strategy, Buyers, Impossible, States string }

// English and Chinese are the words that the docs use.
var (
	English = Words{"strategy", "buyers", "impossible", "states"}
	Chinese = Words{"策略", "买家", "不可能", "状态数"}
)

// Markdown returns the table of strategies and goals.
func (r Record) Markdown(w Words) string {
	t := present.Table[Result]{Rows: r.Results}
	t.Add(w.Strategy, func(o Result) string { return "`" + o.Strategy + "`" })
	t.Number(w.Buyers, func(o Result) string { return strconv.Itoa(o.Buyers) })
	for _, g := range lab.Goals() {
		t.Add(string(g), func(o Result) string {
			moves, broken := o.Breaks[g]
			switch {
			case broken:
				return "`" + moves + "`"
			case slices.Contains(o.NotApplicable, g):
				return "n/a"
			}
			return w.Impossible
		})
	}
	t.Number(w.States, func(o Result) string { return strconv.Itoa(o.States) })
	return t.Markdown()
}

// errNotReplayed means that the scheduler does not reach a goal that the search has reached, so the
// search is wrong.
var errNotReplayed = errors.New("the scheduler does not reach it")

// Replay plays a schedule as the page does, with all buyers on one server, and returns an error
// unless it reaches the goal. The strategy must be one of lab.Levels.
func Replay(strategy string, buyers int, goal lab.Goal, text string) error {
	subject, err := lab.Scheduled(strategy, buyers)
	if err != nil {
		return err
	}
	if why := goal.NotApplicable(subject); why != "" {
		return fmt.Errorf("%w: %s is not applicable to %s: %s", errNotReplayed, goal, strategy, why)
	}
	state, err := lab.Play(lab.Schedule{Strategy: strategy, Buyers: buyers, Moves: text, Goal: goal})
	if err != nil {
		return err
	}
	reached := slices.Contains(state.Reached, goal)
	switch {
	case !reached && goal == lab.GoalStuck:
		return fmt.Errorf("%w: all are served within %v", errNotReplayed, lab.Patience)
	case !reached:
		return fmt.Errorf("%w: %s by %s", errNotReplayed, goal, text)
	}
	return nil
}
