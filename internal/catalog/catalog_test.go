package catalog_test

import (
	"context"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis/rueidislock"

	"oversell/internal/backend/backendtest"
	"oversell/internal/backend/lockservers"
	"oversell/internal/catalog"
	"oversell/internal/figures"
	"oversell/internal/guard"
	"oversell/internal/locks/thirdparty"
)

func TestFindSaysWhatThereIs(t *testing.T) {
	all := catalog.Strategies()
	for _, name := range all.Names() {
		if s, err := all.Find(name); err != nil || s.Name != name {
			t.Errorf("Find(%q) = %q, %v", name, s.Name, err)
		}
	}
	for _, name := range []string{"", "V1_setnx", "v0"} {
		_, err := all.Find(name)
		if !errors.Is(err, catalog.ErrName) || !strings.Contains(err.Error(), "v6_watchdog") {
			t.Errorf("Find(%q): %v, want %v and the names", name, err, catalog.ErrName)
		}
	}
	if _, err := catalog.ParseCondition("calmly"); !errors.Is(err, catalog.ErrName) || !strings.Contains(err.Error(), "pause") {
		t.Errorf("ParseCondition: %v", err)
	}
	if _, err := catalog.ParseWorkload("reads"); !errors.Is(err, catalog.ErrName) || !strings.Contains(err.Error(), "cache") {
		t.Errorf("ParseWorkload: %v", err)
	}
}

// Each strategy guards read-work-write on a number in Redis, in 2 processes with 20 callers
// each. No update is lost by a strategy that claims so.
func TestGuardsThatHoldLoseNothing(t *testing.T) {
	backendtest.EachRedis(t, func(t *testing.T, rdb redis.UniversalClient) {
		specs := lockservers.Specs{Redlock: "embedded", Etcd: "embedded"}
		servers, err := lockservers.Serve(t.Context(), specs, catalog.NeedsNodes, catalog.NeedsEtcd)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = servers.Close() })
		processes := []catalog.Options{process(t, rdb, servers.Addresses), process(t, rdb, servers.Addresses)}
		for _, s := range catalog.Strategies().With(processes[0]) {
			expected, known := s.Expect(catalog.Case{Workload: catalog.Deduct, Condition: catalog.Calm, Instances: 2})
			if s.Kind != catalog.Guarded || !known || expected.MaxHolders != 1 {
				continue
			}
			t.Run(s.Name, func(t *testing.T) {
				const callers = 20
				key := "{" + s.Name + "}"
				var all sync.WaitGroup
				for process, o := range processes {
					g := s.NewGuard(o)
					for caller := range callers {
						e := guard.Entry{Key: key + ":lock", Owner: strconv.Itoa(process) + "/" + strconv.Itoa(caller)}
						all.Go(func() {
							if _, err := g.Do(t.Context(), e, increment(rdb, key)); err != nil {
								t.Error(err)
							}
						})
					}
				}
				all.Wait()
				if n, err := rdb.Get(t.Context(), key).Int(); err != nil || n != 2*callers {
					t.Errorf("counted %d, %v; want %d", n, err, 2*callers)
				}
				if n, err := rdb.Exists(t.Context(), key+":lock").Result(); err != nil || n != 0 {
					t.Errorf("the lock is left behind (%v)", err)
				}
			})
		}
	})
}

