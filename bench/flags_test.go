package main

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"oversell/internal/bench"
	"oversell/internal/catalog"
)

func TestBadFlagsAreSaidInOneLine(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		args string
		want string
	}{
		{"-requests 0", "-requests is 0"},
		{"-requests 1e6", `"1e6"`},
		{"-strategies v", `"v" (did you mean v1_setnx or v2_ttl or`},
		{"-strategies v66", `"v66" (did you mean v6_watchdog?)`},
		{"-strategy none", "there is no flag -strategy; did you mean -strategies?"},
		{"-ttl 5", "-ttl 5 has no unit: write 5s"},
		{"-stock 1.5", `-stock "1.5" is not a whole number`},
		{"-seed -1", `-seed "-1" is not a whole number, 0 or more`},
		{"-conditions clam", "did you mean calm?"},
		{"-redis localhost:1 -strategies none", "unreachable"},
		{"-workload deduct -strategies h3_claim",
			"h3_claim is of workload hold, and -workload is deduct: leave -workload out to run both"},
		{"-strategies lua_stream -conditions crash -seam nowhere",
			`unknown name of a seam: "nowhere" (allowed: script, read, written)`},
		{"-strategies lua_stream -conditions calm -seam all", "seams need condition crash"},
		{"-seam ,", `"," names nothing`},
		{"-strategies lua_stream -accept-replicas 1",
			"replicas of accepted orders need a Redis with replicas: -redis local -conditions failover"},
		{"-strategies none,h3_claim -target http://h:1",
			"h3_claim is of workload hold: it needs shops that the bench starts"},
		{"-strategies none,h3_claim -instances 1 -conditions calm",
			"h3_claim is of workload hold: cannot be run: 1 instance; allowed: 2 to 16"},
		{"-conditions calm,stormy", `"stormy" (allowed: calm, slow`},
		{"-workload write", `"write" (allowed: deduct, cache`},
		{"-workload lock -strategies v7_queue,v7_queue", "v7_queue is named twice"},
		{"-zookeeper 127.0.0.1:1 -strategies zookeeper -conditions calm",
			"bench: zookeeper at 127.0.0.1:1: unreachable"},
		{"-redis local -conditions failover -rate 200 -duration 1s",
			"a duration of 1s; condition failover takes at least 4s"},
		{"-conditions chaos -seed 0", "-seed is 0"},
		{"-conditions chaos -faults flood", `"flood" is not a fault (allowed: shop-kill`},
		{"-conditions chaos -faults ,", `-faults "," names nothing`},
		{"-conditions calm -faults shop-kill", "-faults needs -conditions chaos"},
		{"-conditions chaos -faults db-kill -strategies watch",
			"the fault db-kill needs a real server: -redis local -db local"},
		{"-conditions chaos -requests 100", "-requests are sent all at once"},
		{"-conditions chaos -redis redis://127.0.0.1:1", "it needs servers that the bench starts, embedded or local"},
		{"-token x", "-token needs -target"},
		{"-strategies all,none", "all excludes other names"},
		{"-conditions failover", "needs a Redis with replicas that the bench starts: -redis local"},
		{"-redis local:cluster -conditions failover",
			"condition failover needs a Redis with replicas that the bench starts: -redis local\n"},
		{"-redis local:cluster -conditions partition",
			"condition partition needs a Redis whose connections can be relayed (embedded, local or " +
				"redis://host:port): not a single Redis without TLS"},
		{"-redis local:clusters", "want embedded, local, local:cluster, host:port, "},
		{"-workload cache -strategies watch", "watch has no lock"},
		{"-strategies sql_for_update", "sql_for_update needs MySQL or MariaDB: -db local"},
		{"-keeper database -strategies watch", "watch needs its stock in Redis, and -keeper is database"},
		{"-keeper redis -strategies sql_version", "sql_version needs its stock in the database, and -keeper is redis"},
		{"-second-look=false", "-second-look is not a flag of workload deduct"},
		{"-keeper drawer", `"drawer"; allowed: redis, database`},
		{"-repeat 0", "-repeat is 0"},
		{"-rate 10 -requests 5", "-requests are sent all at once: -rate and condition chaos take a -duration"},
		{"-rate 0", "-rate is 0"},
		{"-rate 10 -in-flight 0", "-in-flight is 0"},
		{"-duration 5s", "-duration needs -rate"},
		{"-json x -html ./x", "-json and -html are the same file, x"},
		{"-html -", "-html is -; it must be a file"},
		{"-retry never", `"never" (allowed: line:DELAY`},
		{"-ttl 0", "-ttl is 0"},
		{"-ttl soon", `"soon"`},
		{"-target http://u:secret@h:1", "is neither http://HOST:PORT nor"},
		{"-target http://h:1 -ttl 2s", "-ttl is for shops that the bench starts"},
		{"-target http://h:1 -redis local", "-redis is for shops that the bench starts"},
		{"-target http://h:1 -conditions pause", "with -target only calm"},
		{"-db u:secret@tcp(127.0.0.1:1)/shop", "unreachable"},
		{"-no-such-flag", "no-such-flag"},
		{"-lang fr", `-lang: "fr" is no language; allowed: en, zh`},
		{"-workload hold -work 1ms", "-work is not a flag of workload hold, which takes -workload, -strategies, "},
		{"-workload hold -strategies v8_fenced", `"v8_fenced" (allowed: h1_counter, h2_status, h3_claim)`},
		{"-workload hold -conditions failover",
			"condition failover needs a Redis with replicas that the bench starts: -redis local"},
		{"-workload hold -conditions chaos",
			"condition chaos with workload hold; allowed: [calm slow late crash pause partition failover]"},
		{"-workload hold -conditions partition -redis rediss://h:1",
			"condition partition needs a Redis whose connections can be relayed"},
		{"-workload hold -conditions crash -seam nowhere",
			`"nowhere" (allowed: take, capture, claim, order, refund, sweep)`},
		{"-workload hold -conditions pause -seam take", "seams need condition crash"},
		{"-seam take", "take is a seam of workload hold"},
		{"-workload hold -conditions crash -seam script", `a seam of workload hold: "script" (allowed: take`},
		{"-items 0", "-items is 0"},
		{"-items 10 -stock 9", "9 units of 10 items"},
		{"-items 10 -skew zipf:0", "zipf:S with an exponent S over 0"},
		{"-skew zipf:1.1", "-skew needs -items"},
		{"-items 2 -workload lock", "-items is not a flag of workload lock"},
		{"-items 2 -conditions chaos", "2 items under condition chaos, which sells one"},
		{"-items 2 -strategies none,h3_claim", "h3_claim is of workload hold: it sells one item"},
		{"-items 2 -strategies lua_stream -seam all", "2 items with seams"},
		{"-items 10000 -stock 10000 -repeat 100", "allowed: 1000000 in all rows together"},
		{"-workload lock -strategies v4_none", "v4_lua+line:2ms"},
		{"calm", `"calm" is not a flag`},
	} {
		t.Run(tt.args, func(t *testing.T) {
			t.Parallel() // some tests wait for servers that do not reply
			got := try(t, strings.Fields(tt.args)...)
			if got.code != exitFailed || got.stdout != "" {
				t.Errorf("exit code %d, stdout %q; want %d and nothing", got.code, got.stdout, exitFailed)
			}
			if !strings.HasPrefix(got.stderr, "bench: ") || !strings.Contains(got.stderr, tt.want) ||
				strings.Count(got.stderr, "\n") != 1 {
				t.Errorf("stderr %q, want one line with %q", got.stderr, tt.want)
			}
			if strings.Contains(got.stderr, "secret") {
				t.Errorf("stderr repeats the password: %q", got.stderr)
			}
		})
	}
}

