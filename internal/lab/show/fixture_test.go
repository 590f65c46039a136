package show_test

import (
	"strings"
	"time"

	"oversell/internal/lab"
)

// report returns a hand-made report with an example of everything that the output can show.
func report() lab.Report {
	return lab.Report{
		Manifest: lab.Manifest{
			Started: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC),
			Redis:   "miniredis 2.40.0 (embedded)", Go: "go1.26.0", OS: "linux/amd64", CPUs: 2, Version: "v0.1.0",
			TTL: 100 * time.Millisecond, Virtual: true, Wall: 9_876 * time.Millisecond,
			Strategies: strategies(),
		},
		Anomalies: []lab.Anomaly{ // not in the order in which they are shown: by loss, the worst first
			{Name: "stock-counted-only-once-everybody-left", Sentence: "A name that is longer than its column."},
			{Name: "retry-storm", Loss: lab.WastedWork,
				Sentence: "Whoever waits asks again and again, and Redis has no time for whoever works.",
				Sequence: "Twelve actors ask for one lock.",
				Source:   "seen in redislock, https://github.com/bsm/redislock"},
			{Name: "orphan-after-crash", Loss: lab.Stuck, Sentence: "The holder dies, and its lock stays forever.",
				Sequence: "A takes the lock and is killed. B asks and asks.", Source: "redis-py#818"},
			{Name: "check-then-delete", Loss: lab.SellsTwice,
				Sentence: "The holder looks whether the lock is still its own and deletes it, and in between it " +
					"became another's.",
				Sequence: "A takes the lock and works for nearly the whole lease. A reads its own token. The lease " +
					"ends; B takes the lock. A's DEL arrives and deletes the lock of B, though A had looked.",
				Source: "https://github.com/go-redsync/redsync/issues/107"},
		},
		Cells: cells(),
	}
}

func strategies() []string {
	return []string{"none", "local", "watch", "v1_setnx", "v2_ttl", "v3_uuid", "v4_lua", "v5_reentrant", "v6_watchdog",
		"v7_queue", "redsync", "redislock", "rueidislock", "yours"}
}

// cells returns a cell for each anomaly and strategy.
func cells() []lab.Cell {
	r := []struct {
		anomaly  string
		outcomes string // one letter per strategy: b, h, n, u; a capital if not as recorded
	}{
		{"check-then-delete", "nnnnnbhhhhhhhh"},
		{"orphan-after-crash", "nnnbhhhhhhhhhh"},
		{"retry-storm", "hhhbbbbbHhBbhu"},
		{"stock-counted-only-once-everybody-left", "bbhnnnnnnnnnUn"},
	}
	names := strategies()
	letters := map[string]lab.Outcome{"h": lab.Holds, "b": lab.Breaks, "n": lab.NA, "u": lab.Unknown}
	otherwise := map[lab.Outcome]lab.Outcome{lab.Holds: lab.Breaks, lab.Breaks: lab.Holds, lab.Unknown: lab.Holds}
	var out []lab.Cell
	for _, row := range r {
		for i, letter := range strings.Split(row.outcomes, "") {
			outcome := letters[strings.ToLower(letter)]
			c := lab.Cell{Anomaly: row.anomaly, Strategy: names[i], Outcome: outcome, Expected: outcome,
				Note: "two holders at once: A and B"}
			if letter != strings.ToLower(letter) {
				c.Expected = otherwise[outcome]
			}
			switch {
			case names[i] == "yours":
				c.Expected = ""
			case outcome == lab.NA:
				c.Note = "it has no lease that could end"
			}
			c.Trace = traces()[row.anomaly+"/"+names[i]]
			out = append(out, c)
		}
	}
	return out
}

// traces returns a trace for each cell that has one.
func traces() map[string][]lab.Event {
	return map[string][]lab.Event{
		"check-then-delete/v3_uuid":                   checkThenDelete(),
		"check-then-delete/v4_lua":                    longCommands(),
		"check-then-delete/redsync":                   lateReply(),
		"orphan-after-crash/v1_setnx":                 orphan(),
		"retry-storm/v5_reentrant":                    storm(),
		"retry-storm/v7_queue":                        handOver(),
		"stock-counted-only-once-everybody-left/none": counting(),
	}
}

func ms(v float64) *float64 { return &v }

