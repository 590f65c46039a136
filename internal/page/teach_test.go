package page_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"oversell/internal/lab"
	"oversell/internal/lab/search"
)

var lessonSteps = regexp.MustCompile(`\{\s*id: "(\w+)",\s*show: "([^"]+)",\s*exercise: (?:null|\["(\w+)", "([\w-]+)"(?:, "([\w.]+)")?\]),?\s*\}`)

// The lesson is the same in docs/teaching.md as on the page. The answer of each exercise is a
// schedule and its meaning, and the shortest schedule on record, or that it is impossible.
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
			id, show, strategy, goal, answer := step[1], step[2], step[3], step[4], step[5]
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
				shortest, possible := found.Breaks[search.Goal(goal)]
				if possible != (answer != "") {
					t.Errorf("step %s: the answer is %q, and on record is %q", id, answer, shortest)
				}
				if possible {
					want = append(want, "`"+answer+"`", texts["teach."+id+".moves"], "`"+shortest+"`")
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

// The answer of each exercise reaches its goal, and so does the shortest schedule.
func TestTheAnswersReachTheirGoals(t *testing.T) {
	record, err := search.Recorded()
	if err != nil {
		t.Fatal(err)
	}
	played := 0
	for _, step := range lessonSteps.FindAllStringSubmatch(readAsset(t, "teach.js"), -1) {
		strategy, goal, answer := step[3], lab.Goal(step[4]), step[5]
		if answer == "" {
			continue
		}
		found, _ := record.Find(strategy, 2)
		for _, moves := range []string{answer, found.Breaks[goal]} {
			state, err := lab.Question{Strategy: strategy, Buyers: 2, Moves: moves, Goal: goal}.Answer()
			if err != nil || !slices.Contains(state.Reached, goal) {
				t.Errorf("%s/%s reaches %v, %v; want %s", strategy, moves, state.Reached, err, goal)
			}
			played++
		}
	}
	if played != 14 {
		t.Errorf("%d schedules were played, want two of each of seven exercises", played)
	}
}
