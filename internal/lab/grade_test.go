package lab

import (
	"errors"
	"strings"
	"testing"
)

// An unknown outcome is not reported as broken.
func TestGradeOfALockThatDoesNothing(t *testing.T) {
	g := Grade{Name: "yours", Stages: []StageGrade{{"v1_setnx",
		[]Cell{{Anomaly: "lost-update", Outcome: Unknown, Note: "A bought nothing"}}}}}
	var b strings.Builder
	if err := g.Write(&b); err != nil || !strings.Contains(b.String(),
		"The first promise that it is not seen to keep is lost-update") {
		t.Errorf("%v: %s", err, b.String())
	}
}

// nothing runs nothing.
func nothing(*World) Verdict { return Verdict{} }

func TestReplaceTable(t *testing.T) {
	r := Report{Manifest: Manifest{Strategies: []string{"none"}}}
	text, err := ReplaceTable([]byte("a\n"+TableBegin+"\nx\n"+TableEnd+"\nb\n"), r, nil)
	if err != nil || !strings.HasPrefix(string(text), "a\n"+TableBegin+"\n| strategy |") ||
		!strings.HasSuffix(string(text), TableEnd+"\nb\n") {
		t.Errorf("%v\n%s", err, text)
	}
	again, err := ReplaceTable(text, r, nil)
	if err != nil || string(again) != string(text) {
		t.Errorf("%v\n%s", err, again)
	}
	all := []Scenario{{Anomaly: Anomaly{Name: "a"}, Run: nothing},
		{Anomaly: Anomaly{Name: "b"}, Run: nothing}}
	r.Cells = []Cell{{Anomaly: "a", Strategy: "redsync", Outcome: Breaks}}
	text, err = ReplaceTable([]byte("<!-- libraries:begin -->\nx\n<!-- libraries:end -->\n"), r, all)
	if err != nil || !strings.Contains(string(text),
		"| [`a`](../internal/lab/grade_test.go) | [**breaks**](http://127.0.0.1:8080/#/break/a/redsync) |") ||
		strings.Contains(string(text), "[`b`]") {
		t.Errorf("the table of libraries: %v\n%s", err, text)
	}
	for _, bad := range []string{"", TableBegin, TableEnd + "\n" + TableBegin + "\n"} {
		if _, err := ReplaceTable([]byte(bad), r, nil); !errors.Is(err, ErrMarks) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