func checkThenDelete() []lab.Event {
	return []lab.Event{
		{At: 0, Until: 0, Actor: "A", Kind: lab.Command, Text: "SET lock 6f1c… PX 100 NX", Reply: "OK", Lock: "A",
			TTL: ms(100)},
		{At: 0, Actor: "A", Kind: lab.Hold, Text: "holds the lock"},
		{At: 10, Actor: "B", Kind: lab.Command, Text: "SET lock 99ab… PX 100 NX", Reply: "nil", Lock: "A", TTL: ms(90)},
		{At: 30, Actor: "B", Kind: lab.Command, Text: "SET lock 99ab… PX 100 NX", Reply: "nil", Lock: "A", TTL: ms(70)},
		{At: 50, Actor: "B", Kind: lab.Command, Text: "SET lock 99ab… PX 100 NX", Reply: "nil", Lock: "A", TTL: ms(50)},
		{At: 90, Actor: "A", Kind: lab.Command, Text: "GET lock", Reply: "6f1c…", Lock: "A", TTL: ms(10)},
		{At: 90, Actor: "A", Kind: lab.Fault, Text: "its DEL is held back"},
		{At: 90, Until: 130, Actor: "A", Kind: lab.Command, Text: "DEL lock", Reply: "1"},
		{At: 110, Actor: "B", Kind: lab.Command, Text: "SET lock 99ab… PX 100 NX", Reply: "OK", Lock: "B",
			TTL: ms(100)},
		{At: 110, Actor: "B", Kind: lab.Hold, Text: "holds the lock"},
		{At: 130, Actor: "A", Kind: lab.Break, Text: "A, which is late, has deleted the lock of B", Lock: "free"},
		{At: 130, Actor: "A", Kind: lab.Release, Text: "Unlock returns nil"},
		{At: 130, Actor: "C", Kind: lab.Command, Text: "SET lock 0d2e… PX 100 NX", Reply: "OK", Lock: "C",
			TTL: ms(100)},
		{At: 130, Actor: "C", Kind: lab.Hold, Text: "holds the lock, and so does B"},
	}
}

// lateReply returns a trace with a command that Redis executes at once, and whose reply is delayed.
func lateReply() []lab.Event {
	return []lab.Event{
		{At: 0, Actor: "A", Kind: lab.Fault, Text: "its reply is delayed: SET lock 6f1c… PX 100 NX"},
		{At: 0, Until: 130, Actor: "A", Kind: lab.Command, Text: "SET lock 6f1c… PX 100 NX", Reply: "OK", Lock: "A",
			TTL: ms(100)},
		{At: 110, Actor: "B", Kind: lab.Command, Text: "SET lock 99ab… PX 100 NX", Reply: "OK", Lock: "B",
			TTL: ms(100)},
		{At: 110, Actor: "B", Kind: lab.Hold, Text: "has the lock"},
		{At: 130, Actor: "A", Kind: lab.Hold, Text: "has the lock"},
		{At: 130, Actor: "A", Kind: lab.Break, Text: "A has the lock, and B too"},
		{At: 140, Actor: "B", Kind: lab.Command,
			Text:  "EVALSHA «Starts the ttl afresh while the lock is still the owner's» lock B 100",
			Reply: "(executed; the reply is lost)", Lock: "B", TTL: ms(100)},
	}
}

// handOver returns a trace with a command that blocks in Redis, and whose reply arrives at the same
// moment as the event that it waited for.
func handOver() []lab.Event {
	return []lab.Event{
		{At: 0, Until: 0, Actor: "A", Kind: lab.Command, Text: "EVALSHA «Takes the lock» lock lock:queue token-A1 100",
			Reply: "1", Lock: "A", TTL: ms(100)},
		{At: 0, Actor: "A", Kind: lab.Hold, Text: "has the lock"},
		{At: 10, Until: 10, Actor: "B", Kind: lab.Command,
			Text: "EVALSHA «Takes the lock» lock lock:queue token-B1 100", Reply: "0", Lock: "A", TTL: ms(90)},
		{At: 10, Until: 40, Actor: "B", Kind: lab.Command, Text: "BLPOP lock:wake:token-B1 1",
			Reply: "[lock:wake:token-B1 held]"},
		{At: 40, Actor: "A", Kind: lab.Release, Text: "no longer needs the lock"},
		{At: 40, Until: 40, Actor: "A", Kind: lab.Command,
			Text: "EVALSHA «Hands the lock on» lock lock:queue token-A1 100", Reply: "0", Lock: "B", TTL: ms(100)},
		{At: 40, Actor: "B", Kind: lab.Hold, Text: "has the lock"},
		{At: 50, Until: 60, Actor: "A", Kind: lab.Command, Text: "BLPOP lock:wake:token-A2 1", Reply: "nil"},
		{At: 60, Actor: "B", Kind: lab.Release, Text: "no longer needs the lock"},
	}
}

