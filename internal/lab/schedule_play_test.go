package lab

import (
	"slices"
	"strings"
	"testing"
)

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
	if s := played(t, "none", 2, "A.A.B"); s.Verdict.Outcome != Over || s.Players[0].Result != Bought || s.Players[1].Result != SoldOut {
		t.Errorf("one after the other: %+v, %+v", s.Verdict, s.Players)
	}
}

// A step is one command: Redis has seen what was let go, and nothing more.
func TestNothingHappensThatIsNotLet(t *testing.T) {
	s := played(t, "v4_lua", 2, "")
	if len(s.Trace) != 0 || len(s.Keys) != 1 || s.Keys[0].Name != "stock" || s.Keys[0].Value != "1" {
		t.Errorf("before the first move: %+v, %+v", s.Trace, s.Keys)
	}
	for i, p := range s.Players {
		if p.Status != Outside || len(p.Next) != 1 || p.Next[0].Move != buyerName(i) || p.Next[0].Text != "SET lock token-"+p.Name+"1 ex 3 nx" {
			t.Errorf("%s: %s, about to send %+v", p.Name, p.Status, p.Next)
		}
	}
	s = played(t, "v4_lua", 2, "p60000.A.A.p2999")
	if len(s.Trace) != 3 || s.Now != 62999 || s.Lock.Redis != "A" || *s.Lock.TTL != 1 || !slices.Equal(s.Lock.Inside, []string{"A"}) {
		t.Errorf("after two steps: %+v, %+v", s.Trace, s.Lock)
	}
}

// A script is one step, whoever runs it first, and can be read before that.
func TestScriptIsOneStep(t *testing.T) {
	s := played(t, "v4_lua", 3, "A.A.A")
	next := s.Players[0].Next
	if len(next) != 1 || !strings.Contains(next[0].Script, "redis.call('DEL', KEYS[1])") || !strings.Contains(next[0].Text, "EVAL «Deletes the lock") {
		t.Fatalf("about to send %+v", next)
	}
	s = played(t, "v4_lua", 3, "A.A.A.A.B.B.B")
	if s.Players[0].Status != Done || s.Lock.Redis != "B" {
		t.Errorf("%+v, %+v; want A to be done", s.Players[0], s.Lock)
	}
	if next := s.Players[1].Next; len(next) != 1 || !strings.HasPrefix(next[0].Text, "EVALSHA") || next[0].Script == "" {
		t.Errorf("the second one is about to send %+v", next)
	}
}

// The holder comes late, and removes the lock of the next one; by a script it does
// not. That both oversell is another matter.
func TestLateHolderDeletesTheNextOnesLock(t *testing.T) {
	const moves = "A.A.fA.p3000.B.tA.A"
	v2 := played(t, "v2_ttl", 2, moves+".A")
	if got := found(v2, ForeignDelete); len(got) != 1 || got[0] != "A deleted the lock of B" || v2.Lock.Redis != "free" {
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
	// Stage 3 looks first, and is late between the look and the DEL.
	v3 := played(t, "v3_uuid", 2, "A.A.A.A.p3000.B.A")
	if got := found(v3, ForeignDelete); len(got) != 1 {
		t.Errorf("v3: found %q", got)
	}
}

// Each process has a lock of its own: nobody relies on that of another.
func TestLocksOfTwoProcessesAreTwo(t *testing.T) {
	s := played(t, "local", 2, "A.B")
	if got := found(s, Overlap); len(got) != 1 || got[0] != "B got the lock of its own process while A had another one" {
		t.Errorf("found %q", got)
	}
}

// A has bought in time, and is late only with its DEL: the harm is to the others.
func TestForeignDeleteLetsAThirdOneIn(t *testing.T) {
	const late = "A.A.A.p3000.B.B.A.C"
	v2 := played(t, "v2_ttl", 3, late+".C.B.C")
	if v2.Sale.Sold != 3 || v2.Sale.Initial != 2 || v2.Verdict.Outcome != Won {
		t.Errorf("v2: %+v, %+v", v2.Sale, v2.Verdict)
	}
	v4 := played(t, "v4_lua", 3, late)
	if p := v4.Players[2]; p.Status != Asleep || *p.Until != v4.Now+50 {
		t.Errorf("v4: the third one: %+v", p)
	}
}

// Without a freeze the lock is kept, however long its holder takes.
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
		if s.Verdict.Outcome != Over || s.Sale.Sold != 1 || s.Players[0].Result != Fenced || s.Players[1].Result != Bought {
			t.Errorf("%s: %+v, %+v", strategy, s.Verdict, s.Players)
		}
	}
}

// What its watchdog was about to send when it was stopped is a step of its own.
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

// A buyer who has given up waiting for a reply does not call the command back.
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
	if last := s.Trace[len(s.Trace)-1]; last.Actor != "B" || slices.ContainsFunc(s.Can, func(m string) bool { return strings.Contains(m, "A") }) {
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
		if b := s.Players[1]; b.Status != Waiting || *b.Until != 1000 || !strings.Contains(b.Says, "BLPOP lock:wake:"+waiter) {
			t.Errorf("%s: %+v", strategy, b)
		}
		if !slices.ContainsFunc(s.Keys, func(k Key) bool { return k.Name == "lock:queue" && k.Type == "list" && k.Value == waiter }) {
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

func TestLosersWriteIsRefused(t *testing.T) {
	s := played(t, "watch", 2, "A.A.B.B.A.A.A.B.B.B.p50.B.B.B")
	if s.Verdict.Outcome != Over || s.Players[0].Result != Bought || s.Players[1].Result != SoldOut {
		t.Errorf("%+v, %+v", s.Verdict, s.Players)
	}
	if !slices.ContainsFunc(s.Trace, func(e Event) bool { return e.Actor == "B" && e.Text == "EXEC" && e.Reply == "nil" }) {
		t.Errorf("no EXEC was refused: %+v", s.Trace)
	}
}

func BenchmarkPlay(b *testing.B) {
	for name, text := range map[string]string{
		"moves=9":   "A.A.fA.p3000.B.B.tA.A.B",
		"moves=100": "A.A" + strings.Repeat(".B.p50", 49),
	} {
		moves, err := ParseMoves(text)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := Play(Schedule{"v6_watchdog", 2, moves}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
