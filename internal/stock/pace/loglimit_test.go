package pace_test

import (
	"testing"
	"testing/synctest"
	"time"

	"oversell/internal/stock/pace"
)

func TestOneLineASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l pace.LogLimit
		lines, skipped := 0, int64(0)
		for range 2500 {
			if n, ok := l.Allow(); ok {
				lines++
				skipped += n
			}
			time.Sleep(time.Millisecond)
		}
		if lines != 3 || skipped != 1998 {
			t.Errorf("%d lines in 2.5 s with %d skipped, want 3 and 1998", lines, skipped)
		}
	})
}
