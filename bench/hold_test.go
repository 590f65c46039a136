package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"oversell/internal/backend/backendtest"
	"oversell/internal/bench/holdsale"
	"oversell/internal/bench/report"
	"oversell/internal/catalog"
	"oversell/internal/figures"
)

func TestHoldWorkload(t *testing.T) {
	t.Parallel()
	backendtest.System(t) // a whole run
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

// Stages of holds may be named beside other strategies, or alone, without the workload.
func TestStrategiesDecideTheWorkload(t *testing.T) {
	alone, err := parse([]string{"-strategies", "h3_claim", "-conditions", "calm", "-requests", "60"})
	if err != nil {
		t.Fatal(err)
	}
	if len(alone.Strategies) != 0 || alone.hold == nil || alone.hold.Buyers != 60 || !slices.Equal(alone.hold.Stages, []string{"h3_claim"}) {
		t.Errorf("alone: strategies %v, holds %+v", alone.Strategies, alone.hold)
	}
	beside, err := parse([]string{"-strategies", "h3_claim,lua_stream", "-conditions", "calm,slow", "-requests", "60"})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(beside.Strategies, []string{"lua_stream"}) || beside.Requests != 60 || beside.hold == nil ||
		!slices.Equal(beside.hold.Stages, []string{"h3_claim"}) || beside.hold.Buyers != holdsale.DefaultBuyers || !slices.Equal(beside.hold.Conditions, beside.Conditions) {
		t.Errorf("beside: strategies %v, %d requests, holds %+v", beside.Strategies, beside.Requests, beside.hold)
	}
	every, err := parse([]string{"-strategies", "all"})
	if err != nil {
		t.Fatal(err)
	}
	if every.hold == nil || !slices.Equal(every.hold.Stages, catalog.HoldNames()) {
		t.Errorf("all: holds %+v", every.hold)
	}
}

func TestHoldWorkloadRefusesWhatItDoesNotUse(t *testing.T) {
	for args, want := range map[string]string{
		"-workload hold -work 1ms":                                 "-work is not a flag of workload hold, which takes -workload, -strategies, ",
		"-workload hold -rate 10":                                  "-rate is not a flag of workload hold",
		"-workload hold -strategies v8_fenced":                     `"v8_fenced" (allowed: [h1_counter h2_status h3_claim])`,
		"-workload hold -conditions failover":                      "condition failover needs a Redis with replicas that the bench starts: -redis local",
		"-workload hold -conditions chaos":                         "condition chaos with workload hold; allowed: [calm slow late crash pause partition failover]",
		"-workload hold -conditions partition -redis rediss://h:1": "condition partition needs a Redis whose connections can be relayed",
		"-workload hold -conditions crash -seam nowhere":           `"nowhere" (allowed: [take capture claim order refund sweep])`,
		"-workload hold -conditions pause -seam take":              "seams without condition crash",
		"-workload hold -instances 1":                              "allowed: 2 to 16",
		"-workload hold -ttl 0":                                    "-ttl is 0",
		"-workload hold -ttl 1ms":                                  "a ttl of 1ms",
		"-workload hold -html -":                                   "-html is -",
		"-seam take":                                               "take is a seam of workload hold",
		"-workload hold -conditions crash -seam script":            `a seam of workload hold: "script" (allowed: [take`,
		"-workload hold -strategies h1_counter,h1_counter":         "h1_counter is named twice",
	} {
		got := try(t, strings.Fields(args)...)
		if got.code != exitFailed || !strings.Contains(got.stderr, want) || strings.Count(got.stderr, "\n") != 1 {
			t.Errorf("%s: exit code %d, %q; want %d and a line with %q", args, got.code, got.stderr, exitFailed, want)
		}
	}
}
