package search

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// The record contains all strategies, and searching the quick ones again gives the recorded results.
func TestRecordIsUpToDate(t *testing.T) {
	r := Recorded()
	for _, name := range searched() {
		if _, ok := r.Find(name, 2); !ok {
			t.Errorf("%s with two buyers is not on record", name)
		}
	}
	quick := []string{"none", "local", "watch", "v1_setnx", "v2_ttl", "v3_uuid", "v4_lua", "v5_reentrant",
		"v6_watchdog", "nested_v4_lua", "nested_v5_reentrant"}
	compared, states := 0, 0
	for _, before := range r.Results {
		if before.States > 10_000 || !slices.Contains(quick, before.Strategy) {
			continue
		}
		now, err := Search(t.Context(), Config{Subject: subject(t, before.Strategy), Buyers: before.Buyers,
			Faults: before.Faults})
		if err != nil {
			t.Fatal(err)
		}
		if !now.Same(before) {
			t.Errorf("%s with %d buyers: %+v; on record: %+v", before.Strategy, before.Buyers, now, before)
		}
		compared, states = compared+1, states+now.States
	}
	if compared < len(quick) || states < 10_000 {
		t.Errorf("%d searches of %d states were compared, want at least %d of 10000", compared, states, len(quick))
	}
}

// The scheduler can replay each recorded break, including those of searches that take long.
func TestRecordedBreaksAreReplayed(t *testing.T) {
	r := Recorded()
	replayed := 0
	for _, o := range r.Results {
		for goal, moves := range o.Breaks {
			if err := Replay(o.Strategy, o.Buyers, goal, moves); err != nil {
				t.Errorf("%s with %d buyers, %s: %v", o.Strategy, o.Buyers, goal, err)
			}
			replayed++
		}
	}
	if replayed < 20 {
		t.Errorf("%d breaks were replayed, want at least 20", replayed)
	}
}

// The tables in the docs contain the results of the record.
func TestDocsHaveTheRecord(t *testing.T) {
	r := Recorded()
	for file, words := range map[string]Words{"results.md": English, "results.zh-CN.md": Chinese} {
		text, err := os.ReadFile("../../../docs/" + file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), r.Markdown(words)) {
			t.Errorf("docs/%s has another table: go run ./cmd/lab -search all -readme docs/%[1]s", file)
		}
	}
}
