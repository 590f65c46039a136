package locks_test

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

	"oversell/internal/backend/backendtest"
	"oversell/internal/backend/lockservers"
	"oversell/internal/backend/lockservers/lockserverstest"
	"oversell/internal/figures"
	"oversell/internal/locks"
	"oversell/internal/locks/thirdparty"
)

func TestFindSaysWhatThereIs(t *testing.T) {
	all := locks.Strategies()
	for _, name := range all.Names() {
		if s, err := all.Find(name); err != nil || s.Name != name {
			t.Errorf("Find(%q) = %q, %v", name, s.Name, err)
		}
	}
	for _, name := range []string{"", "V1_setnx", "v0"} {
		_, err := all.Find(name)
		if !errors.Is(err, locks.ErrName) || !strings.Contains(err.Error(), "v6_watchdog") {
			t.Errorf("Find(%q): %v, want %v and the names", name, err, locks.ErrName)
		}
	}
	if _, err := locks.ParseCondition("calmly"); !errors.Is(err, locks.ErrName) || !strings.Contains(err.Error(), "pause") {
		t.Errorf("ParseCondition: %v", err)
	}
	if _, err := locks.ParseWorkload("reads"); !errors.Is(err, locks.ErrName) || !strings.Contains(err.Error(), "cache") {
		t.Errorf("ParseWorkload: %v", err)
	}
}

