package lab

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"oversell/internal/backend/backendtest"
)

// played plays moves, which must be possible.
func played(t *testing.T, strategy string, buyers int, text string) State {
	t.Helper()
	moves, err := ParseMoves(text)
	if err != nil {
		t.Fatal(err)
	}
	state, err := Play(Schedule{Strategy: strategy, Buyers: buyers, Moves: moves})
	if err != nil {
		t.Fatalf("%s, %s: %v", strategy, text, err)
	}
	return state
}

// found returns the findings of a kind, as texts.
func found(s State, kind FindingKind) (texts []string) {
	for _, f := range s.Findings {
		if f.Kind == kind {
			texts = append(texts, f.Text)
		}
	}
	return texts
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	text, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestMovesAreReadAsTheyAreWritten(t *testing.T) {
	const text = "A.B2.C.p1.p60000.fA.tB.kC"
	moves, err := ParseMoves(text)
	if err != nil || MovesText(moves) != text {
		t.Errorf("%q became %q, %v", text, MovesText(moves), err)
	}
	if moves, err := ParseMoves("A1"); err != nil || MovesText(moves) != "A" {
		t.Errorf("A1 became %q, %v", MovesText(moves), err)
	}
	if moves, err := ParseMoves(""); err != nil || len(moves) > 0 {
		t.Errorf("nothing became %v, %v", moves, err)
	}
	for _, text := range []string{"D", "a", "A0", "A10", "A+1", "A..B", "A.", ".", "p", "p0", "p60001", "p1.5", "p05",
		"f", "fD", "fAB", "A B", "Ä"} {
		if _, err := ParseMoves(text); !errors.Is(err, ErrSchedule) || !strings.Contains(err.Error(), "p500") {
			t.Errorf("%q: %v; want an error that says what is allowed", text, err)
		}
	}
	if _, err := ParseMoves(strings.Repeat("A.", MaxMoves) + "A"); !errors.Is(err, ErrSchedule) {
		t.Errorf("too many moves: %v", err)
	}
}

func FuzzParseMoves(f *testing.F) {
	f.Add("A.B2.p500.fA.tA.kB")
	f.Add("p60000.C9")
	f.Fuzz(func(t *testing.T, text string) {
		moves, err := ParseMoves(text)
		if err != nil {
			if !errors.Is(err, ErrSchedule) {
				t.Errorf("%q: %v is not an ErrSchedule", text, err)
			}
			return
		}
		written := MovesText(moves)
		again, err := ParseMoves(written)
		if err != nil || !slices.Equal(again, moves) {
			t.Errorf("%q was written as %q, and read as %v, %v", text, written, again, err)
		}
	})
}

func TestScheduleIsBounded(t *testing.T) {
	minutes := func(n int) []Move { return slices.Repeat([]Move{{Action: Pass, For: time.Minute}}, n) }
	if state, err := Play(Schedule{"v2_ttl", 2, minutes(5)}); err != nil ||
		slices.ContainsFunc(state.Can, func(m string) bool { return m[0] == 'p' }) {
		t.Errorf("after the longest time: %v, %v; want no more of it", state.Can, err)
	}
	for name, sc := range map[string]Schedule{
		"too long":            {"v2_ttl", 2, minutes(6)},
		"too many moves":      {"v2_ttl", 2, slices.Repeat([]Move{{Action: Pass, For: 1}}, MaxMoves+1)},
		"nobody":              {"v2_ttl", 0, nil},
		"a crowd":             {"v2_ttl", 4, nil},
		"somebody not there":  {"v2_ttl", 2, []Move{{Action: Step, Buyer: 2}}},
		"an unknown strategy": {"v9", 2, nil},
		"another's server":    {"redlock", 2, nil},
	} {
		if _, err := Play(sc); !errors.Is(err, ErrSchedule) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestMoveThatIsNotPossible(t *testing.T) {
	for moves, why := range map[string]string{
		"A.A.A":       "move 3, A: A has nothing to send: it is done",
		"A2":          "A has one command to send, and no command 2",
		"fA":          "A has not arrived yet",
		"A.fA.A":      "A is frozen",
		"A.fA.fA":     "A is frozen already",
		"A.tA":        "A is not frozen",
		"A.kA.A":      "A is dead",
		"A.kA.tA":     "A is dead",
		"A.A.kA":      "A is done",
		"A.B.A.B.p10": "",
	} {
		parsed, err := ParseMoves(moves)
		if err != nil {
			t.Fatal(err)
		}
		_, err = Play(Schedule{"none", 2, parsed})
		if why == "" && err == nil {
			continue
		}
		if !errors.Is(err, ErrSchedule) || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v; want %q", moves, err, why)
		}
	}
}

// walk makes random moves from State.Can.
func walk(t *testing.T, strategy string, buyers, n int, seed uint64) State {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 1))
	state := played(t, strategy, buyers, "")
	for range n {
		if len(state.Can) == 0 {
			break
		}
		move := state.Can[rng.IntN(len(state.Can))]
		if move[0] == 'p' {
			move = []string{"p50", "p1000", "p3000", "p2999"}[rng.IntN(4)]
		}
		state = played(t, strategy, buyers, strings.TrimPrefix(state.Moves+"."+move, "."))
	}
	return state
}

