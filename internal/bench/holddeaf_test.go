//go:build system

package bench

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"gorm.io/gorm"

	"oversell/internal/backend/backendtest"
	"oversell/internal/bench/report"
	"oversell/internal/catalog"
	"oversell/internal/figures"
)

// aShop is the command that makes this test binary an instance: see TestMain.
func aShop() (*exec.Cmd, error) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "OVERSELL_TEST_INSTANCE=healthy")
	return cmd, nil
}

// settled is a Progress. After each row it waits, while the shops go on, until no payment is
// on record that is not settled.
type settled struct {
	Silent
	t  *testing.T
	db *gorm.DB
}

func (s settled) Done(row report.Row) {
	for begun := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		var open int64
		if err := s.db.Table("oversell_hold_payments").Count(&open).Error; err != nil ||
			time.Since(begun) > 2*time.Minute {
			s.t.Errorf("round %d: %d payments are not settled, %v", row.Repeat, open, err)
			return
		}
		if open == 0 {
			return
		}
	}
}

// The provider sends no webhook at all, and shops are killed at every seam, one of them between
// a capture and its order. Each capture ends in exactly one order or one refund, and each other
// payment is cancelled, without anybody's help.
func TestEachCaptureEndsOnceThoughNoWebhookComes(t *testing.T) {
	t.Parallel()
	redisURL, dbURL := backendtest.Redis(t, "local"), backendtest.Database(t, "local")
	cfg := Config{
		deaf: true, Workload: catalog.Hold,
		Strategies: []string{catalog.DefaultHoldStage}, Conditions: []catalog.Condition{catalog.Crash},
		Requests: 150, Stock: 80, TTL: time.Second, RedisURL: redisURL, DBURL: dbURL, Command: aShop,
	}
	rows, err := Run(t.Context(), cfg, settled{t: t, db: backendtest.DialDatabase(t, dbURL)})
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		if row.Verdict != figures.OK || row.ChargedWithoutOrder != 0 || row.Captures != row.Sold+row.Refunds ||
			row.Stranded != 0 {
			t.Errorf("round %d: %s; %+v, %+v", row.Repeat, row.Verdict, row, *row.Held)
		}
		if len(row.Seams) != len(HoldSeams()) {
			t.Errorf("round %d: shops were killed at %v only", row.Repeat, row.Seams)
		}
	}
}
