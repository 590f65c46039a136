//go:build system

package main

import (
	"encoding/json"
	"io"
	"net/http"
	"oversell/internal/lab"
	"oversell/internal/lab/anomalies"
	"oversell/internal/page/runs"
	"strings"
	"testing"
	"time"
)

// The program runs its own bench and lab as child processes, and ends with all of them.
func TestPageRunsTheBenchAndTheLab(t *testing.T) {
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
