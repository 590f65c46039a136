package page_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"oversell/internal/lab/search"
)

var lessonSteps = regexp.MustCompile(`\{ id: "(\w+)", show: "([^"]+)", exercise: (?:null|\["(\w+)", "([\w-]+)"\]) \}`)

// The lesson is the same in docs/teaching.md as on the page, and the answer of each exercise is
// the shortest schedule on record.
func TestTheLessonIsTheSameInTheDocs(t *testing.T) {
	steps := lessonSteps.FindAllStringSubmatch(readAsset(t, "teach.js"), -1)
	if len(steps) != 9 {
		t.Fatalf("the lesson has %d steps, and 45 minutes need 9", len(steps))
	}
	record, err := search.Recorded()
	if err != nil {
		t.Fatal(err)
	}
	for language, name := range map[string]string{"en": "teaching.md", "zh": "teaching.zh-CN.md"} {
		text, err := os.ReadFile("../../docs/" + name)
		if err != nil {
			t.Fatal(err)
		}
		doc, texts := strings.Join(strings.Fields(string(text)), " "), readTexts(t, language)
		for _, step := range steps {
			id, show, strategy, goal := step[1], step[2], step[3], step[4]
			want := []string{"`" + show + "`"}
			for _, part := range []string{"title", "show", "ask", "answer"} {
				want = append(want, texts["teach."+id+"."+part])
			}
			if strategy != "" {
				want = append(want, "`#/play/"+strategy+"`", texts["proof.goal."+goal])
				found, ok := record.Find(strategy, 2)
				if !ok {
					t.Fatalf("step %s: %s is not on record", id, strategy)
				}
				if moves, ok := found.Breaks[search.Goal(goal)]; ok {
					want = append(want, "`"+moves+"`")
				}
			}
			for _, part := range want {
				if part == "" || !strings.Contains(doc, part) {
					t.Errorf("%s: step %s lacks %q", name, id, part)
				}
			}
		}
	}
}
