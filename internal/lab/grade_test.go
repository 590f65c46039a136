package lab

import (
	"strings"
	"testing"
)

// A grade does not report an unknown outcome as broken.
func TestGradeOfALockThatDoesNothing(t *testing.T) {
	r := Report{Cells: []Cell{{Anomaly: "lost-update", Strategy: "yours", Outcome: Unknown}}}
	var b strings.Builder
	if err := WriteGrade(&b, r); err != nil || !strings.Contains(b.String(),
		"The first promise that it is not seen to keep is lost-update") {
		t.Errorf("%v: %s", err, b.String())
	}
}
