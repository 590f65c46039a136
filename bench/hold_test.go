package main

import (
	"encoding/json"
	"strings"
	"testing"

	"oversell/internal/bench/report"
	"oversell/internal/catalog"
	"oversell/internal/figures"
)

func TestHoldWorkload(t *testing.T) {
	got := try(t, strings.Fields("-workload hold -requests 60 -stock 40 -strategies h3_claim -conditions calm -json -")...)
	if got.code != exitExpected {
		t.Fatalf("exit code %d\n%s", got.code, got.stderr)
	}
	var written report.Report
	if err := json.Unmarshal([]byte(got.stdout), &written); err != nil {
		t.Fatal(err)
	}
	if len(written.Rows) != 1 || written.Rows[0].Held == nil {
		t.Fatalf("rows: %+v", written.Rows)
	}
	row := written.Rows[0]
	if row.Workload != catalog.Hold || row.Verdict != figures.OK || row.Sold != 40 || row.Captures != 40+row.Refunds || row.Holds == 0 || row.AgreesAfter == nil {
		t.Errorf("%+v, %+v", row, *row.Held)
	}
	for _, name := range []string{"stranded", "refunds", "charged_without_order", "sellable_after_s", "agrees_after_s"} {
		if !strings.Contains(got.stdout, `"`+name+`":`) {
			t.Errorf("%s is not in the JSON", name)
		}
	}
	for _, part := range []string{"60 buyers who hold a unit and pay later, 40 units, 2 instances; holds expire after 1s", "refunded", "matched the catalog's expectation"} {
		if !strings.Contains(got.stderr, part) {
			t.Errorf("%q is not in\n%s", part, got.stderr)
		}
	}
}

func TestHoldWorkloadRefusesWhatItDoesNotUse(t *testing.T) {
	for args, want := range map[string]string{
		"-workload hold -work 1ms":                         "-work has no effect with -workload hold",
		"-workload hold -rate 10":                          "-rate has no effect with -workload hold",
		"-workload hold -strategies v8_fenced":             `"v8_fenced" (allowed: [h1_counter h2_status h3_claim])`,
		"-workload hold -conditions failover":              "condition failover with workload hold; allowed: [calm slow late crash pause]",
		"-workload hold -conditions crash -seam nowhere":   `"nowhere" (allowed: [take capture claim order refund sweep])`,
		"-workload hold -conditions pause -seam take":      "-conditions crash",
		"-workload hold -instances 1":                      "allowed: 2 to 16",
		"-workload hold -ttl 0":                            "-ttl is 0",
		"-workload hold -ttl 1ms":                          "a ttl of 1ms",
		"-workload hold -html -":                           "-html is -",
		"-seam take":                                       "-workload hold",
		"-workload hold -strategies h1_counter,h1_counter": "h1_counter is named twice",
	} {
		got := try(t, strings.Fields(args)...)
		if got.code != exitFailed || !strings.Contains(got.stderr, want) || strings.Count(got.stderr, "\n") != 1 {
			t.Errorf("%s: exit code %d, %q; want %d and a line with %q", args, got.code, got.stderr, exitFailed, want)
		}
	}
}
