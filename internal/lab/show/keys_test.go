package show_test

import (
	"encoding/json"
	"fmt"
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

// If a trace ends with merged rows, the last row shows all their key changes.
func TestStoryEndsWithItsKeys(t *testing.T) {
	if got, want := storyOf(t, keyed()[:5]), "0: stock=10 lock=a/100|10 ×3:|40: stock=8 hint=x/15"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := storyOf(t, keyed()[:3]), "0: stock=10 lock=a/100|10:|20: stock=9"; got != want {
		t.Errorf("with two rows: %q, want %q", got, want)
	}
	quiet := append(keyed()[:2], lab.Event{At: 20, Actor: "B", Kind: lab.Command, Text: "SET lock b nx", Reply: "nil",
		Lock: "A", TTL: ms(80)})
	if got, want := storyOf(t, quiet), "0: stock=10 lock=a/100|10 ×2:"; got != want {
		t.Errorf("with no change: %q, want %q", got, want)
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

// The key changes of merged rows are shown in the next row, with the ttls at that row's time. An expired
// key is shown like a deleted key.
func TestStoryHasTheKeys(t *testing.T) {
	want := "0: stock=10 lock=a/100|10 ×4:|50: stock=8 hint=x/5|60: hint=|100: lock=|130: lock=b/100"
	if got := storyOf(t, keyed()); got != want {
		t.Errorf("%q, want %q", got, want)
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
