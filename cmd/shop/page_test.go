package main

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"oversell/internal/page/runs"
)

// read sends a GET for a path of the shop and returns the status.
func (p *program) read(t *testing.T, path string, v any) int {
	t.Helper()
	res, err := http.Get("http://" + p.addr + path)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if v != nil {
		if err := json.NewDecoder(res.Body).Decode(v); err != nil {
			t.Fatalf("%s: %s: %v", path, res.Status, err)
		}
	}
	return res.StatusCode
}

// A shop that is stopped in the middle of a run of the bench ends the run.
func TestShopClosesInTheMiddleOfARun(t *testing.T) {
	p := start(t)
	res, err := http.Post("http://"+p.addr+"/api/runs", "application/json", strings.NewReader(`{"strategies":["v6_watchdog"],"requests":1000,"stock":1000,"work_us":100000,"backend":"shop"}`))
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	stream, err := http.Get("http://" + p.addr + "/api/runs/events")
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()
	for run := (runs.Run{}); run.Now == nil || run.Now.Phase != runs.Load; time.Sleep(20 * time.Millisecond) {
		var list struct{ Runs []runs.Summary }
		p.read(t, "/api/runs", &list)
		p.read(t, "/api/runs/"+list.Runs[0].ID, &run)
	}
	p.stop()
	if code := <-p.code; code != exitOK {
		t.Errorf("exit code %d, stderr %s", code, &p.stderr)
	}
	if _, err := io.Copy(io.Discard, stream.Body); err != nil {
		t.Errorf("the stream did not end well: %v", err)
	}
	for _, part := range []string{"level=ERROR", "level=WARN"} {
		if strings.Contains(p.stderr.String(), part) {
			t.Errorf("the log:\n%s", &p.stderr)
		}
	}
}

// A shop that is stopped while the lab runs does not wait for the lab.
func TestShopClosesInTheMiddleOfTheLab(t *testing.T) {
	t.Setenv(keptMatrix, "")
	p := start(t)
	for far := (struct{ Done int }{}); far.Done == 0; time.Sleep(20 * time.Millisecond) {
		if status := p.read(t, "/api/lab", &far); status != http.StatusAccepted {
			t.Fatalf("the lab: %d", status)
		}
	}
	p.stop()
	if code := <-p.code; code != exitOK || strings.Contains(p.stderr.String(), "level=ERROR") {
		t.Errorf("exit code %d, stderr %s", code, &p.stderr)
	}
}
