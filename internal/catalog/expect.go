package catalog

import (
	"maps"
	"slices"

	"oversell/internal/figures"
	"oversell/internal/message"
)

// Expectation is the expected outcome of a run. A run differs from it if a lock that should hold
// broke, or if a flaw did not show.
type Expectation struct {
	Verdicts   []figures.Verdict // any of these
	MaxHolders int               // the largest number of holders at once; 0: any number
	MinLoads   int64             // cache: the fewest loads
	MaxLoads   int64             // cache: the most loads; 0: any number

	// Undecided means that the project promises nothing: if many buyers wait at once for a
	// third-party lock, chance decides which of them are served.
	Undecided bool
}

// Outcome is the part of a run's outcome that an Expectation covers.
type Outcome struct {
	Verdict    figures.Verdict
	MaxHolders int
	Loads      int64
}

// Check returns an empty message if o is as expected, and otherwise the differences.
func (e Expectation) Check(o Outcome) message.Message {
	if e.Undecided {
		return message.Message{}
	}
	var wrong []message.Message
	differ := func(format string, args ...any) { wrong = append(wrong, message.Newf(format, args...)) }
	if !slices.Contains(e.Verdicts, o.Verdict) {
		differ("verdict %s instead of %s", message.Text(string(o.Verdict)), e.verdicts())
	}
	if e.MaxHolders > 0 && o.MaxHolders > e.MaxHolders {
		differ("%d holders at once instead of at most %d", o.MaxHolders, e.MaxHolders)
	}
	if o.Loads < e.MinLoads {
		differ("%d loads instead of at least %d", o.Loads, e.MinLoads)
	}
	if e.MaxLoads > 0 && o.Loads > e.MaxLoads {
		differ("%d loads instead of at most %d", o.Loads, e.MaxLoads)
	}
	return message.Join("%v, %v", wrong...)
}

func (e Expectation) verdicts() message.Message {
	names := make([]message.Message, len(e.Verdicts))
	for i, v := range e.Verdicts {
		names[i] = message.Text(string(v))
	}
	return message.Join("%v or %v", names...)
}

// The expected outcomes of a sale.
var (
	ok        = []figures.Verdict{figures.OK}
	okOrDrift = []figures.Verdict{figures.OK, figures.Drift}

	holds    = Expectation{Verdicts: ok, MaxHolders: 1}
	overlaps = Expectation{Verdicts: ok} // several holders at once do no harm
	breaks   = Expectation{Verdicts: []figures.Verdict{figures.Oversold, figures.Drift}}
	sticks   = Expectation{Verdicts: []figures.Verdict{figures.Stuck}, MaxHolders: 1}
	// leftOpen is the expectation for third-party locks. Most of them starve some buyers if many
	// wait at once.
	leftOpen = Expectation{Undecided: true}
	// breaksAcross marks a guard that breaks if there is more than one instance. Expect replaces
	// it.
	breaksAcross = Expectation{}
)

// leased returns the outcomes of a lock with a lease. The stages differ only in their outcomes
// under slow and late.
func leased(slow, late Expectation) map[Condition]Expectation {
	return map[Condition]Expectation{Calm: holds, Slow: slow, Late: late, Crash: holds, Pause: breaks,
		Partition: breaks, Failover: breaks}
}

// fenced lists the outcomes of a lease if the stock refuses holders that have lost their lease: two
// holders may work at once, but only one of them writes.
var fenced = map[Condition]Expectation{Calm: holds, Slow: holds, Late: holds, Crash: holds, Pause: overlaps,
	Partition: overlaps, Failover: overlaps}

// elsewhere adapts the outcomes to a lease that is not kept on the Redis that fails over or is cut
// off.
func elsewhere(e map[Condition]Expectation) map[Condition]Expectation {
	e = maps.Clone(e)
	e[Partition], e[Failover] = holds, holds
	return e
}

// unguarded lists the outcomes of strategies that have no lock to lose. Units that a killed process
// has taken stay taken. A replica that takes over may have an older stock: a shop sells nothing
// from it, and rebuilds the stock from the orders.
var unguarded = map[Condition]Expectation{
	Calm: overlaps, Slow: overlaps, Late: overlaps, Pause: overlaps, Partition: overlaps,
	Crash: {Verdicts: okOrDrift}, Failover: {Verdicts: okOrDrift},
}

