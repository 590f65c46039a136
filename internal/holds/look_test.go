package holds

import (
	"testing"
	"time"
)

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
