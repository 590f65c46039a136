package lab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Goal is what a search looks for.
type Goal string

// The goals.
const (
	ToOversell      Goal = "oversell"       // more is sold than there is
	ToDeleteForeign Goal = "foreign_delete" // somebody deletes a lock of another
)

// Budget bounds a search. What is 0 is unbounded.
type Budget struct {
	Plays int // schedules that are played
	Time  time.Duration
}

// SearchResult is what a search has found. Its JSON form is relied upon.
type SearchResult struct {
	Strategy string  `json:"strategy"`
	Buyers   int     `json:"buyers"`
	Goal     Goal    `json:"goal"`
	Found    bool    `json:"found"`
	Moves    string  `json:"moves,omitempty"` // that lead to the goal: no schedule with fewer steps does
	Steps    int     `json:"steps"`           // steps and passes of it; or up to how many all were tried
	All      bool    `json:"all"`             // not found: and longer ones lead to nothing new
	Plays    int     `json:"plays"`           // schedules that were played
	States   int     `json:"states"`          // different ones that they led to
	Wall     float64 `json:"wall_ms"`
	Sentence string  `json:"sentence"`
}

// Search looks for a schedule that leads to a goal, the shortest first. The error
// wraps ErrSchedule for a strategy or a number of buyers that is not allowed, and
// is the cause of ctx if that ends. Where the budget ends it is no error.
//
// Two schedules that lead to the same are one: the buyers have been told the same
// and are about to do the same, and Redis has the same, with as much left of each
// lease. Who is refused once more is where it was, and so is who keeps its lock
// once more. What need not be tried is left out:
//
//   - Buyers are alike, so they come in their order.
//   - Time passes up to the next moment at which a key expires or a buyer goes
//     on; in between nothing changes.
//   - Who is not let take a step need not be frozen: only who keeps its lock
//     meanwhile is, and it thaws for its next step.
//   - Nobody is killed: who is dead does less than who is never let go on.
//   - Where too few are left who may still buy, there is nothing to look for.
func Search(ctx context.Context, strategy string, buyers int, goal Goal, budget Budget) (SearchResult, error) {
	if err := CheckSearch(strategy, buyers, goal); err != nil {
		return SearchResult{}, err
	}
	base := Schedule{Strategy: strategy, Buyers: buyers}
	start := time.Now()
	if budget.Time > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, budget.Time, errBudget)
		defer cancel()
	}
	f := &finder{base: base, goal: goal, most: budget.Plays, seen: make(map[string]bool)}
	err := f.run(ctx)
	if errors.Is(err, errBudget) {
		err = nil
	}
	f.out.Strategy, f.out.Buyers, f.out.Goal = strategy, buyers, goal
	f.out.States, f.out.Wall = len(f.seen), inMS(time.Since(start))
	f.out.Sentence = f.out.sentence()
	return f.out, err
}

// CheckSearch returns an error that wraps ErrSchedule for a search that is not allowed.
func CheckSearch(strategy string, buyers int, goal Goal) error {
	if goal != ToOversell && goal != ToDeleteForeign {
		return fmt.Errorf("%w: unknown goal %s (allowed: %s, %s)", ErrSchedule, shorten(string(goal)), ToOversell, ToDeleteForeign)
	}
	sc := Schedule{Strategy: strategy, Buyers: buyers}
	if _, err := sc.subject(); err != nil {
		return err
	}
	return sc.check()
}

// errBudget means that the budget is used up.
var errBudget = errors.New("the budget is used up")

func (r SearchResult) sentence() string {
	tried := fmt.Sprintf("%d schedules were played, which led to %d different states", r.Plays, r.States)
	switch {
	case r.Found:
		return fmt.Sprintf("it can be done in %d steps; %s", r.Steps, tried)
	case r.All:
		return "it cannot be done, in however many steps: " + tried + ", and from none of them on anything new comes"
	}
	return fmt.Sprintf("it cannot be done in up to %d steps; %s", r.Steps, tried)
}

// finder is a search under way.
type finder struct {
	base Schedule
	goal Goal
	most int
	seen map[string]bool // states, by what tells them apart
	cut  bool            // something was not tried, as a schedule has bounds
	out  SearchResult
}

// node is a state that was reached, and what can be done there.
type node struct {
	moves   []Move
	options [][]Move
}

// position is what a search wants to know of a state.
type position struct {
	id      string // tells it apart
	there   bool   // the goal is reached
	kept    []int  // players whose lock was kept during the last move
	options [][]Move
}

