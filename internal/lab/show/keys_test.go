package show_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"oversell/internal/lab"
	"oversell/internal/lab/show"
)

// keyed returns a trace with keys, in which a lease expires and another actor retries.
func keyed() []lab.Event {
	lock := func(token string, left float64) lab.Key {
		return lab.Key{Name: "lock", Type: "string", Value: token, TTL: &left}
	}
	stock := func(n string) lab.Key { return lab.Key{Name: "stock", Type: "string", Value: n} }
	ask := func(at float64, keys ...lab.Key) lab.Event {
		return lab.Event{At: at, Actor: "B", Kind: lab.Command, Text: "SET lock b nx", Reply: "nil", Lock: "A",
			TTL: ms(100 - at), Keys: keys}
	}
	return []lab.Event{
		{At: 0, Actor: "A", Kind: lab.Command, Text: "SET lock a nx", Reply: "OK", Lock: "A", TTL: ms(100),
			Keys: []lab.Key{stock("10"), lock("a", 100)}},
		ask(10), ask(20, stock("9")), ask(30, lab.Key{Name: "hint", Type: "string", Value: "x", TTL: ms(25)}),
		ask(40, stock("8")),
		{At: 50, Actor: "A", Kind: lab.Note, Text: "works"},
		{At: 60, Actor: "A", Kind: lab.Note, Text: "works on"},
		{At: 130, Actor: "B", Kind: lab.Command, Text: "SET lock b nx", Reply: "OK", Lock: "B", TTL: ms(100),
			Keys: []lab.Key{lock("b", 100)}},
	}
}

// storyRow is a row of a story in the JSON that the page reads.
type storyRow struct {
	At      float64
	Again   string
	Keys    []lab.Key
	Blind   bool
	Arrives int
}

func rowsOf(t *testing.T, trace []lab.Event) []storyRow {
	t.Helper()
	b, err := json.Marshal(show.Tell(lab.Manifest{}, lab.Cell{Trace: trace}).Story)
	if err != nil {
		t.Fatal(err)
	}
	var story struct{ Rows []storyRow }
	if err := json.Unmarshal(b, &story); err != nil {
		t.Fatal(err)
	}
	return story.Rows
}

// storyOf formats the rows of a trace with their keys.
func storyOf(t *testing.T, trace []lab.Event) string {
	t.Helper()
	var got []string
	for _, r := range rowsOf(t, trace) {
		text := fmt.Sprint(r.At)
		if again, _, _ := strings.Cut(r.Again, " "); again != "" {
			text += " " + again
		}
		text += ":"
		for _, k := range r.Keys {
			text += " " + k.Name + "=" + k.Value
			if k.TTL != nil {
				text += fmt.Sprint("/", *k.TTL)
			}
		}
		got = append(got, text)
	}
	return strings.Join(got, "|")
}

// The key changes of merged rows are shown in the next row, with the ttls at that row's time. If a trace
// ends with merged rows, its last row shows all their key changes. An expired key is shown like a deleted
// key.
func TestStoryHasTheKeys(t *testing.T) {
	quiet := keyed()[2]
	quiet.Keys = nil
	for name, tt := range map[string]struct {
		trace []lab.Event
		want  string
	}{
		"whole": {keyed(),
			"0: stock=10 lock=a/100|10 ×4:|50: stock=8 hint=x/5|60: hint=|100: lock=|130: lock=b/100"},
		"ends with merged rows":    {keyed()[:5], "0: stock=10 lock=a/100|10 ×3:|40: stock=8 hint=x/15"},
		"ends with two rows":       {keyed()[:3], "0: stock=10 lock=a/100|10:|20: stock=9"},
		"ends without any changes": {append(keyed()[:2], quiet), "0: stock=10 lock=a/100|10 ×2:"},
	} {
		if got := storyOf(t, tt.trace); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

// Where commands were left out of a trace, the story does not show the state of Redis.
func TestStoryKnowsWhatItDoesNotShow(t *testing.T) {
	trace := append(keyed(),
		lab.Event{At: 140, Actor: "A", Kind: lab.Note, Text: "works"},
		lab.Event{At: 150, Kind: lab.Break, Text: "it breaks", Lock: "free",
			Keys: []lab.Key{{Name: "lock", Type: lab.Gone}}},
		lab.Event{At: 160, Kind: lab.Note, LeftOut: true, Text: "7 more commands, not shown"})
	var blind []float64
	for _, r := range rowsOf(t, trace) {
		if r.Blind {
			blind = append(blind, r.At)
		}
	}
	if fmt.Sprint(blind) != "[140 160]" {
		t.Errorf("blind at %v", blind)
	}
	for _, r := range rowsOf(t, trace[:len(trace)-1]) {
		if r.Blind {
			t.Errorf("blind at %v, though nothing was left out", r.At)
		}
	}
}

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
