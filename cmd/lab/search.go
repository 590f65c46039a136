package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"oversell/internal/atomicfile"
	"oversell/internal/cmdline"
	"oversell/internal/lab"
	"oversell/internal/lab/search"
	"oversell/internal/lab/show"
	"oversell/internal/naming"
	"oversell/internal/present"
)

// schedules holds the flags of -search and -replay.
type schedules struct {
	search, goal, replay string
	buyers               int
	goals                []lab.Goal
	subjects             []lab.Subject // to search
}

func (s *schedules) define(fs *flag.FlagSet) {
	fs.StringVar(&s.search, "search", "", "`STRATEGIES` for which to explore every schedule of a few buyers; "+
		"separated by commas, or all")
	fs.StringVar(&s.goal, "goal", "", "`GOALS` of -search and -replay, separated by commas: "+
		lab.GoalNames()+" (default all)")
	fs.IntVar(&s.buyers, "buyers", 2, "`NUMBER` of buyers in -search and -replay, 2 or 3; there is one unit fewer")
	fs.StringVar(&s.replay, "replay", "", "`SCHEDULE` to play, as -search prints it, such as v2_ttl/A.A.p3000.B.B.A.B")
}

// interpret checks the flags, and looks up the names in them.
func (s *schedules) interpret() (err error) {
	if s.buyers < 2 || s.buyers > 3 {
		return fmt.Errorf("-buyers is %d; it must be 2 or 3", s.buyers)
	}
	if s.goals, err = goalsOf(s.goal); err != nil {
		return err
	}
	names := naming.ExpandAll(naming.Split(s.search), lab.Levels())
	all := slices.Contains(names, "all")
	for _, name := range names {
		if name != "all" && !slices.Contains(lab.Levels(), name) {
			return fmt.Errorf("-search does not know %q (allowed: all, %s)", name, strings.Join(lab.Levels(), ", "))
		}
	}
	for _, name := range lab.Levels() {
		if !slices.Contains(names, name) && (!all || name == "yours") {
			continue
		}
		subject, err := lab.Scheduled(name, s.buyers)
		if err != nil {
			return err
		}
		s.subjects = append(s.subjects, subject)
	}
	return nil
}

func goalsOf(names string) ([]lab.Goal, error) {
	if names == "" {
		return lab.Goals(), nil
	}
	var goals []lab.Goal
	for _, name := range naming.Split(names) {
		if !slices.Contains(lab.Goals(), lab.Goal(name)) {
			return nil, fmt.Errorf("unknown goal %q (allowed: %s)", name, lab.GoalNames())
		}
		goals = append(goals, lab.Goal(name))
	}
	return goals, nil
}

// search explores all schedules. It returns false if a result differs from the record, or if a
// table that -check checks is stale.
func (p program) search(ctx context.Context, o options) (asExpected bool, err error) {
	s := o.schedules
	record := search.Recorded()
	if _, _, err := o.replace(putSearch(record)); err != nil {
		return false, err // fail before the search, not after it
	}
	var to *atomicfile.File
	if o.record != "" {
		if to, err = atomicfile.Create(o.record); err != nil {
			return false, fmt.Errorf("-record: %w", err)
		}
		defer func() { err = errors.Join(err, to.Close()) }()
	}
	style := o.style(p.stdout)
	budget := search.OneOfEach
	fmt.Fprintf(p.stdout, style.Say("%d buyers, %s; budget of a schedule: time passes, "+
		"%d freeze, %d kill, %d lost reply; lease %v")+"\n",
		s.buyers, style.Count(lab.Units(s.buyers), "unit"), budget.Freezes, budget.Kills, budget.Losses,
		lab.ScheduleTTL)
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // a search allocates a lot and keeps little of it
	var found []search.Result
	asExpected = true
	for _, c := range s.subjects {
		r, err := p.searchOne(ctx, c, s.buyers)
		if err != nil {
			return false, err
		}
		if err := p.found(s, c, r, style); err != nil {
			return false, err
		}
		if before, ok := record.Find(r.Strategy, r.Buyers); ok && o.record == "" && !r.Same(before) {
			asExpected = false
			fmt.Fprintf(p.stderr, "lab: %s differs from the record, which has %d states and %d breaks: "+
				"go run ./cmd/lab -search %[1]s -buyers %[4]d -record internal/lab/search/record.json\n",
				r.Strategy, before.States, len(before.Breaks), r.Buyers)
		}
		found = append(found, r)
	}
	if len(found) > 1 {
		p.summary(s, found, style)
	}
	record = record.With(found...)
	if to != nil {
		if err := to.Fill(record.WriteJSON); err != nil {
			return false, err
		}
	}
	fresh, err := p.rewrite(o, putSearch(record))
	return asExpected && fresh, err
}

// searchOne searches one strategy, and shows its progress on a terminal.
func (p program) searchOne(ctx context.Context, c lab.Subject, buyers int) (search.Result, error) {
	cfg := search.Config{Subject: c, Buyers: buyers, Faults: search.OneOfEach}
	if cmdline.Terminal(p.stderr) {
		cfg.Progress = func(states, open int) {
			fmt.Fprintf(p.stderr, "\r\x1b[K%s: %d states, %d of them not explored yet", c.Name, states, open)
		}
		defer fmt.Fprint(p.stderr, "\r\x1b[K")
	}
	return search.Search(ctx, cfg)
}