// Each strategy guards read-work-write on a number in Redis, by 2 processes'
// guards of 20 callers each. What is said not to break does not.
func TestGuardsThatHoldLoseNothing(t *testing.T) {
	backendtest.EachRedis(t, func(t *testing.T, rdb redis.UniversalClient) {
		at := lockserverstest.Embedded(t)
		processes := []locks.Options{process(t, rdb, at), process(t, rdb, at)}
		for _, s := range locks.Strategies().With(processes[0]) {
			expected, known := s.Expect(locks.Case{Workload: locks.Deduct, Condition: locks.Calm, Instances: 2})
			if s.Kind != locks.Guarded || !known || expected.MaxHolders != 1 || s.Needs == locks.NeedsReplicas {
				continue
			}
			t.Run(s.Name, func(t *testing.T) {
				const callers = 20
				key := "{" + s.Name + "}"
				var all sync.WaitGroup
				for process, o := range processes {
					g := s.Guard(o)
					for caller := range callers {
						e := locks.Entry{Key: key + ":lock", Owner: strconv.Itoa(process) + "/" + strconv.Itoa(caller), Wait: t.Context()}
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

// process returns what the guards of one process are made with.
func process(t *testing.T, rdb redis.UniversalClient, at lockservers.Addresses) locks.Options {
	t.Helper()
	c, err := lockservers.Dial(t.Context(), at, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	o := c.Add(locks.Options{Redis: rdb, TTL: time.Minute, Policy: &locks.Line{Delay: time.Millisecond}, Rueidislock: thirdparty.NewRueidislock(rdb, time.Minute)})
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

// What the table of the bench has to tell.
func TestCatalogExpects(t *testing.T) {
	const broken = figures.Oversold
	for _, tt := range []struct {
		strategy  string
		condition locks.Condition
		instances int
		want      figures.Verdict
	}{
		{"none", locks.Calm, 1, broken},
		{"none", locks.Calm, 2, broken},
		{"local", locks.Calm, 1, figures.OK},
		{"local", locks.Calm, 2, broken},
		{"watch", locks.Calm, 2, figures.OK},
		{"watch", locks.Crash, 2, figures.Drift},
		{"v1_setnx", locks.Calm, 2, figures.OK},
		{"v1_setnx", locks.Slow, 2, figures.OK},
		{"v1_setnx", locks.Crash, 2, figures.Stuck},
		{"v2_ttl", locks.Calm, 2, figures.OK},
		{"v2_ttl", locks.Slow, 2, broken},
		{"v2_ttl", locks.Late, 2, broken},
		{"v2_ttl", locks.Crash, 2, figures.OK},
		{"v3_uuid", locks.Slow, 2, broken},
		{"v3_uuid", locks.Late, 2, figures.OK},
		{"v4_lua", locks.Slow, 2, broken},
		{"v5_reentrant", locks.Slow, 2, broken},
		{"v5_reentrant", locks.Pause, 2, broken},
		{"v6_watchdog", locks.Calm, 2, figures.OK},
		{"v6_watchdog", locks.Slow, 2, figures.OK},
		{"v6_watchdog", locks.Crash, 2, figures.OK},
		{"v6_watchdog", locks.Pause, 2, broken},
		{"v7_queue", locks.Slow, 2, figures.OK},
		{"v7_queue", locks.Crash, 2, figures.OK},
		{"v7_queue", locks.Pause, 2, broken},
		{"v8_fenced", locks.Pause, 2, figures.OK},
		{"v9_cohort", locks.Pause, 2, figures.OK},
		{"redlock", locks.Pause, 2, broken},
		{"v6_watchdog", locks.Failover, 2, broken},
		{"v8_fenced", locks.Failover, 2, figures.OK},
		{"v9_cohort", locks.Failover, 2, figures.OK},
		{"redlock", locks.Failover, 2, figures.OK},
		{"v6_wait_one", locks.Failover, 2, broken},
		{"v6_wait_all", locks.Calm, 2, figures.OK},
		{"sql_version", locks.Failover, 2, figures.OK},
		{"etcd", locks.Pause, 2, figures.OK},
		{"sql_for_update", locks.Pause, 2, figures.OK},
		{"sql_conditional", locks.Crash, 2, figures.OK},
		{"lua_atomic", locks.Calm, 2, figures.OK},
		{"lua_atomic", locks.Slow, 2, figures.OK},
		{"lua_atomic", locks.Late, 2, figures.OK},
		{"lua_atomic", locks.Crash, 2, figures.OK},
		{"lua_atomic", locks.Crash, 2, figures.Drift},
		{"lua_atomic", locks.Pause, 2, figures.OK},
		{"lua_batch", locks.Calm, 2, figures.OK},
		{"lua_batch", locks.Slow, 2, figures.OK},
		{"lua_batch", locks.Late, 2, figures.OK},
		{"lua_batch", locks.Crash, 2, figures.OK},
		{"lua_batch", locks.Crash, 2, figures.Drift},
		{"lua_batch", locks.Pause, 2, figures.OK},
	} {
		s, err := locks.Strategies().Find(tt.strategy)
		if err != nil {
			t.Fatal(err)
		}
		e, known := s.Expect(locks.Case{Workload: locks.Deduct, Condition: tt.condition, Instances: tt.instances})
		if !known {
			t.Errorf("%s under %s: nothing is expected", tt.strategy, tt.condition)
		}
		if wrong := e.Check(locks.Outcome{Verdict: tt.want, MaxHolders: 1}); wrong != "" {
			t.Errorf("%s under %s with %d: %s comes out as %s", tt.strategy, tt.condition, tt.instances, tt.want, wrong)
		}
		other := figures.OK
		if tt.want == figures.OK {
			other = broken
		}
		if tt.want != figures.Drift && e.Check(locks.Outcome{Verdict: other, MaxHolders: 1}) == "" {
			t.Errorf("%s under %s with %d: %s is let pass", tt.strategy, tt.condition, tt.instances, other)
		}
	}
}

// A stock that a failover took back is counted anew before it is sold again.
func TestFailoverOversellsNoStockInRedis(t *testing.T) {
	for _, name := range []string{"watch", "lua_atomic", "lua_batch"} {
		s, err := locks.Strategies().Find(name)
		if err != nil {
			t.Fatal(err)
		}
		e, _ := s.Expect(locks.Case{Workload: locks.Deduct, Condition: locks.Failover, Instances: 2})
		for verdict, want := range map[figures.Verdict]bool{
			figures.OK: true, figures.Drift: true, figures.Oversold: false, figures.Stuck: false, figures.Undersold: false,
		} {
			if slices.Contains(e.Verdicts, verdict) != want {
				t.Errorf("%s: %s is among %v: %v, want %v", name, verdict, e.Verdicts, !want, want)
			}
		}
	}
}

// A lock that nobody gets sells nothing, and it is no good that it breaks nothing.
func TestNobodyIsLetInWhileAReplicaIsAway(t *testing.T) {
	s, err := locks.Strategies().Find("v6_wait_all")
	if err != nil {
		t.Fatal(err)
	}
	e, _ := s.Expect(locks.Case{Workload: locks.Deduct, Condition: locks.Failover, Instances: 2})
	if wrong := e.Check(locks.Outcome{Verdict: figures.Stuck}); wrong != "" {
		t.Errorf("stuck comes out as %s", wrong)
	}
	for _, o := range []locks.Outcome{
		{Verdict: figures.OK}, {Verdict: figures.Oversold}, {Verdict: figures.Stuck, MaxHolders: 1},
	} {
		if e.Check(o) == "" {
			t.Errorf("%s with %d holders is let pass", o.Verdict, o.MaxHolders)
		}
	}
}

func TestCatalogExpectsLoads(t *testing.T) {
	for _, tt := range []struct {
		strategy   string
		condition  locks.Condition
		secondLook bool
		min, max   int64
	}{
		{"none", locks.Calm, true, 3, 0},
		{"local", locks.Calm, true, 2, 2},
		{"v1_setnx", locks.Calm, true, 1, 1},
		{"v6_watchdog", locks.Calm, true, 1, 1},
		{"v6_watchdog", locks.Slow, true, 1, 1},
		{"v4_lua", locks.Slow, true, 2, 0},
		{"v6_watchdog", locks.Calm, false, 500, 0},
		{"local", locks.Calm, false, 500, 0},
	} {
		s, err := locks.Strategies().Find(tt.strategy)
		if err != nil {
			t.Fatal(err)
		}
		c := locks.Case{Workload: locks.Cache, Condition: tt.condition, Instances: 2, Requests: 5000, SecondLook: tt.secondLook}
		e, known := s.Expect(c)
		if !known || e.MinLoads != tt.min || e.MaxLoads != tt.max {
			t.Errorf("%s under %s, second look %v: %d to %d loads expected, want %d to %d",
				tt.strategy, tt.condition, tt.secondLook, e.MinLoads, e.MaxLoads, tt.min, tt.max)
		}
	}
}

// Only what has a guard can guard the cache's loads, and has something that
// must come of it.
func TestKindsFit(t *testing.T) {
	for _, s := range locks.Strategies() {
		guarded := s.Kind == locks.Guarded
		if guarded != (s.Guard != nil) || guarded != s.GuardsLoads() {
			t.Errorf("%s: kind %d, guard %v, guards loads %v", s.Name, s.Kind, s.Guard != nil, s.GuardsLoads())
		}
		for _, condition := range locks.Conditions() {
			if _, known := s.Expect(locks.Case{Workload: locks.Deduct, Condition: condition, Instances: 2}); !known {
				t.Errorf("%s under %s: nothing is expected of a sale", s.Name, condition)
			}
			if condition == locks.Partition || condition == locks.Failover || condition == locks.Chaos {
				continue // these have to do with a sale
			}
			if _, known := s.Expect(locks.Case{Workload: locks.Cache, Condition: condition, Instances: 2}); known != guarded {
				t.Errorf("%s under %s: something is expected of the cache: %v", s.Name, condition, known)
			}
		}
	}
}

func TestCheckNamesEveryDifference(t *testing.T) {
	e := locks.Expectation{Verdicts: []figures.Verdict{figures.OK}, MaxHolders: 1, MinLoads: 2, MaxLoads: 3}
	if wrong := e.Check(locks.Outcome{Verdict: figures.OK, MaxHolders: 1, Loads: 2}); wrong != "" {
		t.Errorf("what was expected comes out as %s", wrong)
	}
	wrong := e.Check(locks.Outcome{Verdict: figures.Drift, MaxHolders: 2, Loads: 4})
	want := "verdict drift instead of ok, 2 holders at once instead of at most 1, 4 loads instead of at most 3"
	if wrong != want {
		t.Errorf("got %q, want %q", wrong, want)
	}
}

// The catalog names a test for each flaw: it must be there to be run.
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
	for _, s := range locks.Strategies() {
		if !tests[s.Test] {
			t.Errorf("%s: there is no test %s", s.Name, s.Test)
		}
	}
}
