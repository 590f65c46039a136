package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"oversell/internal/lab"
)

// One command shows how a cell of the second table came about.
func TestTimelineOfAHold(t *testing.T) {
	out, _ := runs(t, lab.Subjects(), exitExpected, "-run", "late-payment", "-strategy", "h2_status")
	for _, want := range []string{"INSERT INTO orders", "hold-A has expired", "2 of 1 units were sold", "woocommerce", "SQLite"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

// Names of both tables may be mixed. The report on holds is beside the one on locks, whose
// fields keep their meaning.
func TestBothTables(t *testing.T) {
	args := []string{"-run", "foreign-delete,two-sweepers", "-strategy", "v2_ttl,h2_status,h3_claim"}
	r := try(t, lab.Subjects(), exitExpected, args...)
	if len(r.Cells) != 1 || r.Cells[0].Strategy != "v2_ttl" || r.Holds == nil || len(r.Holds.Cells) != 2 {
		t.Fatalf("%+v", r)
	}
	if c := r.Holds.Cells[0]; c.Anomaly != "two-sweepers" || c.Outcome != lab.Breaks {
		t.Errorf("%s: %s", c.Anomaly, c.Outcome)
	}
	out, _ := runs(t, lab.Subjects(), exitExpected, args...)
	for _, want := range []string{"foreign-delete", "A sale by holds", "two-sweepers", "h3 = h3_claim"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if alone := try(t, lab.Subjects(), exitExpected, "-run", "two-sweepers"); len(alone.Cells) != 3 || alone.Holds != nil {
		t.Errorf("of holds alone: %d cells", len(alone.Cells))
	}
}

// A lock is not asked about payments.
func TestTablesDoNotMix(t *testing.T) {
	_, errs := runs(t, lab.Subjects(), exitFailed, "-run", "late-payment", "-strategy", "v3_uuid")
	if !strings.Contains(errs, "none of these anomalies is tried on any of these strategies") {
		t.Error(errs)
	}
}

// The page has both tables, and a timeline for each cell.
func TestHTMLOfBothTables(t *testing.T) {
	file := filepath.Join(t.TempDir(), "lab.html")
	runs(t, lab.Subjects(), exitExpected, "-run", "foreign-delete,two-sweepers", "-strategy", "v2_ttl,h2_status", "-html", file)
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Failure lab", "A sale by holds", `href="#foreign-delete/v2_ttl"`, `href="#two-sweepers/h2_status"`, "2 of 1 units were sold"} {
		if !strings.Contains(string(page), want) {
			t.Errorf("no %q", want)
		}
	}
}

// The third table has a report of its own, beside the first one of which something was named.
func TestThirdTable(t *testing.T) {
	r := try(t, lab.Subjects(), exitExpected, "-run", "two-sweepers,repair-with-units-in-flight", "-strategy", "h2_status,overwrite,lua_stream")
	if len(r.Cells) != 1 || r.Cells[0].Strategy != "h2_status" || r.Behind == nil || len(r.Behind.Cells) != 2 {
		t.Fatalf("%+v", r)
	}
	if c := r.Behind.Cells[0]; c.Strategy != "overwrite" || c.Outcome != lab.Breaks {
		t.Errorf("%s: %s", c.Strategy, c.Outcome)
	}
	out, _ := runs(t, lab.Subjects(), exitExpected, "-run", "repair-with-units-in-flight", "-strategy", "overwrite")
	for _, want := range []string{"INSERT INTO orders", "repairs the stock", "2 of 1 units were sold", "woocommerce_fusion"} {
		if !strings.Contains(strings.ReplaceAll(out, "`", ""), want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

// A cell of the third table that is not as recorded is an exit code, whatever the others say.
func TestThirdTableDecidesTheExitCode(t *testing.T) {
	r := lab.Report{Behind: &lab.Report{Cells: []lab.Cell{{Outcome: lab.Holds, Expected: lab.Breaks}}}}
	if r.AsExpected() {
		t.Error("a report is as expected, and its third table is not")
	}
}
