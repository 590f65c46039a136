package report_test

import (
	"io"
	"strings"
	"testing"

	"oversell/internal/bench/report"
	"oversell/internal/catalog"
	"oversell/internal/figures"
)

// both returns a report of two workloads; the second has rows under one condition only.
func both() report.Report {
	r := sale()
	held := r.Manifest
	held.Workload, held.Requests, held.Stock, held.TTL, held.Planned = "hold", 400, 200, "500ms", 2
	r.Manifest.Planned, r.Manifest.Also = len(r.Rows), []report.Manifest{held}
	for _, name := range []string{"h1_counter", "h3_claim"} {
		sellable, agrees := 0.1, 1.25
		row := report.Row{
			Asked: report.Asked{Key: report.Key{Strategy: name, Condition: catalog.Crash, Workload: catalog.Hold},
				Requests: 400, Stock: 200, TTL: "500ms"},
			Load:  report.Load{Served: 190, SoldOut: 99, P50: 3, P95: 5, P99: 9, Max: 12, Throughput: 61},
			Audit: report.Audit{Sold: 200}, Verdict: figures.OK, Expected: true,
			Held: &report.Held{Holds: 260, Captures: 231, Refunds: 31, SellableAfter: &sellable, AgreesAfter: &agrees,
				Seams: []string{"order"}},
		}
		if name == "h1_counter" {
			row.Sold, row.Oversold, row.OversoldPossible, row.Refunds, row.Verdict, row.AgreesAfter = 233, 33, 33, 0,
				figures.Oversold, nil
		}
		r.Rows = append(r.Rows, row)
	}
	return r
}

func TestComparisonOfTwoWorkloads(t *testing.T) {
	changed := both()
	changed.Rows[6].Throughput = 30
	deduct, held, found := strings.Cut(changes(t, both(), changed), "400 buyers who hold a unit")
	if !found || strings.Contains(deduct, "h3_claim") || strings.Contains(held, "watch") ||
		!strings.Contains(held, "-50.8% ?") || !strings.Contains(held, "until everything agreed") {
		t.Errorf("it is\n%s%s", deduct, held)
	}
	if text := changes(t, sale(), both()); !strings.Contains(text, "h3_claim under crash is only in b.json") {
		t.Errorf("it is\n%s", text)
	}
	alone := both()
	alone.Manifest, alone.Rows = alone.Manifest.Also[0], alone.Rows[5:]
	if text := changes(t, alone, both()); !strings.Contains(text, "watch under crash is only in b.json") ||
		strings.Contains(text, "Redis commands") {
		t.Errorf("it is\n%s", text)
	}

	if err := report.CompareFiles(io.Discard, file("a.json", alone), file("b.json", sale())); err == nil ||
		!strings.Contains(err.Error(), "they differ in workload (hold, deduct)") {
		t.Errorf("no workload in common: %v", err)
	}
	changed.Manifest.Also[0].Stock = 7
	if err := report.CompareFiles(io.Discard, file("a.json", both()), file("b.json", changed)); err == nil ||
		!strings.Contains(err.Error(), "they differ in stock (200, 7)") {
		t.Errorf("another size of the second: %v", err)
	}
}
