package fleet

import "testing"

func TestTailKeepsTheEnd(t *testing.T) {
	var log tail
	if log.String() != "" {
		t.Errorf("of nothing it keeps %q", &log)
	}
	for range 3 * tailSize {
		_, _ = log.Write([]byte("x")) // it cannot fail
	}
	_, _ = log.Write([]byte("the end\n"))
	got := log.String()
	if len(got) > tailSize+len("; it logged:\n") || got[len(got)-7:] != "the end" {
		t.Errorf("it keeps %d bytes: %q", len(got), got)
	}
}
