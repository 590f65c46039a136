package promises_test

import (
	"os"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"oversell/internal/locks/locktest/promises"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Every cell of the table is so, the flaws too.
func TestTable(t *testing.T) {
	for _, p := range promises.All() {
		for _, stage := range promises.Stages() {
			t.Run(p.Name+"/"+stage.Name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					broken, err := p.Check(t.Context(), stage, 3*time.Second)
					if err != nil {
						t.Fatal(err)
					}
					if kept := broken == ""; kept != p.Keeps(stage) {
						t.Errorf("%s: kept is %v, the table says %v %s", p.Says, kept, p.Keeps(stage), broken)
					}
				})
			})
		}
	}
}

func ExampleWriteTable() {
	_ = promises.WriteTable(os.Stdout)
	// Output:
	// | | v1_setnx | v2_ttl | v3_uuid | v4_lua | v5_reentrant | v6_watchdog | v7_queue | v8_fenced |
	// |---|---|---|---|---|---|---|---|---|
	// | one holder at a time | holds | holds | holds | holds | holds | holds | holds | holds |
	// | an error of Redis is not taken for a lock that is held | holds | holds | holds | holds | holds | holds | holds | holds |
	// | a cancelled caller still gives the lock back | holds | holds | holds | holds | holds | holds | holds | holds |
	// | a dead holder's lock is free after the ttl | breaks | holds | holds | holds | holds | holds | holds | holds |
	// | a holder that comes late leaves the next one's lock alone | breaks | breaks | holds | holds | holds | holds | holds | holds |
	// | so it does if it is late between two commands | breaks | breaks | breaks | holds | holds | holds | holds | holds |
	// | the holder may take the lock again | breaks | breaks | breaks | breaks | holds | holds | holds | holds |
	// | work longer than the ttl keeps the lock | holds | breaks | breaks | breaks | breaks | holds | holds | holds |
	// | a holder that loses the lock is told | breaks | breaks | breaks | breaks | breaks | holds | holds | holds |
	// | a process stopped for longer than the ttl keeps the lock | holds | breaks | breaks | breaks | breaks | breaks | breaks | breaks |
	// | and if it does not, what it then writes is turned away | holds | breaks | breaks | breaks | breaks | breaks | breaks | holds |
	// | trying again after a lost reply does no harm | breaks | breaks | breaks | breaks | breaks | breaks | holds | holds |
}