// difference returns the first lines in which two texts differ.
func difference(want, got string) string {
	a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			from := max(0, i-5)
			return fmt.Sprintf("line %d was\n%s\nand is\n%s", i, strings.Join(a[from:min(i+5, len(a))], "\n"),
				strings.Join(b[from:min(i+5, len(b))], "\n"))
		}
	}
	return fmt.Sprintf("%d lines were %d", len(b), len(a))
}

// Every move in State.Can is possible, and the same moves always lead to the same state.
func TestSameScheduleSameState(t *testing.T) {
	for i, strategy := range Levels() {
		for seed := range uint64(backendtest.Times(1, 4)) {
			state := walk(t, strategy, 2+i%2, 14, seed)
			want := asJSON(t, state)
			for range 3 {
				if got := asJSON(t, played(t, strategy, state.Buyers, state.Moves)); got != want {
					t.Fatalf("%s, %s: %s", strategy, state.Moves, difference(want, got))
				}
			}
		}
	}
}

// After a lost reply a helper releases the lock in the background, while its caller releases it
// with the same command. The caller's command is always the first.
func TestReleasesOfTheSameMomentHaveAnOrder(t *testing.T) {
	for range 30 {
		a := played(t, "nested_v5_reentrant", 2, "A.lA.A").Players[0]
		if a.Status != Done || len(a.Next) != 1 {
			t.Fatalf("A is %s with %d commands left, and not done with one", a.Status, len(a.Next))
		}
	}
}

func TestSchedulesArePlayedSideBySide(t *testing.T) {
	const moves = "A.A.fA.p3000.B.B.tA.A.B.A.B"
	want := asJSON(t, played(t, "v9_cohort", 2, moves))
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			parsed, _ := ParseMoves(moves)
			state, err := Play(Schedule{"v9_cohort", 2, parsed})
			if got := asJSON(t, state); err != nil || got != want {
				t.Errorf("got %v, %s", err, got)
			}
		})
	}
	all.Wait()
}

func TestTwoBuyersWithoutALockOversell(t *testing.T) {
	s := played(t, "none", 2, "A.B.A.B")
	if s.Verdict.Outcome != Won || s.Sale != (Sale{Initial: 1, Stock: 0, Sold: 2, Over: 1, Lost: 1}) {
		t.Errorf("%+v, %+v; want one unit oversold", s.Verdict, s.Sale)
	}
	if want := "A and B each read 1, and wrote 0"; !strings.Contains(s.Verdict.Sentence, want) {
		t.Errorf("the verdict says %q; want %q in it", s.Verdict.Sentence, want)
	}
	if got := found(s, Oversold); len(got) != 1 || got[0] != "B sells unit 2 of 1" {
		t.Errorf("found %q", got)
	}
	if s := played(t, "none", 2, "A.A.B"); s.Verdict.Outcome != Over || s.Players[0].Result != Bought ||
		s.Players[1].Result != SoldOut {
		t.Errorf("one after the other: %+v, %+v", s.Verdict, s.Players)
	}
}

// A step is one command: Redis receives only what was let go.
func TestNothingHappensThatIsNotLet(t *testing.T) {
	s := played(t, "v4_lua", 2, "")
	if len(s.Trace) != 0 || len(s.Keys) != 1 || s.Keys[0].Name != "stock" || s.Keys[0].Value != "1" {
		t.Errorf("before the first move: %+v, %+v", s.Trace, s.Keys)
	}
	for i, p := range s.Players {
		if p.Status != Outside || len(p.Next) != 1 || p.Next[0].Move != buyerName(i) ||
			p.Next[0].Text != "SET lock token-"+p.Name+"1 ex 3 nx" {
			t.Errorf("%s: %s, about to send %+v", p.Name, p.Status, p.Next)
		}
	}
	s = played(t, "v4_lua", 2, "p60000.A.A.p2999")
	if len(s.Trace) != 3 || s.Now != 62999 || s.Lock.Redis != "A" || *s.Lock.TTL != 1 ||
		!slices.Equal(s.Lock.Inside, []string{"A"}) {
		t.Errorf("after two steps: %+v, %+v", s.Trace, s.Lock)
	}
}

// A script is one step for every buyer, and its text can be read before it runs.
func TestScriptIsOneStep(t *testing.T) {
	s := played(t, "v4_lua", 3, "A.A.A")
	next := s.Players[0].Next
	if len(next) != 1 || !strings.Contains(next[0].Script, "redis.call('DEL', KEYS[1])") ||
		!strings.Contains(next[0].Text, "EVAL «Deletes the lock") {
		t.Fatalf("about to send %+v", next)
	}
	s = played(t, "v4_lua", 3, "A.A.A.A.B.B.B")
	if s.Players[0].Status != Done || s.Lock.Redis != "B" {
		t.Errorf("%+v, %+v; want A to be done", s.Players[0], s.Lock)
	}
	if next := s.Players[1].Next; len(next) != 1 || !strings.HasPrefix(next[0].Text, "EVALSHA") ||
		next[0].Script == "" {
		t.Errorf("the second one is about to send %+v", next)
	}
}

// A late holder removes the next holder's lock, unless it uses a script. In both cases the shop
// oversells.
func TestLateHolderDeletesTheNextOnesLock(t *testing.T) {
	const moves = "A.A.fA.p3000.B.tA.A"
	v2 := played(t, "v2_ttl", 2, moves+".A")
	if got := found(v2, ForeignDelete); len(got) != 1 || got[0] != "A deleted the lock of B" ||
		v2.Lock.Redis != "free" {
		t.Errorf("v2: found %q, the lock is %s", got, v2.Lock.Redis)
	}
	if !strings.Contains(v2.Verdict.Sentence, "A deleted the lock of B") {
		t.Errorf("v2: the verdict says %q", v2.Verdict.Sentence)
	}
	v4 := played(t, "v4_lua", 2, moves+".A")
	if got := found(v4, ForeignDelete); len(got) != 0 || v4.Lock.Redis != "B" {
		t.Errorf("v4: found %q, the lock is %s", got, v4.Lock.Redis)
	}
	for _, s := range []State{v2, v4} {
		if got := found(s, Overlap); len(got) != 1 || got[0] != "B got the lock while A still relied on it" {
			t.Errorf("%s: found %q", s.Strategy, got)
		}
	}
	// Stage 3 checks first, and is delayed between the check and the DEL.
	v3 := played(t, "v3_uuid", 2, "A.A.A.A.p3000.B.A")
	if got := found(v3, ForeignDelete); len(got) != 1 {
		t.Errorf("v3: found %q", got)
	}
}

// Without a freeze the lock is kept, even if its holder takes long.
func TestWatchdogKeepsTheLockUnlessItIsStopped(t *testing.T) {
	kept := played(t, "v6_watchdog", 2, "A.A.p3000.p3000.p3000.B")
	if kept.Lock.Redis != "A" || kept.Players[1].Status != Asleep {
		t.Errorf("running: %+v, %+v", kept.Lock, kept.Players[1])
	}
	const stopped = "A.A.fA.p3000.B.B.tA.A.B"
	for _, strategy := range []string{"v6_watchdog", "v7_queue"} {
		if s := played(t, strategy, 2, stopped); s.Verdict.Outcome != Won {
			t.Errorf("%s, stopped: %+v", strategy, s.Verdict)
		}
	}
	for _, strategy := range []string{"v8_fenced", "v9_cohort"} {
		s := played(t, strategy, 2, stopped)
		if got := found(s, Refused); len(got) != 1 || !strings.HasPrefix(got[0], "the stock refused A: ") {
			t.Errorf("%s, stopped: found %q", strategy, got)
		}
		s = played(t, strategy, 2, stopped+".A.B")
		if s.Verdict.Outcome != Over || s.Sale.Sold != 1 || s.Players[0].Result != Fenced ||
			s.Players[1].Result != Bought {
			t.Errorf("%s: %+v, %+v", strategy, s.Verdict, s.Players)
		}
	}
}

// The command that a watchdog was about to send when its process was stopped is a step of its own.
func TestCommandOfAWatchdogIsAStep(t *testing.T) {
	s := played(t, "v6_watchdog", 2, "A.p500.fA.p600.tA")
	next := s.Players[0].Next
	if len(next) != 2 || next[0].From != "buyer" || next[1].From != "watchdog" || next[1].Move != "A2" {
		t.Fatalf("about to send %+v", next)
	}
	s = played(t, "v6_watchdog", 2, "A.p500.fA.p600.tA.A2")
	if len(s.Players[0].Next) != 1 || *s.Lock.TTL != 3000 {
		t.Errorf("after it: %+v, %+v", s.Players[0].Next, s.Lock)
	}
}

// A command still arrives after its buyer has given up waiting for the reply.
func TestCommandArrivesThoughItsSenderHasGivenUp(t *testing.T) {
	s := played(t, "v2_ttl", 2, "A.A.A.p6000.B")
	a := s.Players[0]
	if a.Status != Done || a.Result != Bought || len(a.Next) != 1 || !a.Next[0].GivenUp || s.Lock.Redis != "B" {
		t.Fatalf("%+v, %+v", a, s.Lock)
	}
	if s = played(t, "v2_ttl", 2, "A.A.A.p6000.B.A"); len(found(s, ForeignDelete)) != 1 {
		t.Errorf("found %+v", s.Findings)
	}
}

func TestKilledBuyerDoesNothing(t *testing.T) {
	s := played(t, "v1_setnx", 2, "A.A.kA.B")
	if a := s.Players[0]; a.Status != Dead || len(a.Next) != 0 || a.Inside || s.Lock.Redis != "A" {
		t.Errorf("%+v, %+v", a, s.Lock)
	}
	if last := s.Trace[len(s.Trace)-1]; last.Actor != "B" ||
		slices.ContainsFunc(s.Can, func(m string) bool { return strings.Contains(m, "A") }) {
		t.Errorf("after its death: %+v, and %q is possible", last, s.Can)
	}
	if s.Verdict.Outcome != Open { // B waits for ever
		t.Errorf("%+v", s.Verdict)
	}
	if s := played(t, "v1_setnx", 2, "A.kA.B.kB"); s.Verdict.Outcome != Over || len(s.Can) != 0 {
		t.Errorf("all dead: %+v, %q", s.Verdict, s.Can)
	}
}

// The waiter is handed the lock while it waits in Redis. In v7 it asks once more, and
// takes it.
func TestWaiterIsHandedTheLock(t *testing.T) {
	for strategy, waiter := range map[string]string{"v7_queue": "B/2", "v9_cohort": "token-B1"} {
		s := played(t, strategy, 2, "A.B.B")
		if b := s.Players[1]; b.Status != Waiting || *b.Until != 1000 ||
			!strings.Contains(b.Says, "BLPOP lock:wake:"+waiter) {
			t.Errorf("%s: %+v", strategy, b)
		}
		if !slices.ContainsFunc(s.Keys, func(k Key) bool {
			return k.Name == "lock:queue" && k.Type == "list" &&
				k.Value == waiter
		}) {
			t.Errorf("%s: keys %+v", strategy, s.Keys)
		}
		s = played(t, strategy, 2, "A.B.B.A.A.A")
		if b := s.Players[1]; s.Lock.Redis != "B" || b.Status != Ready {
			t.Errorf("%s: %+v, %+v", strategy, s.Lock, b)
		}
	}
	s := played(t, "v7_queue", 2, "A.B.B.A.A.A.B")
	if b := s.Players[1]; s.Lock.Redis != "B" || b.Status != Ready || b.Next[0].Text != "GET stock" {
		t.Errorf("%+v, %+v", s.Lock, b)
	}
}

// playedFor plays moves for a goal.
func playedFor(t *testing.T, goal Goal, strategy, moves string) State {
	t.Helper()
	parsed, err := ParseMoves(moves)
	if err != nil {
		t.Fatal(err)
	}
	s, err := PlayFor(Schedule{Strategy: strategy, Buyers: 2, Moves: parsed}, goal)
	if err != nil {
		t.Fatalf("%s/%s: %v", strategy, moves, err)
	}
	return s
}

// A buyer that is frozen, or that waits for a lock that will expire, is served in the end.
func TestWaitingIsNotStuck(t *testing.T) {
	for strategy, moves := range map[string]string{"v1_setnx": "A.fA.B", "v2_ttl": "A.kA.B", "nested_v4_lua": "A.A"} {
		if s := playedFor(t, GoalStuck, strategy, moves); slices.Contains(s.Reached, GoalStuck) || len(s.Unserved) > 0 {
			t.Errorf("%s/%s: %v, %v are never served", strategy, moves, s.Reached, s.Unserved)
		}
	}
	if s := playedFor(t, GoalStuck, "v1_setnx", "A.kA"); !slices.Equal(s.Unserved, []string{"B"}) {
		t.Errorf("%v are never served; want B", s.Unserved)
	} else if last := s.Trace[len(s.Trace)-1]; !slices.Equal(found(s, Unserved), []string{last.Text}) ||
		last.Kind != Break {
		t.Errorf("found %q, and the last event is %+v", found(s, Unserved), last)
	}
	if _, err := PlayFor(Schedule{Strategy: "none", Buyers: 2}, "victory"); !errors.Is(err, ErrSchedule) {
		t.Errorf("an unknown goal: %v", err)
	}
}

// A lock that is not reentrant refuses its own holder, until its lease ends. A reentrant lock lets
// it in, and is free only after as many unlocks.
func TestHelperThatLocksAgain(t *testing.T) {
	v4 := playedFor(t, "", "nested_v4_lua", "A.A")
	if got := found(v4, SelfWait); len(got) != 1 || got[0] != "A waits for the lock that it has itself" ||
		v4.Players[0].Status != Asleep || v4.Lock.Redis != "A" {
		t.Errorf("v4: found %q, %+v", got, v4.Players[0])
	}
	if s := playedFor(t, "", "nested_v4_lua", "A.A.p1000.A"); len(found(s, SelfWait)) != 1 {
		t.Errorf("v4: found %q; want one finding for one wait", found(s, SelfWait))
	}
	if s := playedFor(t, "", "nested_v4_lua", "A.A.p3000.A"); s.Players[0].Status != Ready || s.Lock.Redis != "A" {
		t.Errorf("v4, when its lease has ended: %+v, the lock is %s", s.Players[0], s.Lock.Redis)
	}
	v5 := playedFor(t, "", "nested_v5_reentrant", "A.A.A.A.A")
	if len(v5.Findings) > 0 || v5.Sale.Sold != 1 || !strings.HasPrefix(v5.Lock.Redis, "A") {
		t.Errorf("v5: %+v, %+v, the lock is %s", v5.Findings, v5.Sale, v5.Lock.Redis)
	}
	if v5 = playedFor(t, "", "nested_v5_reentrant", "A.A.A.A.A.A"); v5.Lock.Redis != "free" ||
		v5.Players[0].Result != Bought || !v5.Players[0].Sold {
		t.Errorf("v5, in the end: %+v, the lock is %s", v5.Players[0], v5.Lock.Redis)
	}
}
