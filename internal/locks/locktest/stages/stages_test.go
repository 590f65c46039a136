package stages_test

import (
	"context"
	"errors"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"oversell/internal/locks/locktest/promises"
	"oversell/internal/locks/locktest/stages"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Every cell of the table is correct, including the flaws.
func TestTable(t *testing.T) {
	for _, p := range promises.All() {
		for _, stage := range stages.All() {
			t.Run(p.Name+"/"+stage.Name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					broken, err := p.Check(t.Context(), stage, ttl)
					if err != nil {
						t.Fatal(err)
					}
					if kept := broken == ""; kept != stages.Keep(stage.Name, p) {
						t.Errorf("%s: kept is %v, the table says %v %s", p.Says, kept, stages.Keep(stage.Name, p), broken)
					}
				})
			})
		}
	}
}

// The suite that others run says the same as the table, and a list of what a lock breaks that
// is not true fails it.
func TestSuiteFailsAListThatIsNotTrue(t *testing.T) {
	for _, stage := range stages.All()[:4] {
		var breaks []string
		for _, p := range promises.All() {
			if !stages.Keep(stage.Name, p) {
				breaks = append(breaks, p.Name)
			}
			for _, listed := range []bool{false, true} {
				failure := p.Verdict(t, stage, listed)
				if passed := failure == ""; passed == (stages.Keep(stage.Name, p) == listed) {
					t.Errorf("%s, %s, listed as broken: %v: passed is %v", stage.Name, p.Name, listed, passed)
				}
			}
		}
		promises.Test(t, stage, breaks...)
	}
}

// fake is a lock that always returns the same results. It talks to Redis, so that
// a reply can be lost.
type fake struct {
	rdb redis.UniversalClient
	err error
}

var errFake = errors.New("no lock today")

func (f fake) TryLock(ctx context.Context) (bool, error) {
	if err := errors.Join(f.err, f.rdb.Ping(ctx).Err()); err != nil {
		return false, err
	}
	return true, nil
}

func (f fake) Unlock(ctx context.Context) error {
	return errors.Join(f.err, f.rdb.Ping(context.WithoutCancel(ctx)).Err())
}

// kept is a lock that is never released.
type kept struct {
	promises.Lock
	rdb redis.UniversalClient
}

func (k kept) Unlock(ctx context.Context) error {
	return k.rdb.Del(context.WithoutCancel(ctx), "nothing").Err()
}

// A fake that is not a lock keeps no promise.
func TestNoLockKeepsNoPromise(t *testing.T) {
	fakes := []promises.Subject{
		{Name: "always grants", New: func(rdb redis.UniversalClient, _ string, _ time.Duration) promises.Lock { return fake{rdb: rdb} }},
		{Name: "always fails", New: func(rdb redis.UniversalClient, _ string, _ time.Duration) promises.Lock {
			return fake{rdb: rdb, err: errFake}
		}},
	}
	for _, stage := range stages.All()[:4] { // stages that leave nothing running in the background
		never := stage
		never.Name = "never given back, as " + stage.Name
		never.New = func(rdb redis.UniversalClient, key string, ttl time.Duration) promises.Lock {
			return kept{stage.New(rdb, key, ttl), rdb}
		}
		fakes = append(fakes, never)
	}
	for _, stage := range fakes {
		if stage.NotHeld == nil {
			stage.NotHeld = errFake
		}
		for _, p := range promises.All() {
			synctest.Test(t, func(t *testing.T) {
				broken, err := p.Check(t.Context(), stage, ttl)
				if broken == "" && err == nil {
					t.Errorf("a lock that is %s keeps the promise %q", stage.Name, p.Says)
				}
			})
		}
	}
}

func ExampleWriteTable() {
	_ = stages.WriteTable(os.Stdout)
	// Output:
	// | | v1_setnx | v2_ttl | v3_uuid | v4_lua | v5_reentrant | v6_watchdog | v7_queue | v8_fenced | v9_cohort |
	// |---|---|---|---|---|---|---|---|---|---|
	// | one holder at a time | holds | holds | holds | holds | holds | holds | holds | holds | holds |
	// | holders of one process exclude each other, and their tokens grow | holds | holds | holds | holds | holds | holds | holds | holds | holds |
	// | an error of Redis is not mistaken for a held lock | holds | holds | holds | holds | holds | holds | holds | holds | holds |
	// | a cancelled caller can still release the lock | holds | holds | holds | holds | holds | holds | holds | holds | holds |
	// | the lock of a crashed holder is free after the ttl | breaks | holds | holds | holds | holds | holds | holds | holds | holds |
	// | a late holder does not release the next holder's lock | breaks | breaks | holds | holds | holds | holds | holds | holds | holds |
	// | not even if it is late between two commands | breaks | breaks | breaks | holds | holds | holds | holds | holds | holds |
	// | the holder may take the lock again | breaks | breaks | breaks | breaks | holds | holds | holds | holds | holds |
	// | work longer than the ttl keeps the lock | holds | breaks | breaks | breaks | breaks | holds | holds | holds | holds |
	// | a holder that loses the lock is told | breaks | breaks | breaks | breaks | breaks | holds | holds | holds | holds |
	// | Lock waits until the holder releases the lock, and returns soon after | breaks | breaks | breaks | breaks | breaks | breaks | holds | holds | holds |
	// | a process stopped for longer than the ttl keeps the lock | holds | breaks | breaks | breaks | breaks | breaks | breaks | breaks | breaks |
	// | if it does not keep it, its late writes are refused | holds | breaks | breaks | breaks | breaks | breaks | breaks | holds | holds |
	// | a retry after a lost reply does no harm | breaks | breaks | breaks | breaks | breaks | breaks | breaks | breaks | holds |
}
