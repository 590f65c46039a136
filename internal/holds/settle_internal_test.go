package holds

import (
	"testing"
	"time"
)

// The time in which a process slept or could not read the table does not count as attendance.
func TestAttendanceBeginsAnewAfterAGap(t *testing.T) {
	start := time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC)
	var a attendance
	for _, look := range []struct{ at, want time.Duration }{
		{0, 0},
		{9 * time.Minute, 9 * time.Minute},
		{19 * time.Minute, 19 * time.Minute},
		{40 * time.Minute, 0}, // the process slept
		{45 * time.Minute, 5 * time.Minute},
		{41 * time.Minute, 0}, // the clock was set back
		{42 * time.Minute, time.Minute},
	} {
		if got := a.record(start.Add(look.at), 10*time.Minute); got != look.want {
			t.Errorf("at %v it has watched for %v, want %v", look.at, got, look.want)
		}
	}
}

// With any Config.Settle, a live shop looks at its payments before another shop treats them as
// abandoned.
func TestLooksBeforeOthersForget(t *testing.T) {
	for _, settle := range []time.Duration{time.Second, DefaultSettle, 24 * time.Hour} {
		s := &Service{cfg: Config{Settle: settle}}
		if longest := 3 * s.lookPause() / 2; longest <= 0 || longest >= abandoned/2 {
			t.Errorf("with -hold-settle %v it looks every %v, and after %v a payment is forgotten",
				settle, longest, abandoned)
		}
	}
}