// run tries all schedules of one step, then all of two, and so on.
func (f *finder) run(ctx context.Context) error {
	first, err := f.play(ctx, nil)
	if err != nil {
		return err
	}
	f.seen[first.id] = true
	level := []node{{nil, first.options}}
	for len(level) > 0 {
		var next []node
		for _, n := range level {
			reached, err := f.expand(ctx, n)
			if err != nil || f.out.Found {
				return err
			}
			next = append(next, reached...)
		}
		f.out.Steps++
		level = next
	}
	f.out.All = !f.cut
	return nil
}

// expand tries everything that can be done at n, and returns what is new.
func (f *finder) expand(ctx context.Context, n node) ([]node, error) {
	var reached []node
	options := slices.Clone(n.options)
	for i := 0; i < len(options); i++ {
		option := options[i]
		moves := append(slices.Clone(n.moves), option...)
		if f.base.with(moves).check() != nil { // out of bounds
			f.cut = true
			continue
		}
		p, err := f.play(ctx, moves)
		if err != nil {
			return nil, err
		}
		if p.there {
			f.out.Found, f.out.Moves, f.out.Steps = true, MovesText(moves), f.out.Steps+1
			return nil, nil
		}
		if len(option) == 1 && option[0].Action == Pass {
			options = append(options, freezing(p.kept, option[0])...)
		}
		if !f.seen[p.id] {
			f.seen[p.id] = true
			reached = append(reached, node{moves, p.options})
		}
	}
	return reached, nil
}

// freezing lets the same time pass while one or more of the players are frozen.
func freezing(players []int, pass Move) [][]Move {
	var out [][]Move
	for set := uint(1); set < 1<<len(players); set++ {
		var moves []Move
		for left := set; left != 0; left &= left - 1 {
			moves = append(moves, Move{Action: Freeze, Buyer: players[bits.TrailingZeros(left)]})
		}
		out = append(out, append(moves, pass))
	}
	return out
}

func (s Schedule) with(moves []Move) Schedule {
	s.Moves = moves
	return s
}

func (f *finder) play(ctx context.Context, moves []Move) (p position, err error) {
	if ctx.Err() != nil {
		return p, context.Cause(ctx)
	}
	if f.most > 0 && f.out.Plays >= f.most {
		return p, errBudget
	}
	f.out.Plays++
	err = f.base.with(moves).play(func(s *staging) { p = s.position(f.goal) })
	if err != nil {
		// The search has chosen the moves, so an impossible one is not the caller's
		// mistake, as ErrSchedule would say.
		err = fmt.Errorf("playing %s: %v", MovesText(moves), err)
	}
	return p, err
}

// position looks at what a search wants to know. Nothing can be played after it.
func (s *staging) position(goal Goal) position {
	p := position{there: s.reached(goal)}
	if s.hopeless(goal) {
		p.id = "hopeless"
		return p
	}
	p.options = s.steps()
	for i, pl := range s.players {
		if pl.kept > 0 {
			p.kept = append(p.kept, i)
		}
	}
	now, keys := s.w.trace.ms(), s.keys()
	buyers := s.identity(now)
	wakes := s.wakeUps()
	p.id = identify(now, keys, buyers, wakes)
	if d := nearest(now, keys, wakes); d > 0 {
		p.options = append(p.options, []Move{{Action: Pass, For: d}})
	}
	return p
}

// reached reports whether the goal is.
func (s *staging) reached(goal Goal) bool {
	if goal == ToOversell {
		return s.sale().Over > 0
	}
	return slices.ContainsFunc(s.findings, func(f Finding) bool { return f.Kind == ForeignDelete })
}

// hopeless reports whether too few buyers are left that may still buy.
func (s *staging) hopeless(goal Goal) bool {
	most := s.sale().Sold
	for _, pl := range s.players {
		if pl.mayBuy() {
			most++
		}
	}
	return goal == ToOversell && most <= s.shop.initial
}

// steps lists the possible steps; a frozen buyer is thawed for its step. Of the buyers
// that have not started, only the first may.
func (s *staging) steps() [][]Move {
	var out [][]Move
	outside := false
	for i, pl := range s.players {
		if pl.dead || outside && pl.come != nil {
			continue
		}
		outside = outside || pl.come != nil
		for n := range max(len(pl.commands()), pl.first()) {
			var moves []Move
			if pl.frozen {
				moves = append(moves, Move{Action: Thaw, Buyer: i})
			}
			out = append(out, append(moves, Move{Action: Step, Buyer: i, Nth: n + 1}))
		}
	}
	return out
}

