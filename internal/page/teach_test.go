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

var lessonSteps = regexp.MustCompile(`\{\s*id: "(\w+)",\s*show: "([^"]+)",\s*` +
	`exercise: (?:null|\["(\w+)", "([\w-]+)"(?:, "([\w.]+)")?\]),?\s*\}`)

// docs/teaching.md has each step of the lesson, with its demonstration and its exercise. An
// exercise has an answer exactly if the record has a schedule that reaches the exercise's goal.
func TestTheLessonIsInTheDocs(t *testing.T) {
	steps := lessonSteps.FindAllStringSubmatch(readAsset(t, "teach.js"), -1)
	if len(steps) != 9 {
		t.Fatalf("the lesson has %d steps, and 45 minutes need 9", len(steps))
	}
	record := search.Recorded()
	doc, err := os.ReadFile("../../docs/teaching.md")
	must(t, err)
	for _, step := range steps {
		id, show, strategy, goal, answer := step[1], step[2], step[3], step[4], step[5]
		row := "| `" + show + "` |"
		if strategy != "" {
			row += " `#/play/" + strategy + "`"
			found, ok := record.Find(strategy, 2)
			if shortest, possible := found.Breaks[lab.Goal(goal)]; !ok || possible != (answer != "") {
				t.Errorf("step %s: the answer is %q, and on record is %q", id, answer, shortest)
			}
		}
		if !strings.Contains(string(doc), row) {
			t.Errorf("docs/teaching.md lacks %q, step %s", row, id)
		}
	}
}

// The answer of each exercise reaches the exercise's goal, and so does the shortest schedule.
func TestTheAnswersReachTheirGoals(t *testing.T) {
	record := search.Recorded()
	played := 0
	for _, step := range lessonSteps.FindAllStringSubmatch(readAsset(t, "teach.js"), -1) {
		strategy, goal, answer := step[3], lab.Goal(step[4]), step[5]
		if answer == "" {
			continue
		}
		found, _ := record.Find(strategy, 2)
		for _, moves := range []string{answer, found.Breaks[goal]} {
			state, err := lab.Play(lab.Schedule{Strategy: strategy, Buyers: 2, Moves: moves, Goal: goal})
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