func (p program) summary(s schedules, found []search.Result, style show.Style) {
	t := present.Table[search.Result]{Rows: found}
	t.Add("", func(r search.Result) string { return r.Strategy })
	for _, g := range s.goals {
		t.Add(string(g), func(r search.Result) string { return cellOf(r, g, style) })
	}
	t.Number("states", func(r search.Result) string { return strconv.Itoa(r.States) })
	t.Number("time", func(r search.Result) string { return r.Wall.Round(10 * time.Millisecond).String() })
	fmt.Fprintf(p.stdout, "\n%s", t.Text(style.Style))
	var wall time.Duration
	for _, r := range found {
		wall += r.Wall
	}
	if slices.ContainsFunc(found, func(r search.Result) bool { return len(r.NotApplicable) > 0 }) {
		fmt.Fprintln(p.stdout, style.Say("n/a: there is no lock that the goal is about"))
	}
	fmt.Fprintf(p.stdout, style.Say("in all %v")+"\n", wall.Round(10*time.Millisecond))
}

func cellOf(r search.Result, g lab.Goal, style show.Style) string {
	moves, broken := r.Breaks[g]
	switch {
	case broken:
		return moveCount(moves, style)
	case slices.Contains(r.NotApplicable, g):
		return style.Say("n/a")
	}
	return style.Say("impossible")
}

func moveCount(schedule string, style show.Style) string {
	moves, _ := lab.ParseMoves(schedule) // a search wrote it
	return style.Count(len(moves), "move")
}

func (s schedules) width() int {
	width := 13
	for _, c := range s.subjects {
		width = max(width, len(c.Name))
	}
	return width
}

// The lines of a Markdown file that enclose the table of the searches.
const (
	searchBegin   = "<!-- search:begin -->"
	searchBeginZH = "<!-- search:begin zh -->"
	searchEnd     = "<!-- search:end -->"
)

// putSearch returns a function that puts the table of the searches into a text.
func putSearch(r search.Record) func(text []byte) ([]byte, error) {
	return func(text []byte) ([]byte, error) {
		for begin, words := range map[string]search.Words{searchBegin: search.English, searchBeginZH: search.Chinese} {
			if text, ok := lab.ReplaceBetween(text, begin, searchEnd, r.Markdown(words)); ok {
				return text, nil
			}
		}
		return nil, fmt.Errorf("it must have the lines %s and %s, in this order", searchBegin, searchEnd)
	}
}

// found prints the result of a search. It replays each break first.
func (p program) found(s schedules, c lab.Subject, r search.Result, style show.Style) error {
	name := fmt.Sprintf("%-*s", s.width(), r.Strategy)
	for _, goal := range s.goals {
		if why := goal.NotApplicable(c); why != "" {
			fmt.Fprintf(p.stdout, "%s %-15s "+style.Say("n/a: %s")+"\n", name, goal, style.Say(why))
			continue
		}
		moves, ok := r.Breaks[goal]
		if !ok {
			fmt.Fprintf(p.stdout, "%s %-15s "+style.Say("impossible: %d states, all explored")+"\n",
				name, goal, r.States)
			continue
		}
		if err := search.Replay(r.Strategy, r.Buyers, goal, moves); err != nil {
			return fmt.Errorf("%s, %s: %w", r.Strategy, goal, err)
		}
		more, query := "", ""
		if r.Buyers != 2 {
			more, query = fmt.Sprintf(" -buyers %d", r.Buyers), fmt.Sprintf("?buyers=%d", r.Buyers)
		}
		fmt.Fprintf(p.stdout, "%s %-15s "+style.Say("%s: %s")+"\n", name, goal, moveCount(moves, style), moves)
		fmt.Fprintf(p.stdout, "  http://127.0.0.1:8080/#/play/%s/%s%s\n", r.Strategy, moves, query)
		replay := fmt.Sprintf("go run ./cmd/lab -replay %s/%s -goal %s%s", r.Strategy, moves, goal, more)
		fmt.Fprintf(p.stdout, "  %s\n", style.InLanguage(replay))
	}
	_, err := fmt.Fprintf(p.stdout, "%s "+style.Say("%d states, %d moves, %v")+"\n",
		name, r.States, r.Moves, r.Wall.Round(10*time.Millisecond))
	return err
}

// replay plays a schedule, and prints the result. If -goal is set, the schedule must reach the
// goals.
func (p program) replay(s schedules, style show.Style) error {
	strategy, moves, ok := strings.Cut(s.replay, "/")
	if !ok {
		return fmt.Errorf("-replay is %q; it must be a strategy, a slash and moves, such as v2_ttl/A.A.p3000.B",
			s.replay)
	}
	if _, err := lab.ParseMoves(moves); err != nil {
		return err
	}
	state, err := lab.Play(lab.Schedule{Strategy: strategy, Buyers: s.buyers, Moves: moves})
	if err != nil {
		return fmt.Errorf("-replay: %w", err)
	}
	if err := show.Schedule(p.stdout, state, style); err != nil {
		return err
	}
	if s.goal == "" {
		return nil
	}
	for _, goal := range s.goals {
		if err := search.Replay(state.Strategy, state.Buyers, goal, state.Moves); err != nil {
			return err
		}
		fmt.Fprintf(p.stdout, style.Say("reached: %s")+"\n", style.Say(meaning(goal)))
	}
	return nil
}

func meaning(g lab.Goal) string {
	return map[lab.Goal]string{
		lab.GoalOversell:      "oversell, more units are sold than there are",
		lab.GoalOverlap:       "overlap, two buyers are in the section at once",
		lab.GoalForeignDelete: "foreign-delete, a buyer deletes another's lock",
		lab.GoalSelfWait:      "self-wait, a buyer in the section waits for its own lock",
		lab.GoalStuck:         "stuck, a living buyer is not served although everybody goes on for ten leases",
	}[g]
}
