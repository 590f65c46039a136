package main

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"oversell/internal/lab"
	"oversell/internal/lab/anomalies"
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

// The program runs its own bench and lab as child processes, and ends with all of them.
func TestPageRunsTheBenchAndTheLab(t *testing.T) {
	t.Setenv(asProgram, "1") // for the processes that the shop starts
	t.Setenv(keptMatrix, "")
	p := start(t)
	res, err := http.Get("http://" + p.addr + "/")
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(res.Body)
	res.Body.Close()
	if err != nil || res.StatusCode != http.StatusOK || !strings.HasPrefix(string(text), "<!DOCTYPE html>") {
		t.Errorf("the page: %s, %v", res.Status, err)
	}
	for _, backend := range []string{"embedded", "shop"} {
		settings := `{"strategies":["none","v6_watchdog"],"requests":200,"stock":20,"backend":"` + backend + `"}`
		res, err := http.Post("http://"+p.addr+"/api/runs", "application/json", strings.NewReader(settings))
		if err != nil {
			t.Fatal(err)
		}
		var begun struct{ ID string }
		err = json.NewDecoder(res.Body).Decode(&begun)
		res.Body.Close()
		if err != nil || res.StatusCode != http.StatusCreated {
			t.Fatalf("starting a run: %s, %v", res.Status, err)
		}
		var run runs.Run
		for run.Ended == nil {
			time.Sleep(20 * time.Millisecond)
			p.read(t, "/api/runs/"+begun.ID, &run)
		}
		if run.State != runs.Done || len(run.Rows) != 2 || run.Rows[1].Sold != 20 || run.Rows[0].Oversold == 0 {
			t.Errorf("on %s: %s, %q, %+v", backend, run.State, run.Error, run.Rows)
		}
	}
	p.read(t, "/api/lab", nil) // it begins, and no run does beside it
	var refused struct{ Code string }
	res, err = http.Post("http://"+p.addr+"/api/runs", "application/json", strings.NewReader(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	err = json.NewDecoder(res.Body).Decode(&refused)
	res.Body.Close()
	if err != nil || res.StatusCode != http.StatusConflict || refused.Code != "occupied" {
		t.Errorf("a run beside the lab: %s, %q, %v", res.Status, refused.Code, err)
	}
	var matrix struct{ Cells []lab.Cell }
	for p.read(t, "/api/lab", &matrix) == http.StatusAccepted {
		time.Sleep(100 * time.Millisecond)
	}
	if want := len(lab.Subjects()) * len(anomalies.All()); len(matrix.Cells) != want {
		t.Errorf("%d cells, want %d", len(matrix.Cells), want)
	}
	for _, c := range matrix.Cells {
		if !c.AsExpected() {
			t.Errorf("%s with %s came out as %s: %s", c.Anomaly, c.Strategy, c.Outcome, c.Note)
		}
	}
	p.stop()
	if code := <-p.code; code != exitOK {
		t.Errorf("exit code %d, stderr %s", code, &p.stderr)
	}
}

// A shop that is stopped in the middle of a run of the bench ends the run.
func TestShopClosesInTheMiddleOfARun(t *testing.T) {
	t.Setenv(asProgram, "1")
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
	t.Setenv(asProgram, "1")
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
