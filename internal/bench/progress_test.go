package bench_test

import (
	"strings"
	"testing"
	"time"

	"oversell/internal/backend/backendtest"
	"oversell/internal/bench"
	"oversell/internal/bench/report"
	"oversell/internal/catalog"
	"oversell/internal/figures"
)

func TestBarShowsTheRowAndWhoIsAwaited(t *testing.T) {
	var s backendtest.Output
	bar := bench.NewBar(&s)
	bar.Row(1, 2, "none", catalog.Calm)
	bar.Waiting(bench.Outcomes, func() int64 { return 4321 })
	for end := time.Now().Add(time.Minute); !strings.Contains(s.String(),
		"4321 outcomes to come"); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the bar shows %q", &s)
		}
	}
	bar.Done(report.Row{
		Asked:   report.Asked{Key: report.Key{Strategy: "none", Condition: catalog.Calm}},
		Audit:   report.Audit{Sold: 5000, Oversold: 4000},
		Verdict: figures.Oversold, Expected: true,
	})
	bar.Row(2, 2, "v6_watchdog", catalog.Pause)
	bar.Done(report.Row{})
	bar.Close()
	if !strings.Contains(s.String(), "none") {
		t.Errorf("the bar does not name the row: %q", &s)
	}
	shown := s.String()
	if want := "none under calm              sold  5000, oversold 4000  oversold\n"; !strings.Contains(shown, want) {
		t.Errorf("the bar shows %q; want the line %q of the finished row", shown, want)
	}
	if last := shown[strings.LastIndex(shown, "\r")+1:]; strings.TrimSpace(strings.TrimPrefix(last, "\x1b[2K")) != "" {
		t.Errorf("%q is left on the screen", last)
	}
}
