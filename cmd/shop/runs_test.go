package main

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"oversell/internal/page/runs"
)

// begin starts a run of the bench on the page, and returns its id.
func (p *program) begin(t *testing.T, settings string) string {
	t.Helper()
	var begun struct{ ID, Code string }
	if status := p.call(t, http.MethodPost, "/api/runs", settings, &begun); status != http.StatusCreated {
		t.Fatalf("starting a run: %d, %s", status, begun.Code)
	}
	return begun.ID
}

// The shop runs the bench and the lab as child processes of its own binary.
func TestPageRunsTheBenchAndTheLab(t *testing.T) {
	t.Setenv(keptMatrix, "")
	p := start(t)
	for _, backend := range []string{"embedded", "shop"} {
		id := p.begin(t, `{"strategies":["v6_watchdog"],"requests":200,"stock":20,"backend":"`+backend+`"}`)
		var run runs.Run
		for ; run.Ended == nil; time.Sleep(20 * time.Millisecond) {
			p.call(t, http.MethodGet, "/api/runs/"+id, "", &run)
		}
		if run.State != runs.Done || len(run.Rows) != 1 || run.Rows[0].Sold != 20 {
			t.Errorf("on %s: %s, %q, %+v", backend, run.State, run.Error, run.Rows)
		}
	}
	for far := (struct{ Done int }{}); far.Done == 0; time.Sleep(20 * time.Millisecond) {
		if status := p.call(t, http.MethodGet, "/api/lab", "", &far); status != http.StatusAccepted {
			t.Fatalf("the lab: %d", status)
		}
	}
	var refused struct{ Code string }
	status := p.call(t, http.MethodPost, "/api/runs", `{}`, &refused)
	if status != http.StatusConflict || refused.Code != "occupied" {
		t.Errorf("a run beside the lab: %d, %q", status, refused.Code)
	}
	p.end(t) // the lab is still running, and the shop does not wait for it
	if strings.Contains(p.stderr.String(), "level=ERROR") {
		t.Errorf("the log:\n%s", &p.stderr)
	}
}

// If a shop is stopped in the middle of a run of the bench, it ends the run and reports that to its
// page.
func TestShopClosesInTheMiddleOfARun(t *testing.T) {
	p := start(t)
	id := p.begin(t, `{"strategies":["v6_watchdog"],"requests":1000,"stock":1000,"work_us":100000,"backend":"shop"}`)
	stream, err := http.Get("http://" + p.addr + "/api/runs/events")
	must(t, err)
	defer stream.Body.Close()
	for run := (runs.Run{}); run.Now == nil || run.Now.Phase != runs.Load; time.Sleep(20 * time.Millisecond) {
		p.call(t, http.MethodGet, "/api/runs/"+id, "", &run)
	}
	p.end(t)
	if text, err := io.ReadAll(stream.Body); err != nil || !strings.Contains(string(text), "\nevent: closing\n") {
		t.Errorf("the stream does not say that the shop is closing: %v\n%s", err, text)
	}
	for _, part := range []string{"level=ERROR", "level=WARN"} {
		if strings.Contains(p.stderr.String(), part) {
			t.Errorf("the log:\n%s", &p.stderr)
		}
	}
}
