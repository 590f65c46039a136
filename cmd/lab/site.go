package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"

	"oversell/internal/bench"
	"oversell/internal/fleet"
	"oversell/internal/lab"
	"oversell/internal/lab/search"
	"oversell/internal/lab/show"
	"oversell/internal/page"
	benches "oversell/internal/page/runs"
	"oversell/internal/site"
)

// instanceArg is the argument with which this program starts itself as a shop of a bench.
const instanceArg = "instance"

// instance runs a shop of a bench, which reads its setup from standard input.
func instance(ctx context.Context) int {
	if err := bench.Serve(ctx, os.Stdin, os.Stdout, os.Stderr, nil); err != nil {
		fmt.Fprintln(os.Stderr, "lab:", err)
		return exitFailed
	}
	return exitExpected
}

// The cell that a site shows in place of a sale by holds: see the page's recorded.js.
const (
	latePayment = "late-payment"
	lateStage   = "h2_status"
)

func (p program) site(ctx context.Context, dir string) error {
	if err := site.Check(dir); err != nil {
		return err
	}
	p.tell("compiling the lab for a browser")
	code, err := site.BuildLab(ctx)
	if err != nil {
		return err
	}
	p.tell(fmt.Sprintf("the lab has %s, compressed", megabytes(len(code.Packed))))
	manager := benches.New(ctx, benches.Config{
		Command: func() (*exec.Cmd, error) { return fleet.Self(ctx, instanceArg) },
		Logger:  slog.New(slog.NewTextHandler(p.stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	defer manager.Close()
	presets := manager.Options().Presets
	if p.firstOnly {
		presets = presets[:1]
	}
	// The first one is run last, so that the page shows it first.
	for i, preset := range slices.Backward(presets) {
		strategies, condition := strings.Join(preset.Strategies, ", "), preset.Conditions[0]
		p.tell(fmt.Sprintf("recording run %d of %d: %s, %s", len(presets)-i, len(presets), strategies, condition))
		if err := recordRun(ctx, manager, preset.Settings); err != nil {
			return err
		}
	}
	p.tell("recording the lab's cells")
	report, err := p.recordCells(ctx)
	if err != nil {
		return err
	}
	return p.writeSite(ctx, dir, code, manager, report)
}

// writeSite writes the site with all recordings.
func (p program) writeSite(
	ctx context.Context, dir string, code site.Lab, manager *benches.Manager, report lab.Report,
) error {
	shown, err := page.New(ctx, page.Config{
		Runs: manager, Budget: search.Budget{States: 1}, Logger: slog.New(slog.DiscardHandler), // no searches
		Anomalies: func(context.Context, func(done, of int)) (lab.Report, error) { return report, nil },
	})
	if err != nil {
		return err
	}
	defer shown.Close()
	files, err := page.Files()
	if err != nil {
		return err
	}
	replies := map[string]any{"/api/strategies": map[string]any{"strategies": manager.Options().Strategies}}
	for _, c := range report.Everything() {
		if c.Anomaly == latePayment && c.Strategy == lateStage {
			replies["/api/lab/"+latePayment+"/"+lateStage] = show.Tell(report.Holds.Manifest, c)
		}
	}
	written, err := site.Write(ctx, site.Config{
		Dir: dir, Page: http.Handler(shown), Files: files, Lab: code, Version: fleet.Version(), Replies: replies,
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(p.stdout, "%s has %d files, %s; the lab in it has %s and is loaded when it is needed.\n"+
		"Any static file server can serve it, such as: python3 -m http.server -d %[1]s\n",
		dir, written.Files, megabytes(int(written.Bytes)), megabytes(written.Lab))
	return nil
}

// recordRun runs a bench. The manager keeps its rows and samples.
func recordRun(ctx context.Context, manager *benches.Manager, settings benches.Settings) error {
	id, err := manager.Start(settings)
	if err != nil {
		return fmt.Errorf("recording a run: %w", err)
	}
	for events := manager.Subscribe(); ; {
		e, err := events.Next(ctx)
		if err != nil {
			return fmt.Errorf("recording a run: %w", err)
		}
		if e.Run == nil || e.Run.ID != id || e.Run.Ended == nil {
			continue
		}
		if e.Run.State != benches.Done {
			return fmt.Errorf("recording a run: it ended as %q: %s", e.Run.State, e.Run.Error)
		}
		return nil
	}
}

// recordCells runs the lab in its own process: client libraries reuse timers, and the benches must
// not get timers from virtual time.
func (p program) recordCells(ctx context.Context) (report lab.Report, err error) {
	var names []string
	for _, c := range p.tables[0].Subjects {
		names = append(names, c.Name)
	}
	var run []string
	for _, s := range p.tables[0].Scenarios {
		run = append(run, s.Name)
	}
	args := []string{
		"-json", "-", "-redis", lab.Embedded, "-db", lab.Embedded,
		"-strategies", strings.Join(append(names, lateStage), ","), "-run", strings.Join(append(run, latePayment), ","),
	}
	cmd, err := fleet.Self(ctx, args...)
	if err != nil {
		return report, err
	}
	cmd.Stderr = p.stderr
	out, err := cmd.Output()
	if ctx.Err() != nil {
		return report, context.Cause(ctx)
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == exitUnexpected {
		return report, errors.New("running the lab: a cell does not have its recorded outcome; go run ./cmd/lab " +
			"names it")
	}
	if err != nil {
		return report, fmt.Errorf("running the lab: %w", err)
	}
	if err := json.Unmarshal(out, &report); err != nil {
		return report, fmt.Errorf("reading the lab's report: %w", err)
	}
	return report, nil
}

func (p program) tell(text string) { fmt.Fprintln(p.stderr, "site:", text) }

func megabytes(n int) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }
