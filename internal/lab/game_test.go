package lab

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"oversell/internal/backend/backendtest"
	"oversell/internal/message"
	"oversell/internal/page/texts"
)

// played returns the state after the moves, which must be possible.
func played(t *testing.T, strategy string, buyers int, moves string) State {
	t.Helper()
	state, err := Play(Schedule{Strategy: strategy, Buyers: buyers, Moves: moves})
	if err != nil {
		t.Fatalf("%s, %s: %v", strategy, moves, err)
	}
	return state
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
		if _, err := ParseMoves(text); err == nil || !strings.Contains(err.Error(), "p500") {
			t.Errorf("%q: %v; want an error that says what is allowed", text, err)
		}
	}
}

func FuzzParseMoves(f *testing.F) {
	f.Add("A.B2.p500.fA.tA.kB")
	f.Add("p60000.C9")
	f.Fuzz(func(t *testing.T, text string) {
		moves, err := ParseMoves(text)
		if err != nil {
			if _, ok := errors.AsType[Refusal](err); !ok {
				t.Errorf("%q: %v is not a Refusal", text, err)
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

// refusals are schedules that cannot be played, and what their author is told.
var refusals = []struct {
	Schedule
	why string
}{
	{Schedule{"v2_ttl", 2, strings.Repeat("p60000.", 5) + "p1", ""}, "lets too much time pass"},
	{Schedule{"v2_ttl", 2, strings.Repeat("p1.", MaxMoves) + "p1", ""}, "at most 200 moves"},
	{Schedule{"v2_ttl", 0, "", ""}, "2 or 3 buyers, not 0"},
	{Schedule{"v2_ttl", 4, "", ""}, "2 or 3 buyers, not 4"},
	{Schedule{"v2_ttl", 2, "C", ""}, "a buyer that does not exist"},
	{Schedule{"v99", 2, "", ""}, "unknown strategy"},
	{Schedule{"redlock", 2, "", ""}, "unknown strategy"}, // its lock is on other servers
	{Schedule{"none", 2, "", "victory"}, `unknown goal "victory" (allowed: oversell, `},
	{Schedule{"none", 2, "x", ""}, "move 1 is"},
	{Schedule{"none", 2, "A.A.A", ""}, "move 3, A: A has nothing to send: it is done"},
	{Schedule{"none", 2, "A2", ""}, "A has one command to send, and no command 2"},
	{Schedule{"none", 2, "fA", ""}, "A has not arrived yet"},
	{Schedule{"none", 2, "A.fA.A", ""}, "A is frozen"},
	{Schedule{"none", 2, "A.fA.fA", ""}, "A is frozen already"},
	{Schedule{"none", 2, "A.tA", ""}, "A is not frozen"},
	{Schedule{"none", 2, "A.kA.A", ""}, "A is dead"},
	{Schedule{"none", 2, "A.kA.tA", ""}, "A is dead"},
	{Schedule{"none", 2, "A.A.kA", ""}, "A is done"},
}

func TestScheduleIsRefused(t *testing.T) {
	for _, tt := range refusals {
		_, err := Play(tt.Schedule)
		if r, _ := errors.AsType[Refusal](err); !strings.Contains(r.Why.String(), tt.why) {
			t.Errorf("%+v: %v; want a Refusal that says %q", tt.Schedule, err, tt.why)
		}
	}
	const longest = "p60000.p60000.p60000.p60000.p60000"
	if can := played(t, "v2_ttl", 2, longest).Can; strings.Contains(strings.Join(can, ""), "p") {
		t.Errorf("after the longest time: %v; want no more of it", can)
	}
}

// walk makes n random moves from State.Can.
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

// Every move in State.Can is possible, and the same moves always lead to the same state, also when
// several schedules are played at once.
func TestSameScheduleSameState(t *testing.T) {
	for i, strategy := range Levels() {
		for seed := range uint64(backendtest.Times(1, 4)) {
			state := walk(t, strategy, 2+i%2, 14, seed)
			want := asJSON(t, state)
			var all sync.WaitGroup
			for range 3 {
				all.Go(func() {
					again, err := Play(Schedule{Strategy: strategy, Buyers: state.Buyers, Moves: state.Moves})
					if got := asJSON(t, again); err != nil || got != want {
						t.Errorf("%s, %s: it was\n%s\nand is, %v,\n%s", strategy, state.Moves, want, err, got)
					}
				})
			}
			all.Wait()
		}
	}
}

// After a lost reply, a nested call releases the lock in the background while its caller releases it with
// the same command. The caller's command always comes first.
func TestReleasesOfTheSameMomentHaveAnOrder(t *testing.T) {
	for range 30 {
		a := played(t, "nested_v5_reentrant", 2, "A.lA.A").Players[0]
		if a.Status != Done || len(a.Next) != 1 {
			t.Fatalf("A is %s with %d commands left, and not done with one", a.Status, len(a.Next))
		}
	}
}

// standing describes a state on one line: the outcome, the lease, the buyers and the findings.
func standing(s State) string {
	text := string(s.Verdict.Outcome)
	if s.Lock.Redis != "" {
		text += ", lock " + s.Lock.Redis
	}
	if s.Lock.TTL != nil {
		text += fmt.Sprintf(" for %v ms", *s.Lock.TTL)
	}
	for _, p := range s.Players {
		text += fmt.Sprintf("; %s %s", p.Name, p.Status)
		if p.Result != "" {
			text += ", " + string(p.Result)
		}
		if p.Inside {
			text += ", inside"
		}
		for _, n := range p.Next {
			command, _, _ := strings.Cut(n.Text, " ")
			text += ", " + n.Move + " sends " + command
			if n.Script != "" {
				text += " with its source"
			}
			if n.From == "watchdog" {
				text += " of its watchdog"
			}
			if n.GivenUp {
				text += " and waits no longer"
			}
		}
	}
	for _, f := range s.Findings {
		text += "; " + f.Text
	}
	return text
}

func TestWhatMovesLeadTo(t *testing.T) {
	for _, tt := range []struct{ strategy, moves, want string }{
		// Two buyers without a lock read the same stock.
		{"none", "A.B.A.B.p10", "won; A done, bought; B done, bought; B sells unit 2 of 1"},
		{"none", "A.A.B", "over; A done, bought; B done, sold_out"},
		// A step is one command: Redis receives only the commands that a move has released. A script is one
		// command.
		{"v4_lua", "", "open, lock free; A outside, A sends SET; B outside, B sends SET"},
		{"v4_lua", "p60000.A.A.p2999", "open, lock A for 1 ms; A ready, inside, A sends SET; B outside, B sends SET"},
		{"v4_lua", "A.A.A",
			"open, lock A for 3000 ms; A ready, A sends EVAL with its source; B outside, B sends SET"},
		{"v4_lua", "A.A.A.A.B.B.B", "over, lock free; A done, bought; B done, sold_out"},
		// A late holder deletes the next holder's lock, unless it uses a script. Both ways
		// oversell. In stage 3 the holder is late between its check and its DEL.
		{"v2_ttl", "A.A.fA.p3000.B.tA.A.A",
			"open, lock free; A done, bought; B ready, inside, B sends GET; " +
				"B got the lock while A still relied on it; A deleted the lock of B"},
		{"v4_lua", "A.A.fA.p3000.B.tA.A.A",
			"open, lock B for 3000 ms; A done, bought; B ready, inside, B sends GET; " +
				"B got the lock while A still relied on it"},
		{"v3_uuid", "A.A.A.A.p3000.B.A",
			"open, lock free; A done, bought; B ready, inside, B sends GET; A deleted the lock of B"},
		// A command still arrives after its buyer has stopped waiting for the reply.
		{"v2_ttl", "A.A.A.p6000.B",
			"open, lock B for 3000 ms; A done, bought, A sends DEL and waits no longer; " +
				"B ready, inside, B sends GET"},
		{"v2_ttl", "A.A.A.p6000.B.A",
			"open, lock free; A done, bought; B ready, inside, B sends GET; A deleted the lock of B"},
		// Without a freeze, a watchdog keeps the lock for as long as its holder works.
		{"v6_watchdog", "A.A.p3000.p3000.p3000.B",
			"open, lock A for 3000 ms; A ready, inside, A sends SET; B asleep"},
		{"v6_watchdog", "A.A.fA.p3000.B.B.tA.A.B",
			"won, lock B for 3000 ms; A ready, A sends EVAL with its source; " +
				"B ready, B sends EVALSHA with its source; B got the lock while A still relied on it; " +
				"B sells unit 2 of 1"},
		{"v7_queue", "A.A.fA.p3000.B.B.tA.A.B",
			"won, lock B for 3000 ms; A ready, A sends EVAL with its source; " +
				"B ready, B sends EVALSHA with its source; B got the lock while A still relied on it; " +
				"B sells unit 2 of 1"},
		// With a freeze, only a fencing token prevents a late write.
		{"v8_fenced", "A.A.fA.p3000.B.B.tA.A.B.A.B",
			"over, lock free; A done, fenced; B done, bought; B got the lock while A still relied on it; " +
				"the stock refused A: a later holder with a greater fencing token came first"},
		{"v9_cohort", "A.A.fA.p3000.B.B.tA.A.B.A.B",
			"over, lock free; A done, fenced; B done, bought; B got the lock while A still relied on it; " +
				"the stock refused A: a later holder with a greater fencing token came first"},
		// The command that a watchdog was about to send when its process was frozen is a
		// separate step.
		{"v6_watchdog", "A.p500.fA.p600.tA",
			"open, lock A for 1900 ms; " +
				"A ready, inside, A sends GET, A2 sends EVAL with its source of its watchdog; " +
				"B outside, B sends EVALSHA with its source"},
		{"v6_watchdog", "A.p500.fA.p600.tA.A2",
			"open, lock A for 3000 ms; A ready, inside, A sends GET; B outside, B sends EVALSHA with its source"},
		// A killed buyer does nothing more, and B waits forever.
		{"v1_setnx", "A.A.kA.B", "open, lock A; A dead; B asleep"},
		{"v1_setnx", "A.kA.B.kB", "over, lock A; A dead; B dead"},
		// A waiter is handed the lock while it blocks in Redis. In v7 it then asks once more, and gets the lock.
		{"v7_queue", "A.B.B", "open, lock A for 3000 ms; A ready, inside, A sends GET; B waiting"},
		{"v7_queue", "A.B.B.A.A.A",
			"open, lock B for 3000 ms; A done, bought; B ready, B sends EVALSHA with its source"},
		{"v7_queue", "A.B.B.A.A.A.B", "open, lock B for 3000 ms; A done, bought; B ready, inside, B sends GET"},
		{"v9_cohort", "A.B.B", "open, lock A for 3000 ms; A ready, inside, A sends EVAL with its source; B waiting"},
		{"v9_cohort", "A.B.B.A.A.A",
			"open, lock B for 3000 ms; A done, bought; B ready, inside, B sends EVALSHA with its source"},
		// A lock that is not reentrant refuses its own holder until the lease ends, which gives one finding
		// per wait. A reentrant lock admits its holder again, and is free only after as many unlocks.
		{"nested_v4_lua", "A.A.p1000.A",
			"open, lock A for 2000 ms; A asleep, inside; B outside, B sends SET; " +
				"A waits for its own lock"},
		{"nested_v4_lua", "A.A.p3000.A",
			"open, lock A for 3000 ms; A ready, inside, A sends EVAL with its source; B outside, B sends SET; " +
				"A waits for its own lock"},
		{"nested_v5_reentrant", "A.A.A.A.A",
			"open, lock A for 3000 ms; A ready, A sends EVALSHA with its source; " +
				"B outside, B sends EVALSHA with its source"},
		{"nested_v5_reentrant", "A.A.A.A.A.A",
			"open, lock free; A done, bought; B outside, B sends EVALSHA with its source"},
	} {
		if got := standing(played(t, tt.strategy, 2, tt.moves)); got != tt.want {
			t.Errorf("%s, %s:\n%s\nwant\n%s", tt.strategy, tt.moves, got, tt.want)
		}
	}
}

// The verdict on a schedule says what has gone wrong.
func TestVerdictSaysWhatWentWrong(t *testing.T) {
	for _, tt := range []struct{ strategy, moves, want string }{
		{"none", "A.B.A.B", "A and B each read 1, and wrote 0"},
		{"v2_ttl", "A.A.fA.p3000.B.tA.A.A", "A deleted the lock of B"},
	} {
		if got := played(t, tt.strategy, 2, tt.moves).Verdict.Sentence; !strings.Contains(got, tt.want) {
			t.Errorf("%s, %s: %q; want %q in it", tt.strategy, tt.moves, got, tt.want)
		}
	}
}

// A buyer that is frozen, or that waits for a lock that will expire, is not stuck. A buyer that waits for
// a dead holder's lock without an expiry is stuck, and the trace ends with that break.
func TestOnlyWhoIsNeverServedIsStuck(t *testing.T) {
	for _, tt := range []struct {
		strategy, moves string
		unserved        []string
	}{
		{"v1_setnx", "A.fA.B", nil}, {"v2_ttl", "A.kA.B", nil}, {"nested_v4_lua", "A.A", nil},
		{"v1_setnx", "A.kA", []string{"B"}},
	} {
		s, err := Play(Schedule{Strategy: tt.strategy, Buyers: 2, Moves: tt.moves, Goal: GoalStuck})
		if err != nil {
			t.Fatal(err)
		}
		stuck, last := slices.Contains(s.Reached, GoalStuck), s.Trace[len(s.Trace)-1]
		if !slices.Equal(s.Unserved, tt.unserved) || stuck != (tt.unserved != nil) || stuck && last.Kind != Break {
			t.Errorf("%s, %s: %v are never served, stuck: %v, and the last event is %+v; want %v",
				tt.strategy, tt.moves, s.Unserved, stuck, last, tt.unserved)
		}
	}
}

var word = regexp.MustCompile(`[a-z]{2,}`)

// Every sentence about a schedule, and every refusal of one, has a Chinese translation, except for
// commands and the errors of programs.
func TestSchedulesAreToldInChinese(t *testing.T) {
	chinese, err := texts.Read("zh.told")
	if err != nil {
		t.Fatal(err)
	}
	untold := make(map[string]bool)
	tell := func(english string, said message.Message) {
		if said.IsZero() {
			said = message.Text(english)
		}
		said.Translate(func(format string) string {
			if chinese[format] == "" && word.MatchString(format) && !strings.HasSuffix(format, "EOF") {
				untold[format] = true
			}
			return format
		})
	}
	states := []State{played(t, "v8_fenced", 2, "A.A.fA.p3000.B.B.B.tA.A.A")} // the stock refuses A
	for i, strategy := range Levels() {
		for seed := range uint64(backendtest.Times(3, 12)) {
			states = append(states, walk(t, strategy, 2+i%2, 14, seed))
		}
	}
	for _, s := range states {
		tell(s.Verdict.Sentence, s.Verdict.Message)
		for _, p := range s.Players {
			tell(p.Says, p.Message)
		}
		for _, f := range s.Findings {
			tell(f.Text, f.Message)
		}
		for _, e := range s.Trace {
			if e.Kind != Command {
				tell(e.Text, e.Message)
			}
		}
	}
	for _, tt := range refusals {
		_, err := Play(tt.Schedule)
		r, _ := errors.AsType[Refusal](err)
		tell(r.Why.String(), r.Why)
	}
	for format := range untold {
		t.Errorf("not translated: %s", format)
	}
}