func TestHelpHasExamples(t *testing.T) {
	for _, args := range []string{"-h", "--help", "-h all"} {
		got := try(t, strings.Fields(args)...)
		if got.code != exitExpected || got.stderr != "" {
			t.Errorf("%s: exit code %d, stderr %q", args, got.code, got.stderr)
		}
		for _, want := range []string{"Examples:", "go run ./bench -redis local -db local",
			"Exit code", "-strategies STRATEGIES"} {
			if !strings.Contains(got.stdout, want) {
				t.Errorf("%s: %q is not in the help", args, want)
			}
		}
	}
	if err := helpText.Check(flags(new(options), new(texts)), slices.Collect(maps.Values(flagsOf()))...); err != nil {
		t.Error(err)
	}
}

// The program accepts every example of its help.
func TestExamplesOfTheHelp(t *testing.T) {
	n := 0
	for line := range strings.Lines(helpText.Usage + helpText.More) {
		command, found := strings.CutPrefix(strings.TrimSpace(line), "go run ./bench")
		if !found {
			continue
		}
		n++
		command, _, _ = strings.Cut(command, "   ") // drop the explanation
		command, _, _ = strings.Cut(command, " | ")
		args := strings.Fields(strings.ReplaceAll(command, "'", ""))
		if len(args) == 0 {
			continue // the command uses only defaults
		}
		if args[0] == compareArg {
			continue // the command has files instead of flags
		}
		if _, err := parse(args); err != nil {
			t.Errorf("%q: %v", args, err)
		}
	}
	if n < 8 {
		t.Errorf("%d examples found in the help", n)
	}
}

