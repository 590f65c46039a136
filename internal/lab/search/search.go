package search

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"oversell/internal/lab"
)

// Config says what to search.
type Config struct {
	Subject lab.Subject
	Buyers  int // 2 or 3; there is one fewer unit than there are buyers
	Faults  Faults
	Budget  Budget

	// Progress is called from one goroutine, after each level of the search, with the number of
	// states found and the number of those not explored yet. It may be nil.
	Progress func(states, open int)
}

// Budget bounds a search. 0 means no bound.
type Budget struct {
	States int
	Time   time.Duration
}

// errBudget means that the time budget is used up.
var errBudget = errors.New("the budget is used up")

// Result is the result of a search.
type Result struct {
	Strategy string `json:"strategy"`
	Buyers   int    `json:"buyers"`
	Faults   Faults `json:"faults"`
	States   int    `json:"states"` // after merging
	Moves    int    `json:"moves"`  // moves tried from these states
	// Breaks contains the shortest schedule that reaches each goal. A goal without an entry cannot
	// be reached.
	Breaks map[lab.Goal]string `json:"breaks"`
	// NotApplicable lists the goals that do not apply to the strategy (see lab.Goal.NotApplicable).
	NotApplicable []lab.Goal `json:"not_applicable,omitempty"`
	// Cut says that the budget ran out before all states were explored, so goals that are not in
	// Breaks may still be reachable.
	Cut  bool          `json:"cut,omitempty"`
	Wall time.Duration `json:"-"`
}

// reached is a node of the graph of states.
type reached struct {
	from int // the state before move; -1: this is the first state
	move lab.Move
	s    *state // nil once the state has been explored
	next []int  // the states that follow without a fault
	done bool   // every living buyer is done
}

type explorer struct {
	cfg   Config
	root  *history
	seen  map[identity]int
	graph []reached
	out   Result
	made  atomic.Int64
	known sync.Map // cached results of commands, for all workers
	setUp *redis   // answers the commands that set up connections
}

// Search explores all schedules. If ctx ends, the error wraps its cause. It returns an error for a
// subject that cannot be searched.
func Search(ctx context.Context, cfg Config) (Result, error) {
	begin := time.Now()
	x, err := newExplorer(cfg)
	if err != nil {
		return Result{}, err
	}
	defer x.close()
	if cfg.Budget.Time > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, cfg.Budget.Time, errBudget)
		defer cancel()
	}
	err = x.run(ctx)
	if x.out.Cut = x.out.Cut || errors.Is(err, errBudget); x.out.Cut {
		err = nil
	}
	if err != nil {
		return Result{}, fmt.Errorf("searching %s: %w", cfg.Subject.Name, err)
	}
	if !x.out.Cut {
		x.findStuck()
	}
	x.out.States, x.out.Moves, x.out.Wall = len(x.graph), int(x.made.Load()), time.Since(begin)
	return x.out, nil
}

// newExplorer prepares a search. close must be called.
func newExplorer(cfg Config) (*explorer, error) {
	if cfg.Buyers < 2 || cfg.Buyers > 3 {
		return nil, fmt.Errorf("not searched: there can be 2 or 3 buyers, not %d", cfg.Buyers)
	}
	x := &explorer{cfg: cfg, seen: make(map[identity]int)}
	x.out = Result{
		Strategy: cfg.Subject.Name, Buyers: cfg.Buyers, Faults: cfg.Faults, Breaks: make(map[lab.Goal]string),
		NotApplicable: slices.DeleteFunc(lab.Goals(),
			func(g lab.Goal) bool { return g.NotApplicable(cfg.Subject) == "" }),
	}
	var err error
	if x.setUp, err = newRedis(&x.known); err != nil {
		return nil, err
	}
	x.root = &history{program: program{cfg.Subject, cfg.Subject.Leased(), x.setUp, newHistories()}}
	return x, nil
}

func (x *explorer) close() { x.setUp.close() }

// engine makes an engine. The caller must close its redis.
func (x *explorer) engine() (*engine, error) {
	r, err := newRedis(&x.known)
	return &engine{root: x.root, redis: r}, err
}

func (x *explorer) first() *state {
	stock := key{name: stockKey, kind: "string", words: []string{strconv.Itoa(lab.Units(x.cfg.Buyers))}, left: -1}
	return &state{data: data{stock}, buyers: make([]buyer, x.cfg.Buyers), holder: nobody, left: x.cfg.Faults}
}

// run explores the states breadth first: first the states after one move, then the states after
// two, and so on.
func (x *explorer) run(ctx context.Context) error {
	level := []int{x.reach(x.first(), -1, lab.Move{})}
	for len(level) > 0 {
		found := make([][]step, len(level))
		if err := x.parallel(ctx, len(level), func(e *engine, i int) (err error) {
			found[i], err = x.expand(e, x.graph[level[i]])
			return err
		}); err != nil {
			return err
		}
		var next []int
		for i, steps := range found {
			for _, st := range steps {
				if v, fresh := x.add(level[i], st); fresh {
					next = append(next, v)
				}
			}
			x.graph[level[i]].s = nil
		}
		x.root.program.histories.settle()
		for _, v := range next {
			x.graph[v].s.settle()
		}
		level = next
		if most := x.cfg.Budget.States; most > 0 && len(x.graph) > most && len(level) > 0 {
			x.out.Cut = true
			return nil
		}
		if x.cfg.Progress != nil {
			x.cfg.Progress(len(x.graph), len(level))
		}
	}
	return nil
}