// behindTheSale lists the outcomes if the script also writes the order to a stream in Redis. A
// killed process leaves no units taken without an order. A replica that takes over may lack
// accepted orders: these orders are lost, and their units are sold again.
var behindTheSale = map[Condition]Expectation{
	Calm: overlaps, Slow: overlaps, Late: overlaps, Pause: overlaps, Partition: overlaps, Crash: overlaps,
	Failover: {Verdicts: okOrDrift},
}

// always returns a map with the same value for every condition.
func always[T any](v T) map[Condition]T {
	all := make(map[Condition]T)
	for _, c := range Conditions() {
		all[c] = v
	}
	return all
}

// loads says how many times a cold key may be loaded, and by which readers.
type loads int

const (
	once            loads = iota + 1 // by one reader among all instances
	twice                            // by the holder that was killed or lost its lease, and by the next holder
	twiceOrMore                      // by every holder that outlives its lease
	oncePerInstance                  // by one reader of each instance
	everyMiss                        // by every reader that comes before the first load is stored
	onceAndStuck                     // by the holder that was killed; there is no next holder
	anyLoads                         // nothing is promised: Expectation.Undecided
)

// The expected loads of a cold key under a lease, and under a renewed lease.
var (
	leasedLoads  = map[Condition]loads{Calm: once, Slow: twiceOrMore, Late: once, Crash: twice, Pause: twice}
	renewedLoads = map[Condition]loads{Calm: once, Slow: once, Late: once, Crash: twice, Pause: twice}
)

// Case is a run for which there is an Expectation.
type Case struct {
	Workload   Workload
	Condition  Condition
	Instances  int
	Requests   int
	SecondLook bool // cache: whether the readers look again under the lock
	Unfenced   bool // whether the stock ignores fencing tokens
	InDatabase bool // whether the stock is in the database instead of Redis
	Items      int  // number of items sold at once
}

// Expect returns the expected outcome of the case, and false if the case does not apply to
// the strategy.
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
	if c.Items > 1 && c.Condition == Crash && !c.InDatabase && s.Kind != Streamed {
		e = e.takenByKilled()
	}
	return e, known
}

// Comparable reports whether a run of the strategy can be judged. A library's lock, for which the
// project promises nothing, cannot be judged on an embedded Redis, which serves waiters worse than
// a real server.
func (s Strategy) Comparable(embeddedRedis bool) bool {
	return !embeddedRedis || !s.deduct[Calm].Undecided
}

// takenByKilled adapts an expectation to several items whose stock is in Redis. The killed process
// also has holders of other items, at any step of their work. One of them may have taken units but
// not written the order yet. No lock can prevent that.
func (e Expectation) takenByKilled() Expectation {
	if slices.Contains(e.Verdicts, figures.OK) && !slices.Contains(e.Verdicts, figures.Drift) {
		e.Verdicts = append(slices.Clone(e.Verdicts), figures.Drift)
	}
	return e
}

// Leeway says what may go wrong in a sale during which shops, Redis, the database and the network
// fail. No strategy may lose a confirmed order, or let an idempotency key buy twice.
type Leeway struct {
	Oversells string // what makes the strategy oversell; "": nothing does
	Strands   string // the units that may be stranded; "": none
	Sticks    bool   // a killed holder may block the sale for good
	Always    bool   // it oversells without any fault
	LosesLock bool   // if Redis loses its keys, a second holder enters and the stock does not notice
	Undecided bool   // the project promises nothing
}

// UnderChaos returns the leeway of the case. It follows from the outcomes under the other
// conditions, because each fault resembles one of these conditions at a different moment.
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
		may.Always, may.Oversells = true, "buyers who work at the same time"
	case oversells(Slow):
		may.Oversells = "a holder that works for longer than the ttl"
	case oversells(Pause) || oversells(Partition):
		may.Oversells = "a holder whose write is delayed for longer than the ttl"
	}
	may.LosesLock = c.InDatabase && oversells(Failover)
	may.Sticks = slices.Contains(under(Crash).Verdicts, figures.Stuck)
	if !c.InDatabase {
		may.Strands = "units of sales that were under way"
	}
	return may
}

// expectation returns the verdicts that the leeway allows.
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

// expectation returns the expected outcome of the case c for these loads. Without the second look,
// each reader that waited loads again. A tenth of the readers, the lower bound, is far below that
// number, and far above the number of loads with the second look.
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