func TestDefaults(t *testing.T) {
	calm, slow, crash, pause := catalog.Calm, catalog.Slow, catalog.Crash, catalog.Pause
	for _, tt := range []struct {
		args       string
		conditions []catalog.Condition
		workload   catalog.Workload
		holds      []catalog.Condition // conditions of h3_claim; nil if it is not run
	}{
		{"", []catalog.Condition{calm, slow, crash, pause}, catalog.Deduct, []catalog.Condition{calm, crash, pause}},
		{"-conditions pause,slow", []catalog.Condition{pause, slow}, catalog.Deduct, []catalog.Condition{pause, slow}},
		{"-instances 1", []catalog.Condition{calm, slow}, catalog.Deduct, nil},
		{"-instances 17", []catalog.Condition{calm, slow, crash, pause}, catalog.Deduct, nil},
		{"-target http://h:1", []catalog.Condition{calm}, catalog.Deduct, nil},
		{"-workload deduct", []catalog.Condition{calm, slow, crash, pause}, catalog.Deduct, nil},
		{"-workload cache", []catalog.Condition{calm, slow, crash, pause}, catalog.Cache, nil},
	} {
		o, err := parse(strings.Fields(tt.args))
		must(t, err)
		if !slices.Equal(o.Conditions, tt.conditions) ||
			!slices.Equal(o.Strategies, bench.DefaultStrategies(tt.workload)) {
			t.Errorf("%q: conditions %v, strategies %v", tt.args, o.Conditions, o.Strategies)
		}
		if id := o.parts()[0].ID; id == "" || o.manifest("redis", "db", nil).ID != id {
			t.Errorf("%q: the report names %q, and the items %q", tt.args, o.manifest("redis", "db", nil).ID, id)
		}
		var stages []string
		var holds []catalog.Condition
		if o.holds != nil {
			stages, holds = o.holds.Strategies, o.holds.Conditions
		}
		if !slices.Equal(holds, tt.holds) || len(holds) > 0 && !slices.Equal(stages, []string{"h3_claim"}) {
			t.Errorf("%q: holds under %v, want %v; stages %v", tt.args, holds, tt.holds, stages)
		}
		if o.Requests != 5000 || o.Stock != 1000 || o.Keys != bench.NoKeys || !o.SecondLook || o.redis != "embedded" ||
			o.db != "embedded" {
			t.Errorf("%q: %+v", tt.args, o)
		}
	}
}

func TestEnvironmentIsTheDefault(t *testing.T) {
	t.Setenv("OVERSELL_REDIS", "redis://h:1")
	t.Setenv("OVERSELL_DB", "local")
	t.Setenv("OVERSELL_TTL", "3s")
	if _, err := parse([]string{"-target", "http://h:1"}); err != nil {
		t.Errorf("a setting of shops in the environment conflicts with -target: %v", err)
	}
	t.Setenv("OVERSELL_REQUESTS", "70")
	if _, err := parse([]string{"-rate", "100"}); err != nil {
		t.Errorf("-requests in the environment conflicts with -rate: %v", err)
	}
	o, err := parse([]string{"-db", "embedded", "-strategies", " none, watch ,"})
	must(t, err)
	if o.redis != "redis://h:1" || o.db != "embedded" || o.TTL != 3*time.Second ||
		!slices.Equal(o.Strategies, []string{"none", "watch"}) {
		t.Errorf("%+v", o)
	}
	t.Setenv("OVERSELL_TTL", "5")
	const want = "OVERSELL_TTL in the environment: -ttl 5 has no unit: write 5s for seconds"
	if _, err := parse(nil); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

// If a report cannot be written, the program fails before the run, not after it.
func TestReportThatCannotBeWrittenIsSaidAtOnce(t *testing.T) {
	nowhere := filepath.Join(t.TempDir(), "no", "such", "folder")
	for _, flag := range []string{"-json", "-html"} {
		if got := try(t, flag, nowhere); got.code != exitFailed || got.stdout != "" ||
			!strings.HasPrefix(got.stderr, "bench: "+flag+": ") {
			t.Errorf("exit code %d: %s%s", got.code, got.stdout, got.stderr)
		}
	}
}

// Hold stages may be named with other strategies, or alone; the workload need not be named.
func TestStrategiesDecideTheWorkload(t *testing.T) {
	alone, err := parse([]string{"-strategies", "h3_claim", "-conditions", "calm", "-requests", "60"})
	if err != nil || alone.Workload != catalog.Hold || alone.holds != nil || alone.Requests != 60 ||
		!slices.Equal(alone.Strategies, []string{"h3_claim"}) {
		t.Errorf("alone: %+v, %v", alone.Config, err)
	}
	beside, err := parse([]string{"-strategies", "h3_claim,lua_stream", "-conditions", "calm,slow", "-requests", "60"})
	if err != nil || !slices.Equal(beside.Strategies, []string{"lua_stream"}) || beside.Requests != 60 ||
		beside.holds == nil ||
		!slices.Equal(beside.holds.Strategies, []string{"h3_claim"}) ||
		beside.holds.Requests != bench.HoldBuyers ||
		!slices.Equal(beside.holds.Conditions, beside.Conditions) {
		t.Errorf("beside: strategies %v, %d requests, holds %+v, %v", beside.Strategies, beside.Requests, beside.holds,
			err)
	}
	every, err := parse([]string{"-strategies", "all"})
	if err != nil || every.holds == nil || !slices.Equal(every.holds.Strategies, catalog.HoldNames()) {
		t.Errorf("all: holds %+v, %v", every.holds, err)
	}
}
