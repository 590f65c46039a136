package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"time"

	"oversell/internal/backend"
	"oversell/internal/bench"
	"oversell/internal/fleet"
	"oversell/internal/lab"
	"oversell/internal/lab/anomalies"
	"oversell/internal/lab/search"
	"oversell/internal/page"
	"oversell/internal/page/runs"
)

// The arguments with which this program starts itself as a child process.
const (
	instanceArg = "instance" // a shop for the bench, which reads its setup from standard input
	matrixArg   = "matrix"   // the lab, which writes its findings to standard output
)

func instance(ctx context.Context, stdin io.Reader, stdout, stderr io.Writer) int {
	if err := bench.Serve(ctx, stdin, stdout, stderr, nil); err != nil {
		return complain(stderr, exitUnable, err)
	}
	return exitOK
}

// finding is one line of JSON from the lab's process: its progress, and at the end its report.
type finding struct {
	Done   int         `json:"done"`
	Of     int         `json:"of"`
	Report *lab.Report `json:"report,omitempty"`
}

// matrix runs the lab on the embedded Redis. It must not run in the shop's own process, because
// client libraries pool timers: a timer from the lab's virtual time could be reused in real time.
func matrix(ctx context.Context, stdout, stderr io.Writer) int {
	cfg := lab.Config{Subjects: lab.Subjects(), Scenarios: anomalies.All(), Redis: lab.Embedded}
	on, err := backend.ServeRedisAlone(ctx, lab.Embedded)
	if err == nil {
		cfg.RedisName, err = on.RedisName, on.Close()
	}
	if err != nil {
		return complain(stderr, exitUnable, err)
	}
	out := json.NewEncoder(stdout)
	far := finding{Of: len(cfg.Subjects) * len(cfg.Scenarios)}
	report, err := lab.Run(ctx, cfg, func(lab.Cell) {
		far.Done++
		_ = out.Encode(far) // if it fails, the last Encode fails, too
	})
	if err == nil {
		far.Report = &report
		err = out.Encode(far)
	}
	if err != nil {
		return complain(stderr, exitUnable, err)
	}
	return exitOK
}

// measureMatrix runs the lab in a child process, which is killed when ctx ends.
func measureMatrix(ctx context.Context, progress func(done, of int)) (report lab.Report, err error) {
	cmd, err := fleet.Self(context.Background(), matrixArg)
	if err != nil {
		return report, err
	}
	// This does not use the command's own pipe, which is closed when the process ends, even if not
	// everything has been read.
	from, to, err := os.Pipe()
	if err != nil {
		return report, fmt.Errorf("running the lab: %w", err)
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	cmd.Stdout, cmd.Stderr = to, os.Stderr
	process, err := fleet.Start(cmd)
	if err := errors.Join(err, to.Close()); err != nil {
		return report, fmt.Errorf("running the lab: %w", err)
	}
	defer process.Kill()
	stop := context.AfterFunc(ctx, process.Kill)
	defer stop()
	for in := json.NewDecoder(from); ; {
		var f finding
		if err := in.Decode(&f); err != nil {
			return report, fmt.Errorf("reading the lab's findings: %w", errors.Join(err, context.Cause(ctx)))
		}
		if f.Report != nil {
			return *f.Report, nil
		}
		progress(f.Done, f.Of)
	}
}

// budget limits the search of all schedules of a strategy. For two buyers, v9_cohort has 360,000
// states; for three it has too many.
var budget = search.Budget{States: 500_000, Time: 3 * time.Minute}

// newPage returns the page of a shop on these backends. The page's runs end with ctx. The caller
// must call close, which waits for the runs, before it closes the backends.
func newPage(
	ctx context.Context, o options, on runs.Backends, room *page.Class, log *slog.Logger,
) (h http.Handler, close func(), err error) {
	manager := runs.New(ctx, runs.Config{
		Command: func() (*exec.Cmd, error) { return fleet.Self(context.Background(), instanceArg) },
		Shop:    &on, Logger: log,
	})
	p, err := page.New(ctx, page.Config{
		Runs: manager, Token: o.Web.Token, Anomalies: measureMatrix, Budget: budget, Class: room, Logger: log,
	})
	if err != nil {
		manager.Close()
		return nil, nil, err
	}
	return p, func() {
		manager.Close()
		p.Close()
	}, nil
}
