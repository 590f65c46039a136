//go:build system

package holdsale

import (
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"gorm.io/gorm"

	"oversell/internal/backend/backendtest"
	"oversell/internal/bench/report"
	"oversell/internal/catalog"
	"oversell/internal/figures"
)

// as returns the command that makes this test binary a process of the bench: see TestMain.
func as(role string) func() (*exec.Cmd, error) {
	return func() (*exec.Cmd, error) {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "OVERSELL_TEST_HOLD="+role)
		return cmd, nil
	}
}

// settled is a Progress. After each row it waits, while the shops go on, until no payment is
// on record that is not settled.
type settled struct {
	t  *testing.T
	db *gorm.DB
}

func (settled) Row(int, int, string, catalog.Condition) {}
func (settled) Waiting(func() int64)                    {}

func (s settled) Done(row report.Row) {
	for begun := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		var open int64
		if err := s.db.Table("oversell_hold_payments").Count(&open).Error; err != nil {
			s.t.Error(err)
			return
		}
		if open == 0 {
			s.t.Logf("round %d: shops were killed at %v; %d captures became %d orders and %d refunds, all agreed %.1f s after the load, and every payment was settled %.1f s after the audit",
				row.Repeat, row.Seams, row.Captures, row.Sold, row.Refunds, after(row.AgreesAfter), time.Since(begun).Seconds())
			return
		}
		if time.Since(begun) > time.Minute {
			s.t.Errorf("round %d: %d payments are not settled after a minute", row.Repeat, open)
			return
		}
	}
}

func after(seconds *float64) float64 {
	if seconds == nil {
		return -1
	}
	return *seconds
}

// deafRounds is how often the test below is repeated, or OVERSELL_SETTLE_ROUNDS.
const deafRounds = 2

// The provider sends no webhook at all, and shops are killed at every seam, one of them between
// a capture and its order. Each capture ends in exactly one order or one refund, and each other
// payment is cancelled, without anybody's help.
func TestEachCaptureEndsOnceThoughNoWebhookComes(t *testing.T) {
	t.Parallel()
	rounds := deafRounds
	if text := os.Getenv("OVERSELL_SETTLE_ROUNDS"); text != "" {
		var err error
		if rounds, err = strconv.Atoi(text); err != nil {
			t.Fatalf("OVERSELL_SETTLE_ROUNDS: %v", err)
		}
	}
	for _, kind := range backendtest.Kinds() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			redisURL, dbURL := backendtest.Redis(t, kind), backendtest.Database(t, kind)
			rows, err := Run(t.Context(), Config{
				Stages: []string{catalog.DefaultHoldStage}, Conditions: []catalog.Condition{catalog.Crash},
				Buyers: 150, Stock: 80, TTL: time.Second, Repeat: rounds, deaf: true,
				RedisURL: redisURL, DBURL: dbURL, Shop: as("shop"), Provider: as("provider"),
			}, settled{t, backendtest.DialDatabase(t, dbURL)})
			if err != nil {
				t.Fatal(err)
			}
			if len(rows) != rounds {
				t.Fatalf("%d rows, want %d", len(rows), rounds)
			}
			for _, row := range rows {
				if row.Verdict != figures.OK || row.ChargedWithoutOrder != 0 || row.Captures != row.Sold+row.Refunds || row.Stranded != 0 {
					t.Errorf("round %d: %s; %+v, %+v", row.Repeat, row.Verdict, row, *row.Held)
				}
				if len(row.Seams) != len(Seams()) {
					t.Errorf("round %d: shops were killed at %v only", row.Repeat, row.Seams)
				}
			}
		})
	}
}