// nearest is how long it takes until a key expires or a buyer goes on, or 0 if
// neither will come.
func nearest(now float64, keys []Key, wakes []*float64) time.Duration {
	most := time.Duration(0)
	sooner := func(ms float64) {
		d := time.Duration(math.Ceil(ms)) * time.Millisecond
		if d > 0 && (most == 0 || d < most) {
			most = d
		}
	}
	for _, k := range keys {
		if k.TTL != nil {
			sooner(*k.TTL)
		}
	}
	for _, until := range wakes {
		if until != nil {
			sooner(*until - now)
		}
	}
	return min(most, MaxPass)
}

// identity describes each buyer. What its program will do follows from what it has seen;
// when it saw that follows from what is left of the leases, and from when it goes on.
func (s *staging) identity(now float64) string {
	var b strings.Builder
	for _, pl := range s.players {
		status, commands := pl.status(), pl.commands()
		fmt.Fprintf(&b, "\n%s %s %v", pl.name, status, pl.isInside())
		for _, h := range commands {
			fmt.Fprintf(&b, "|%s %v %s", h.text, h.watchdog, h.age(now))
		}
		if status == Dead || status == Done && len(commands) == 0 {
			continue
		}
		pl.gate.mu.Lock()
		if h := pl.waiting; h != nil {
			fmt.Fprintf(&b, "|%s %v", h.text, now-h.sent)
		}
		for _, e := range withoutRepeats(pl.seen) {
			fmt.Fprintf(&b, ";%s=%s", e.text, e.reply)
		}
		fmt.Fprintf(&b, ";%s=%s", pl.keeping.text, pl.keeping.reply)
		pl.gate.mu.Unlock()
	}
	fmt.Fprintf(&b, "\n%d sold\n", s.sale().Sold)
	return s.readable(b.String())
}

// age is how many leases ago a command left its process: less than one, one, or
// more, by when all timeouts are over.
func (h *held) age(now float64) string {
	if h.givenUp.Load() {
		return "given up"
	}
	return strconv.Itoa(int(min((now-h.since)/inMS(virtualTTL), 2)))
}

// withoutRepeats leaves out what was asked and answered in the same way before,
// but for the last time.
func withoutRepeats(seen []exchange) []exchange {
	const longest = 3 // exchanges in one try
	var out []exchange
	for _, e := range seen {
		out = append(out, e)
		for n := 1; n <= longest && 2*n <= len(out); n++ {
			last, before := out[len(out)-n:], out[len(out)-2*n:len(out)-n]
			if slices.EqualFunc(last, before, sameExchange) {
				out = append(out[:len(out)-2*n], last...)
			}
		}
	}
	return out
}

// sameExchange reports whether two exchanges differ in times and tokens at most.
func sameExchange(a, b exchange) bool {
	return a.reply == b.reply && tokens.ReplaceAllString(a.text, "token") == tokens.ReplaceAllString(b.text, "token")
}

var (
	tokens  = regexp.MustCompile(`token-[A-C]\d+`)
	moments = regexp.MustCompile(`start\+\d+\b`)
	fences  = regexp.MustCompile(`start\+\d+µs`)
	evals   = strings.NewReplacer("EVALSHA", "EVAL") // the first one who runs a script sends it in full
)

// identify combines what distinguishes a state. Times are relative to now, only the
// order of fencing tokens counts, and other tokens are numbered as they appear.
func identify(now float64, keys []Key, buyers string, wakes []*float64) string {
	var b strings.Builder
	for _, k := range keys {
		fmt.Fprintf(&b, "%s %s %s", k.Name, k.Type, k.Value)
		if k.TTL != nil {
			fmt.Fprintf(&b, " %v", *k.TTL)
		}
		b.WriteByte('\n')
	}
	b.WriteString(evals.Replace(buyers))
	for _, until := range wakes {
		if until != nil {
			fmt.Fprintf(&b, " %v", *until-now)
		}
		b.WriteByte(',')
	}
	text := ranked(b.String())
	text = moments.ReplaceAllStringFunc(text, func(moment string) string {
		at, _ := strconv.ParseFloat(strings.TrimPrefix(moment, "start+"), 64)
		return fmt.Sprintf("in %v", max(at-now, 0))
	})
	met := make(map[string]string)
	return tokens.ReplaceAllStringFunc(text, func(token string) string {
		if met[token] == "" {
			met[token] = fmt.Sprintf("token%d", len(met)+1)
		}
		return met[token]
	})
}

// ranked shows fencing tokens by their order.
func ranked(text string) string {
	all := fences.FindAllString(text, -1)
	slices.SortFunc(all, func(a, b string) int { return cmp.Or(len(a)-len(b), strings.Compare(a, b)) })
	all = slices.Compact(all)
	return fences.ReplaceAllStringFunc(text, func(fence string) string {
		return fmt.Sprintf("fence%d", slices.Index(all, fence)+1)
	})
}
