package locks

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"oversell/internal/figures"
)

// Expectation is what must come out of a run, so that a run can be told from
// one that went differently: a lock that broke, or a flaw that did not show.
type Expectation struct {
	Verdicts   []figures.Verdict // any of these
	MaxHolders int               // at most so many inside at once; 0: any number
	NobodyIn   bool              // nobody is let in at all
	MinLoads   int64             // cache: at least so many loads
	MaxLoads   int64             // cache: at most so many loads; 0: any number

	// Undecided says that the project promises nothing: under a crowd it is left
	// to chance whom a library of others serves.
	Undecided bool
}

// Outcome is what came out of a run, as far as an Expectation speaks of it.
type Outcome struct {
	Verdict    figures.Verdict
	MaxHolders int
	Loads      int64
}

// Check returns "" if o is what was expected, and otherwise what differs.
func (e Expectation) Check(o Outcome) string {
	if e.Undecided {
		return ""
	}
	var wrong []string
	if !slices.Contains(e.Verdicts, o.Verdict) {
		wrong = append(wrong, fmt.Sprintf("verdict %s instead of %s", o.Verdict, e.verdicts()))
	}
	if e.MaxHolders > 0 && o.MaxHolders > e.MaxHolders {
		wrong = append(wrong, fmt.Sprintf("%d holders at once instead of at most %d", o.MaxHolders, e.MaxHolders))
	}
	if e.NobodyIn && o.MaxHolders > 0 {
		wrong = append(wrong, fmt.Sprintf("%d holders at once instead of none", o.MaxHolders))
	}
	if o.Loads < e.MinLoads {
		wrong = append(wrong, fmt.Sprintf("%d loads instead of at least %d", o.Loads, e.MinLoads))
	}
	if e.MaxLoads > 0 && o.Loads > e.MaxLoads {
		wrong = append(wrong, fmt.Sprintf("%d loads instead of at most %d", o.Loads, e.MaxLoads))
	}
	return strings.Join(wrong, ", ")
}

func (e Expectation) verdicts() string {
	names := make([]string, len(e.Verdicts))
	for i, v := range e.Verdicts {
		names[i] = string(v)
	}
	return strings.Join(names, " or ")
}

// What a sale must come to.
var (
	ok        = []figures.Verdict{figures.OK}
	okOrDrift = []figures.Verdict{figures.OK, figures.Drift}

	holds    = Expectation{Verdicts: ok, MaxHolders: 1}
	overlaps = Expectation{Verdicts: ok} // two inside at once, without harm
	breaks   = Expectation{Verdicts: []figures.Verdict{figures.Oversold, figures.Drift}}
	sticks   = Expectation{Verdicts: []figures.Verdict{figures.Stuck}, MaxHolders: 1}
	// shuts lets nobody in. A row that is over before that has lasted for long is
	// undersold, and not yet stuck.
	shuts = Expectation{Verdicts: []figures.Verdict{figures.Stuck, figures.Undersold}, NobodyIn: true}
	// leftOpen is for the locks of others, of which most starve a crowd.
	leftOpen = Expectation{Undecided: true}
	// breaksAcross breaks as soon as there is a second instance.
	breaksAcross = Expectation{}
)

// leased is what comes out of a lock with a lease, of which slow and late
// holders are what sets one stage apart from another.
func leased(slow, late Expectation) map[Condition]Expectation {
	return map[Condition]Expectation{Calm: holds, Slow: slow, Late: late, Crash: holds, Pause: breaks, Partition: breaks, Failover: breaks}
}

// fenced is what comes out of a lease where the stock refuses a holder that has
// lost it: two may be at work at once, and only one of them writes.
var fenced = map[Condition]Expectation{Calm: holds, Slow: holds, Late: holds, Crash: holds, Pause: overlaps, Partition: overlaps, Failover: overlaps}

// elsewhere is what comes out of a lease that is not in the Redis that fails over,
// or cannot be reached.
func elsewhere(e map[Condition]Expectation) map[Condition]Expectation {
	e = maps.Clone(e)
	e[Partition], e[Failover] = holds, holds
	return e
}

// shutting is what comes out of a lease that is had only while all replicas hear.
func shutting(e map[Condition]Expectation) map[Condition]Expectation {
	e = maps.Clone(e)
	e[Failover] = shuts
	return e
}

// unguarded is what comes out where nobody is kept out, and so nobody has
// anything that could be lost. What a killed process has taken stays taken. A
// replica that takes over has the stock as it was when it last heard of it: a shop
// sells nothing of that, and counts the stock anew.
var unguarded = map[Condition]Expectation{
	Calm: overlaps, Slow: overlaps, Late: overlaps, Pause: overlaps, Partition: overlaps,
	Crash: {Verdicts: okOrDrift}, Failover: {Verdicts: okOrDrift},
}

// always gives every condition the same value.
func always[T any](v T) map[Condition]T {
	all := make(map[Condition]T)
	for _, c := range Conditions() {
		all[c] = v
	}
	return all
}

// loads is how often a cold key may be loaded.
type loads int