// parallel calls f with each number from 0 to n-1, from one worker for each processor. Each
// worker has its own engine.
func (x *explorer) parallel(ctx context.Context, n int, f func(e *engine, i int) error) error {
	all, ctx := errgroup.WithContext(ctx)
	var next atomic.Int64
	for range min(runtime.GOMAXPROCS(0), n) {
		all.Go(func() error {
			e, err := x.engine()
			if err != nil {
				return err
			}
			defer e.redis.close()
			for i := next.Add(1); i <= int64(n) && err == nil; i = next.Add(1) {
				if ctx.Err() != nil {
					return context.Cause(ctx)
				}
				err = f(e, int(i)-1)
			}
			return err
		})
	}
	return all.Wait()
}

// step is a move from a state, and its result.
type step struct {
	move  lab.Move
	s     *state
	id    identity
	found []lab.Goal
}

// expand makes every possible move. Time may pass not only up to the next event, but also up to
// each later one, as far as one move may go.
func (x *explorer) expand(e *engine, v reached) ([]step, error) {
	var out []step
	try := func(from *state, m lab.Move) (*state, error) {
		s, err := e.make(from, m)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", lab.MovesText(append(x.path(v), m)), err)
		}
		s.limited(m)
		x.made.Add(1)
		out = append(out, step{m, s, s.id(), e.found})
		return s, nil
	}
	for _, m := range v.s.moves() {
		if _, err := try(v.s, m); err != nil {
			return nil, err
		}
	}
	var met []identity
	var passed time.Duration
	for s := v.s; ; {
		d, ok := s.nearest()
		if !ok || passed+d > lab.MaxPass {
			return out, nil
		}
		var err error
		if s, err = try(s, lab.Move{Action: lab.Pass, For: d}); err != nil {
			return nil, err
		}
		last := &out[len(out)-1]
		passed += d
		last.move.For = passed
		if v.move.Action == lab.Pass || slices.Contains(met, last.id) {
			return out, nil
		}
		met = append(met, last.id)
	}
}

// reach adds a state to the graph, and returns its index.
func (x *explorer) reach(s *state, from int, m lab.Move) int {
	v := reached{from: from, move: m, s: s, done: true}
	for _, b := range s.buyers {
		v.done = v.done && (b.dead || b.history != nil && b.now().done)
	}
	x.graph = append(x.graph, v)
	return len(x.graph) - 1
}

// Faults limits the faults of each kind in a schedule. The passing of time is not limited.
type Faults struct {
	Freezes int `json:"freezes"` // a process freezes, and may thaw later
	Kills   int `json:"kills"`   // a process dies
	Losses  int `json:"losses"`  // Redis executes a command, but the connection breaks before the reply
}

// OneOfEach allows one fault of each kind, like the table in the docs.
var OneOfEach = Faults{1, 1, 1}

// add adds the result of a move to the graph. It returns the index of the state, and reports
// whether the state is new.
func (x *explorer) add(from int, st step) (v int, fresh bool) {
	for _, goal := range st.found {
		if _, ok := x.out.Breaks[goal]; !ok {
			x.out.Breaks[goal] = lab.MovesText(append(x.path(x.graph[from]), st.move))
		}
	}
	v, ok := x.seen[identity{sum: st.id.sum}] // a state from which all moves are tried
	if !ok {
		v, ok = x.seen[st.id]
	}
	if !ok {
		v = x.reach(st.s, from, st.move)
		x.seen[st.id] = v
	}
	if a := st.move.Action; a == lab.Step || a == lab.Thaw || a == lab.Pass {
		x.graph[from].next = append(x.graph[from].next, v)
	}
	return v, !ok
}

// path returns the moves from the first state to a state.
func (x *explorer) path(v reached) (moves []lab.Move) {
	for ; v.from >= 0; v = x.graph[v.from] {
		moves = append(moves, v.move)
	}
	slices.Reverse(moves)
	return moves
}

// findStuck finds the first state from which at least one living buyer is never served, if no
// further fault happens.
func (x *explorer) findStuck() {
	before := make([][]int, len(x.graph))
	var open []int
	good := make([]bool, len(x.graph))
	for i, v := range x.graph {
		for _, n := range v.next {
			before[n] = append(before[n], i)
		}
		if v.done {
			good[i], open = true, append(open, i)
		}
	}
	for len(open) > 0 {
		last := open[len(open)-1]
		open = open[:len(open)-1]
		for _, i := range before[last] {
			if !good[i] {
				good[i], open = true, append(open, i)
			}
		}
	}
	if i := slices.Index(good, false); i >= 0 {
		x.out.Breaks[lab.GoalStuck] = lab.MovesText(x.path(x.graph[i]))
	}
}