func orphan() []lab.Event {
	return []lab.Event{
		{At: 0, Actor: "A", Kind: lab.Command, Text: "SETNX lock 1", Reply: "1", Lock: "A"},
		{At: 0, Actor: "A", Kind: lab.Hold, Text: "holds the lock"},
		{At: 5, Actor: "A", Kind: lab.Fault, Text: "killed"},
		{At: 1000, Actor: "B", Kind: lab.Command, Text: "SETNX lock 1", Reply: "0", Lock: "A"},
		{At: 3600000, Actor: "B", Kind: lab.Command, Text: "SETNX lock 1", Reply: "0", Lock: "A"},
		{At: 3600000, Kind: lab.Break, Text: "an hour after the crash nobody gets the lock"},
	}
}

// longCommands returns a trace with a script, an error and a command that never gets a reply.
func longCommands() []lab.Event {
	script := `EVALSHA e9f69f2beb755be68b5e456ee2ce9aadfbc4ebf4 1 lock 6f1c7a52-3d8e-4c4b-9f0e-8f1f3a6f2b11 30000`
	return []lab.Event{
		{At: 0.25, Until: 0.5, Actor: "the first actor", Kind: lab.Command, Text: script, Reply: "1",
			Lock: "the first actor", TTL: ms(100)},
		{At: 0.5, Actor: "the first actor", Kind: lab.Hold, Text: "TryLock returns true"},
		{At: 0.75, Actor: "the second actor", Kind: lab.Command, Text: script,
			Reply: "ERR Error running script (call to f_e9f69f2beb755be68b5e456ee2ce9aadfbc4ebf4): @user_script:1: " +
				"WRONGTYPE Operation against a key holding the wrong kind of value"},
		{At: 1, Actor: "the second actor", Kind: lab.Command, Text: "EVAL " +
			strings.Repeat("if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end ", 6) +
			" 1 lock 6f1c"},
		{At: 30, Actor: "the second actor", Kind: lab.Fault,
			Text: "the reply to its EVAL is lost, and it is \x1b[31mnever\x1b[0m told"},
		{At: 60, Actor: "the first actor", Kind: lab.Lost, Text: "its context is cancelled: the lock is lost"},
		{At: 60, Kind: lab.Note, Text: "both give up"},
	}
}

// storm returns a trace with more actors than the timeline has lanes.
func storm() []lab.Event {
	out := []lab.Event{
		{At: 0, Actor: "a01", Kind: lab.Command, Text: "HSET lock a01 1", Reply: "1", Lock: "a01 ×2", TTL: ms(100)},
		{At: 0, Actor: "a01", Kind: lab.Hold, Text: "holds the lock"},
	}
	for i, actor := range strings.Fields("a02 a03 a04 a05 a06 a07 a08 a09 a10 a11 a12") {
		out = append(out, lab.Event{At: float64(i), Actor: actor, Kind: lab.Command, Text: "HSETNX lock " + actor +
			" 1", Reply: "0", Lock: "a01 ×2", TTL: ms(100 - float64(i))})
	}
	return append(out,
		lab.Event{At: 20, Actor: "a12", Kind: lab.Hold, Text: "believes that it was let in"},
		lab.Event{At: 20, Actor: "a12", Kind: lab.Break,
			Text: "4,212 commands for 12 acquisitions, where 10 each would do"})
}

// counting returns a trace about stock, without a lock. Its last row has no actor.
func counting() []lab.Event {
	return []lab.Event{
		{At: 0, Actor: "A", Kind: lab.Command, Text: "GET stock", Reply: "1"},
		{At: 0, Actor: "B", Kind: lab.Command, Text: "GET stock", Reply: "1"},
		{At: 1, Actor: "A", Kind: lab.Command, Text: "SET stock 0", Reply: "OK"},
		{At: 1, Actor: "B", Kind: lab.Command, Text: "SET stock 0", Reply: "OK"},
		{At: 2, Kind: lab.Break, Text: "two are sold of one"},
	}
}
