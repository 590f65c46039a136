package lab

import (
	"strings"
	"testing"
)

// A grade does not report an unknown outcome as broken.
func TestGradeOfALockThatDoesNothing(t *testing.T) {
	g := Grade{Name: "yours", Stages: []StageGrade{{"v1_setnx",
		[]Cell{{Anomaly: "lost-update", Outcome: Unknown, Note: "A bought nothing"}}}}}
	var b strings.Builder
	if err := g.Write(&b); err != nil || !strings.Contains(b.String(),
		"The first promise that it is not seen to keep is lost-update") {
		t.Errorf("%v: %s", err, b.String())
	}
}
