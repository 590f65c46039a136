package lab

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"oversell/internal/backend/backendtest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
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
	for _, text := range []string{"D", "a", "A0", "A10", "A+1", "A..B", "A.", ".", "p", "p0", "p60001", "p1.5", "p05", "f", "fD", "fAB", "A B", "Ä"} {
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
	if state, err := Play(Schedule{"v2_ttl", 2, minutes(5)}); err != nil || slices.ContainsFunc(state.Can, func(m string) bool { return m[0] == 'p' }) {
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

// walk makes moves at random, of those that are said to be possible.
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

// difference shows from where on two texts differ.
func difference(want, got string) string {
	a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			from := max(0, i-5)
			return fmt.Sprintf("line %d was\n%s\nand is\n%s", i, strings.Join(a[from:min(i+5, len(a))], "\n"), strings.Join(b[from:min(i+5, len(b))], "\n"))
		}
	}
	return fmt.Sprintf("%d lines were %d", len(b), len(a))
}

// What is said to be possible is, and the same moves always lead to the same.
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

// After a lost reply a helper releases the lock in the background, while its caller releases
// it too, by the same command. The caller's is always the first.
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