const (
	once            loads = iota + 1 // by one reader among all instances
	twice                            // by the holder that was killed or lost its lease, and by the next
	twiceOrMore                      // by every holder that outlives its lease
	oncePerInstance                  // by one reader of each instance
	everyMiss                        // by every reader that comes before the first load is stored
	onceAndStuck                     // by the holder that was killed; nobody comes after it
	anyLoads                         // nothing is promised: Expectation.Undecided
)

// What a cold key must come to under a lease, and under one that is renewed.
var (
	leasedLoads  = map[Condition]loads{Calm: once, Slow: twiceOrMore, Late: once, Crash: twice, Pause: twice}
	renewedLoads = map[Condition]loads{Calm: once, Slow: once, Late: once, Crash: twice, Pause: twice}
)

// Case is a run whose outcome can be expected.
type Case struct {
	Workload   Workload
	Condition  Condition
	Instances  int
	Requests   int
	SecondLook bool // cache: whether the readers look again under the lock
	Unfenced   bool // whether the stock leaves fencing tokens alone
	InDatabase bool // whether the stock is in the database, and not in Redis
}

// Expect returns what must come out of the case, and false where the strategy
// has nothing to do with the workload.
func (s Strategy) Expect(c Case) (Expectation, bool) {
	if c.Workload == Cache {
		l, known := s.loads[c.Condition]
		return l.expectation(c), known
	}
	if c.Condition == Chaos {
		return s.UnderChaos(c).expectation(), true
	}
	sale := s.deduct
	if c.Unfenced && s.unfenced != nil {
		sale = s.unfenced
	}
	if c.Condition == Partition && c.InDatabase {
		c.Condition = Late // the holder writes at once, and only its unlock is late
	}
	e, known := sale[c.Condition]
	if known && e.Verdicts == nil && !e.Undecided {
		if e = breaks; c.Instances == 1 {
			e = holds
		}
	}
	return e, known
}

// Leeway says what may come of a sale through which shops, Redis, the database and the
// network fail. Whatever the strategy, no order that a buyer was told of may be missing,
// and no idempotency key may buy twice.
type Leeway struct {
	Oversells string // "": nothing ever does; otherwise what makes it oversell
	Strands   string // "": no unit ever is; otherwise which units may be stranded
	Sticks    bool   // a holder that is killed may end the sale for good
	Always    bool   // it oversells without any fault
	LosesLock bool   // two are let in, and nothing helps, where Redis loses its keys
	Undecided bool   // the project promises nothing
}

// UnderChaos returns what may come of the case, which follows from what the catalog says of
// the other conditions: a fault is one of them, at another moment.
func (s Strategy) UnderChaos(c Case) Leeway {
	under := func(condition Condition) Expectation {
		c.Condition = condition
		e, _ := s.Expect(c)
		return e
	}
	oversells := func(condition Condition) bool {
		return slices.Contains(under(condition).Verdicts, figures.Oversold)
	}
	var may Leeway
	switch {
	case under(Calm).Undecided:
		may.Undecided = true
	case oversells(Calm):
		may.Always, may.Oversells = true, "buyers who are at work at once"
	case oversells(Slow):
		may.Oversells = "a holder that works for longer than the ttl"
	case oversells(Pause) || oversells(Partition):
		may.Oversells = "a holder whose write is held up for longer than the ttl"
	}
	may.LosesLock = c.InDatabase && oversells(Failover)
	may.Sticks = slices.Contains(under(Crash).Verdicts, figures.Stuck)
	if !c.InDatabase {
		may.Strands = "units of sales that were under way"
	}
	return may
}

// expectation is may as far as verdicts tell.
func (may Leeway) expectation() Expectation {
	e := Expectation{Verdicts: slices.Clone(ok), Undecided: may.Undecided}
	if may.Strands != "" {
		e.Verdicts = append(e.Verdicts, figures.Drift)
	}
	if may.Oversells != "" || may.LosesLock {
		e.Verdicts = append(e.Verdicts, figures.Oversold)
	}
	if may.Sticks {
		e.Verdicts = append(e.Verdicts, figures.Stuck)
	}
	return e
}

// expectation spells out what l means. Without the second look each reader
// that waited loads once more when it is let in; a tenth of all readers is far
// fewer than that, and far more than with it.
func (l loads) expectation(c Case) Expectation {
	if l == anyLoads {
		return leftOpen
	}
	n, reloaded := int64(c.Instances), []figures.Verdict{figures.Reloaded}
	if !c.SecondLook && l != everyMiss && l != onceAndStuck {
		return Expectation{Verdicts: reloaded, MinLoads: max(2, int64(c.Requests/10))}
	}
	switch l {
	case once:
		return Expectation{Verdicts: ok, MinLoads: 1, MaxLoads: 1}
	case twice:
		return Expectation{Verdicts: reloaded, MinLoads: 2, MaxLoads: 2}
	case twiceOrMore:
		return Expectation{Verdicts: reloaded, MinLoads: 2}
	case oncePerInstance:
		if n > 1 {
			return Expectation{Verdicts: reloaded, MinLoads: n, MaxLoads: n}
		}
		return Expectation{Verdicts: ok, MinLoads: 1, MaxLoads: 1}
	case everyMiss:
		return Expectation{Verdicts: reloaded, MinLoads: n + 1}
	}
	return Expectation{Verdicts: []figures.Verdict{figures.Stuck}, MinLoads: 1, MaxLoads: 1}
}
