package lockbench

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"oversell/internal/bench/report"
	"oversell/internal/figures"
	"oversell/internal/fleet"
	"oversell/internal/guard"
)

// begun is the time at which all rows of these tests start.
var begun = time.Unix(1_000_000, 0)

func at(millisecond int) time.Time {
	return begun.Add(time.Duration(millisecond) * time.Millisecond)
}

// ns returns a time as in a slip.
func ns(millisecond int) int64 { return at(millisecond).UnixNano() }

// in returns a contender that entered and left at these times, and was served.
func in(from, to int) slip { return slip{ns(from), ns(to), ns(to + 1), stateServed} }

// processOf returns a process whose contenders have these outcomes.
func processOf(slips ...slip) *member {
	return &member{Member: new(fleet.Member), contenders: len(slips), slips: slips}
}

// over returns a finished row with these processes and without lost updates.
func over(end int, members ...*member) ended {
	e := ended{members: members, start: begun, end: at(end), initial: 100, counter: 100}
	e.each(func(_ *member, s slip) {
		if s.state == stateServed {
			e.counter--
		}
	})
	return e
}

func TestOutcomesAndWaits(t *testing.T) {
	e := over(1000, processOf(
		in(10, 11), in(20, 21), in(30, 31), in(40, 49),
		slip{end: ns(60), state: stateTold},
		slip{end: ns(900), state: stateUnserved},
		slip{}, // a contender that never returned
		slip{from: ns(55), to: ns(56), end: ns(57), state: stateUnsure},
	))
	e.commands = 40
	r := e.row()
	if r.Contenders != 8 || r.Served != 4 || r.Told != 2 || r.NeverServed != 2 || r.Killed != 0 || r.Unsure != 1 {
		t.Errorf("%d contenders, %d served, %d told, %d never served, %d killed, %d unsure", r.Contenders, r.Served,
			r.Told, r.NeverServed, r.Killed, r.Unsure)
	}
	if r.P50 != 30 || r.Max != 55 || r.Throughput != 4/0.050 || r.Commands != 10 || r.Idle != 950 {
		t.Errorf("p50 %v, max %v, %v deducts/s, %v commands, idle %v", r.P50, r.Max, r.Throughput, r.Commands, r.Idle)
	}
	if r.Verdict() != report.Starved || r.Jain != 0 {
		t.Errorf("verdict %s, jain %v", r.Verdict(), r.Jain)
	}
}

// A contender that wrote the counter, and whose release did not return before the end of the row, is no lost update.
func TestContenderLeftInsideMayHaveDeducted(t *testing.T) {
	e := over(1000, processOf(in(10, 11), slip{from: ns(20), to: ns(21), state: stateWritten}))
	e.counter-- // the update of the second contender
	if r := e.row(); r.NeverServed != 1 || r.Unsure != 1 || r.LostUpdates != -1 || r.Verdict() != report.Starved {
		t.Errorf("%d never served, %d unsure, %d lost: %s", r.NeverServed, r.Unsure, r.LostUpdates, r.Verdict())
	}
}

// The second process has three deducts when the last waiter of the first process has entered, and
// all ten at the end.
func TestFairnessIsCountedDuringContention(t *testing.T) {
	var first, second []slip
	for i := range 10 {
		first = append(first, in(10*i, 10*i+1))
	}
	for i := range 10 {
		from := 200 + i
		if i < 3 {
			from = 5 + 30*i
		}
		second = append(second, in(from, from+1))
	}
	r := over(1000, processOf(first...), processOf(second...)).row()
	if want := []int{10, 3}; !slices.Equal(r.Deducts, want) || r.Jain != jain(want) {
		t.Errorf("%v deducts, jain %v; want %v, %v", r.Deducts, r.Jain, want, jain(want))
	}
}

func TestAProcessThatWaitsInVainContends(t *testing.T) {
	vain := slip{end: ns(900), state: stateUnserved}
	r := over(1000, processOf(in(0, 1), in(10, 11)), processOf(vain, vain)).row()
	if want := []int{2, 0}; !slices.Equal(r.Deducts, want) || r.Jain != 0.5 {
		t.Errorf("%v deducts, jain %v; want %v, 0.5", r.Deducts, r.Jain, want)
	}
}

func TestHoldersOfDisturbedProcesses(t *testing.T) {
	other := in(200, 300)
	for name, test := range map[string]struct {
		slip         slip
		stopped      bool // stopped from 100 to 250; otherwise killed at 100
		all, running int
	}{
		"stopped inside":          {slip: in(50, 260), stopped: true, all: 2, running: 1},
		"in when it goes on":      {slip: in(251, 260), stopped: true, all: 2, running: 2},
		"out before it stopped":   {slip: in(50, 60), stopped: true, all: 1, running: 1},
		"stopped, out too late":   {slip: in(99, 199), stopped: true, all: 1, running: 1},
		"in after the signal":     {slip: in(105, 260), stopped: true, all: 2, running: 1},
		"killed inside":           {slip: slip{from: ns(50), state: stateInside}, all: 1, running: 1},
		"killed after its writes": {slip: slip{from: ns(50), to: ns(60), state: stateWritten}, all: 1, running: 1},
	} {
		t.Run(name, func(t *testing.T) {
			e := over(1000, processOf(test.slip), processOf(other))
			h := hit{member: e.members[0], from: at(100)}
			if test.stopped {
				h.to = at(250)
			} else {
				h.member.Killed.Store(true)
			}
			e.hits = []hit{h}
			r := e.row()
			if r.MaxHolders != test.all || r.MaxHoldersRunning != test.running {
				t.Errorf("%d holders, %d that run; want %d, %d", r.MaxHolders, r.MaxHoldersRunning, test.all,
					test.running)
			}
		})
	}
}

func TestKilledContenders(t *testing.T) {
	m := processOf(
		in(1, 2),
		slip{from: ns(3), to: ns(4), state: stateWritten}, // it was killed before it unlocked
		slip{from: ns(5), state: stateInside},
		slip{}, slip{},
	)
	m.Killed.Store(true)
	e := over(1000, m)
	e.counter-- // the update of the second contender
	r := e.row()
	if r.Served != 2 || r.Killed != 3 || r.NeverServed != 0 || r.Unsure != 1 || r.LostUpdates != 0 ||
		r.Verdict() != figures.OK {
		t.Errorf("%d served, %d killed, %d never served, %d unsure, %d lost: %s", r.Served, r.Killed, r.NeverServed,
			r.Unsure, r.LostUpdates, r.Verdict())
	}
	e.counter-- // the update of the third contender, which was killed before it recorded the update
	if r := e.row(); r.LostUpdates != -1 || r.Verdict() != figures.OK {
		t.Errorf("%d lost: %s; want -1, which is within what is unsure", r.LostUpdates, r.Verdict())
	}
}

func TestReasonsAreBounded(t *testing.T) {
	var all tally
	for i := range 100 {
		all.note(fmt.Errorf("error %d", i), guard.Stats{})
	}
	if told := all.Told; len(told) != maxReasons+1 || told["other errors"] != 100-maxReasons {
		t.Errorf("%d reasons: %v", len(told), told)
	}
}

func TestJain(t *testing.T) {
	for want, given := range map[float64][]int{1: {7, 7, 7, 7}, 0.25: {0, 9, 0, 0}, 0.5: {5, 5, 0, 0}, 0.8: {1, 3},
		0: {0, 0}} {
		if got := jain(given); math.Abs(got-want) > 1e-12 {
			t.Errorf("of %v it is %v, want %v", given, got, want)
		}
	}
}