// process returns the Options of one process.
func process(t *testing.T, rdb redis.UniversalClient, at lockservers.Addresses) catalog.Options {
	t.Helper()
	c, err := lockservers.Dial(t.Context(), at, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	o := c.Add(catalog.Options{Redis: rdb, TTL: time.Minute, Policy: &guard.Line{Delay: time.Millisecond}, Rueidislock: thirdparty.NewRueidislock(rdb, rueidislock.LockerOption{KeyValidity: time.Minute})})
	t.Cleanup(func() {
		if err := errors.Join(o.Rueidislock.Close(), c.Close()); err != nil {
			t.Error(err)
		}
	})
	return o
}

func increment(rdb redis.UniversalClient, key string) func(context.Context) error {
	return func(ctx context.Context) error {
		n, err := rdb.Get(ctx, key).Int()
		if err != nil && !errors.Is(err, redis.Nil) {
			return err
		}
		return rdb.Set(ctx, key, n+1, 0).Err()
	}
}

// The expectations that the bench's table must show.
func TestCatalogExpects(t *testing.T) {
	const broken = figures.Oversold
	for _, tt := range []struct {
		strategy  string
		condition catalog.Condition
		instances int
		want      figures.Verdict
	}{
		{"none", catalog.Calm, 1, broken},
		{"none", catalog.Calm, 2, broken},
		{"local", catalog.Calm, 1, figures.OK},
		{"local", catalog.Calm, 2, broken},
		{"watch", catalog.Calm, 2, figures.OK},
		{"watch", catalog.Crash, 2, figures.Drift},
		{"v1_setnx", catalog.Calm, 2, figures.OK},
		{"v1_setnx", catalog.Slow, 2, figures.OK},
		{"v1_setnx", catalog.Crash, 2, figures.Stuck},
		{"v2_ttl", catalog.Calm, 2, figures.OK},
		{"v2_ttl", catalog.Slow, 2, broken},
		{"v2_ttl", catalog.Late, 2, broken},
		{"v2_ttl", catalog.Crash, 2, figures.OK},
		{"v3_uuid", catalog.Slow, 2, broken},
		{"v3_uuid", catalog.Late, 2, figures.OK},
		{"v4_lua", catalog.Slow, 2, broken},
		{"v5_reentrant", catalog.Slow, 2, broken},
		{"v5_reentrant", catalog.Pause, 2, broken},
		{"v6_watchdog", catalog.Calm, 2, figures.OK},
		{"v6_watchdog", catalog.Slow, 2, figures.OK},
		{"v6_watchdog", catalog.Crash, 2, figures.OK},
		{"v6_watchdog", catalog.Pause, 2, broken},
		{"v7_queue", catalog.Slow, 2, figures.OK},
		{"v7_queue", catalog.Crash, 2, figures.OK},
		{"v7_queue", catalog.Pause, 2, broken},
		{"v8_fenced", catalog.Pause, 2, figures.OK},
		{"v9_cohort", catalog.Pause, 2, figures.OK},
		{"redlock", catalog.Pause, 2, broken},
		{"v6_watchdog", catalog.Failover, 2, broken},
		{"v8_fenced", catalog.Failover, 2, figures.OK},
		{"v9_cohort", catalog.Failover, 2, figures.OK},
		{"redlock", catalog.Failover, 2, figures.OK},
		{"sql_version", catalog.Failover, 2, figures.OK},
		{"etcd", catalog.Pause, 2, figures.OK},
		{"sql_for_update", catalog.Pause, 2, figures.OK},
		{"sql_conditional", catalog.Crash, 2, figures.OK},
		{"sql_units", catalog.Pause, 2, figures.OK},
		{"lua_atomic", catalog.Calm, 2, figures.OK},
		{"lua_atomic", catalog.Slow, 2, figures.OK},
		{"lua_atomic", catalog.Late, 2, figures.OK},
		{"lua_atomic", catalog.Crash, 2, figures.OK},
		{"lua_atomic", catalog.Crash, 2, figures.Drift},
		{"lua_atomic", catalog.Pause, 2, figures.OK},
		{"lua_batch", catalog.Calm, 2, figures.OK},
		{"lua_batch", catalog.Slow, 2, figures.OK},
		{"lua_batch", catalog.Late, 2, figures.OK},
		{"lua_batch", catalog.Crash, 2, figures.OK},
		{"lua_batch", catalog.Crash, 2, figures.Drift},
		{"lua_batch", catalog.Pause, 2, figures.OK},
	} {
		s, err := catalog.Strategies().Find(tt.strategy)
		if err != nil {
			t.Fatal(err)
		}
		e, known := s.Expect(catalog.Case{Workload: catalog.Deduct, Condition: tt.condition, Instances: tt.instances})
		if !known {
			t.Errorf("%s under %s: there is no expectation", tt.strategy, tt.condition)
		}
		if wrong := e.Check(catalog.Outcome{Verdict: tt.want, MaxHolders: 1}); wrong != "" {
			t.Errorf("%s under %s with %d: %s was refused: %s", tt.strategy, tt.condition, tt.instances, tt.want, wrong)
		}
		other := figures.OK
		if tt.want == figures.OK {
			other = broken
		}
		if tt.want != figures.Drift && e.Check(catalog.Outcome{Verdict: other, MaxHolders: 1}) == "" {
			t.Errorf("%s under %s with %d: %s was accepted", tt.strategy, tt.condition, tt.instances, other)
		}
	}
}

// If a failover brings back an older stock, the stock is rebuilt before it is sold again.
func TestFailoverOversellsNoStockInRedis(t *testing.T) {
	for _, name := range []string{"watch", "lua_atomic", "lua_batch"} {
		s, err := catalog.Strategies().Find(name)
		if err != nil {
			t.Fatal(err)
		}
		e, _ := s.Expect(catalog.Case{Workload: catalog.Deduct, Condition: catalog.Failover, Instances: 2})
		for verdict, want := range map[figures.Verdict]bool{
			figures.OK: true, figures.Drift: true, figures.Oversold: false, figures.Stuck: false, figures.Undersold: false,
		} {
			if slices.Contains(e.Verdicts, verdict) != want {
				t.Errorf("%s: %s is among %v: %v, want %v", name, verdict, e.Verdicts, !want, want)
			}
		}
	}
}

// The process that is killed with the holder of one item may have holders of others between the
// counter and the order. That strands units where the counter is in Redis, and nowhere else.
func TestKillAmongManyItemsMayStrandUnits(t *testing.T) {
	for _, tt := range []struct {
		strategy   string
		condition  catalog.Condition
		items      int
		inDatabase bool
		mayStrand  bool
	}{
		{"v6_watchdog", catalog.Crash, 20, false, true},
		{"v9_cohort", catalog.Crash, 20, false, true},
		{"lua_atomic", catalog.Crash, 20, false, true},
		{"v6_watchdog", catalog.Crash, 1, false, false},
		{"v6_watchdog", catalog.Calm, 20, false, false},
		{"v6_watchdog", catalog.Crash, 20, true, false},
		{"sql_conditional", catalog.Crash, 20, true, false},
		{"lua_stream", catalog.Crash, 20, false, false},
	} {
		s, err := catalog.Strategies().Find(tt.strategy)
		if err != nil {
			t.Fatal(err)
		}
		e, _ := s.Expect(catalog.Case{Workload: catalog.Deduct, Condition: tt.condition, Instances: 2, Items: tt.items, InDatabase: tt.inDatabase})
		if got := e.Check(catalog.Outcome{Verdict: figures.Drift, MaxHolders: 1}) == ""; got != tt.mayStrand {
			t.Errorf("%+v: drift is accepted: %v", tt, got)
		}
		for _, never := range []figures.Verdict{figures.Oversold, figures.Undersold, figures.Stuck} {
			if e.Check(catalog.Outcome{Verdict: never, MaxHolders: 1}) == "" {
				t.Errorf("%+v: %s is accepted", tt, never)
			}
		}
	}
}

func TestCatalogExpectsLoads(t *testing.T) {
	for _, tt := range []struct {
		strategy   string
		condition  catalog.Condition
		secondLook bool
		min, max   int64
	}{
		{"none", catalog.Calm, true, 3, 0},
		{"local", catalog.Calm, true, 2, 2},
		{"v1_setnx", catalog.Calm, true, 1, 1},
		{"v6_watchdog", catalog.Calm, true, 1, 1},
		{"v6_watchdog", catalog.Slow, true, 1, 1},
		{"v4_lua", catalog.Slow, true, 2, 0},
		{"v6_watchdog", catalog.Calm, false, 500, 0},
		{"local", catalog.Calm, false, 500, 0},
	} {
		s, err := catalog.Strategies().Find(tt.strategy)
		if err != nil {
			t.Fatal(err)
		}
		c := catalog.Case{Workload: catalog.Cache, Condition: tt.condition, Instances: 2, Requests: 5000, SecondLook: tt.secondLook}
		e, known := s.Expect(c)
		if !known || e.MinLoads != tt.min || e.MaxLoads != tt.max {
			t.Errorf("%s under %s, second look %v: %d to %d loads expected, want %d to %d",
				tt.strategy, tt.condition, tt.secondLook, e.MinLoads, e.MaxLoads, tt.min, tt.max)
		}
	}
}

// Only a strategy with a guard can guard the cache's loads, and has expectations for them.
func TestKindsFit(t *testing.T) {
	for _, s := range catalog.Strategies() {
		guarded := s.Kind == catalog.Guarded
		if guarded != (s.Guard != nil) || guarded != s.GuardsLoads() {
			t.Errorf("%s: kind %d, guard %v, guards loads %v", s.Name, s.Kind, s.Guard != nil, s.GuardsLoads())
		}
		for _, condition := range catalog.Conditions() {
			if _, known := s.Expect(catalog.Case{Workload: catalog.Deduct, Condition: condition, Instances: 2}); !known {
				t.Errorf("%s under %s: there is no expectation for a sale", s.Name, condition)
			}
			if condition == catalog.Partition || condition == catalog.Failover || condition == catalog.Chaos {
				continue // these have to do with a sale
			}
			if _, known := s.Expect(catalog.Case{Workload: catalog.Cache, Condition: condition, Instances: 2}); known != guarded {
				t.Errorf("%s under %s: there is an expectation for the cache: %v", s.Name, condition, known)
			}
		}
	}
}

func TestCheckNamesEveryDifference(t *testing.T) {
	e := catalog.Expectation{Verdicts: []figures.Verdict{figures.OK}, MaxHolders: 1, MinLoads: 2, MaxLoads: 3}
	if wrong := e.Check(catalog.Outcome{Verdict: figures.OK, MaxHolders: 1, Loads: 2}); wrong != "" {
		t.Errorf("the expected outcome was refused: %s", wrong)
	}
	wrong := e.Check(catalog.Outcome{Verdict: figures.Drift, MaxHolders: 2, Loads: 4})
	want := "verdict drift instead of ok, 2 holders at once instead of at most 1, 4 loads instead of at most 3"
	if wrong != want {
		t.Errorf("got %q, want %q", wrong, want)
	}
}

// The catalog names a test for each flaw, and the test must exist.
func TestCatalogNamesTestsThatExist(t *testing.T) {
	tests := make(map[string]bool)
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil {
				tests[f.Name.Name] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range catalog.Strategies() {
		if !tests[s.Test] {
			t.Errorf("%s: there is no test %s", s.Name, s.Test)
		}
	}
	for _, s := range catalog.HoldStages() {
		if !tests[s.Test] {
			t.Errorf("%s: there is no test %s", s.Name, s.Test)
		}
	}
}
