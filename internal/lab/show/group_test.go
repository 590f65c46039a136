package show_test

import (
	"slices"
	"strings"
	"testing"

	"oversell/internal/lab"
	"oversell/internal/lab/show"
)

// The matrix groups anomalies by loss, the worst loss first, regardless of their order in the report.
// Anomalies without a loss come last, without a heading.
func TestMatrixGroupsByLoss(t *testing.T) {
	r := lab.Report{Manifest: lab.Manifest{Strategies: []string{"v2_ttl"}}}
	losses := append([]lab.Loss{""}, lab.Losses()...)
	slices.Reverse(losses)
	for _, loss := range losses {
		name := "costs-" + string(loss)
		r.Anomalies = append(r.Anomalies, lab.Anomaly{Name: name, Loss: loss})
		r.Cells = append(r.Cells, lab.Cell{Anomaly: name, Strategy: "v2_ttl", Outcome: lab.Holds, Expected: lab.Holds})
	}
	matrix := drawn(t, func(b *strings.Builder) error { return show.Matrix(b, r, show.Style{}) })
	var got []string
	for line := range strings.Lines(matrix) {
		if text := strings.TrimSpace(line); strings.HasPrefix(text, "costs-") || slices.Contains(headings, text) {
			got = append(got, strings.Fields(text)[0])
		}
	}
	want := strings.Fields("Sells costs-sells-twice Stuck costs-stuck Waits costs-waits-for-nothing Wasted " +
		"costs-wasted-work API costs-api-trap costs-")
	if !slices.Equal(got, want) {
		t.Errorf("the rows are %v, want %v", got, want)
	}
}

var headings = []string{"Sells twice", "Stuck forever", "Waits for nothing", "Wasted work", "API trap"}

// The story links a delayed command to the row in which it arrives, and a command with a delayed reply to
// the row of the reply.
func TestStoryTellsWhereACommandArrives(t *testing.T) {
	heldUp := []lab.Event{
		{At: 0, Actor: "A", Kind: lab.Fault, Text: "delayed on its way: DEL lock"},
		{At: 40, Actor: "B", Kind: lab.Command, Text: "DEL lock", Reply: "0"},
		{At: 50, Actor: "A", Kind: lab.Command, Text: "DEL lock", Reply: "1"},
	}
	for name, tt := range map[string]struct {
		trace []lab.Event
		want  []int
	}{
		"held up": {heldUp, []int{2, 0, 0}},
		"never":   {heldUp[:2], []int{0, 0}},
		"a reply": {[]lab.Event{
			{At: 0, Until: 50, Actor: "A", Kind: lab.Command, Text: "GET stock", Reply: "1"},
			{At: 40, Actor: "B", Kind: lab.Command, Text: "GET stock", Reply: "1"},
		}, []int{2, 0, 0}},
	} {
		var got []int
		for _, row := range rowsOf(t, tt.trace) {
			got = append(got, row.Arrives)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: the rows lead to %v, want %v", name, got, tt.want)
		}
	}
}
