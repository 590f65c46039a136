package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"

	"oversell/internal/backend"
	"oversell/internal/bench"
	"oversell/internal/lab"
	"oversell/internal/locks"
	"oversell/internal/proc"
)

// What this program is, as a process of its own, instead of the shop.
const (
	instanceArg = "instance" // a shop of a bench, which takes its setup from its standard input
	matrixArg   = "matrix"   // the lab, which writes what it finds to its standard output
)

// self returns a function that makes the command of such a process.
func self(arg string) func() (*exec.Cmd, error) {
	return func() (*exec.Cmd, error) {
		path, err := os.Executable()
		if err != nil {
			return nil, fmt.Errorf("finding this program's own file: %w", err)
		}
		return exec.Command(path, arg), nil
	}
}

func instance(ctx context.Context, stdin io.Reader, stdout, stderr io.Writer) int {
	if err := bench.Serve(ctx, locks.Strategies(), stdin, stdout, stderr, nil); err != nil {
		return complain(stderr, exitUnable, err)
	}
	return exitOK
}

// finding is what the lab's process writes, one JSON object a line: how far it is,
// or in the end all.
type finding struct {
	Done   int         `json:"done"`
	Of     int         `json:"of"`
	Report *lab.Report `json:"report,omitempty"`
}

// matrix runs the lab on the embedded Redis. In the process of the shop it must
// not be: timers of its virtual time could get, by way of what client libraries
// pool, to where time is real.
func matrix(ctx context.Context, stdout, stderr io.Writer) int {
	cfg := lab.Config{Columns: lab.Columns(), Scenarios: lab.Scenarios(), Redis: lab.Embedded}
	var err error
	if cfg.RedisName, err = embeddedName(ctx); err != nil {
		return complain(stderr, exitUnable, err)
	}
	out := json.NewEncoder(stdout)
	far := finding{Of: len(cfg.Columns) * len(cfg.Scenarios)}
	report, err := lab.Run(ctx, cfg, func(lab.Cell) {
		far.Done++
		_ = out.Encode(far) // if nobody listens, the end says so too
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

// embeddedName is what the embedded Redis is called in reports.
func embeddedName(ctx context.Context) (name string, err error) {
	server, err := backend.ServeRedis(ctx, lab.Embedded)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	rdb, err := backend.DialRedis(ctx, server.URL, 1)
	if err != nil {
		return "", err
	}
	name, err = backend.RedisName(ctx, rdb, server.URL)
	return name, errors.Join(err, rdb.Close())
}

// measureMatrix runs the lab in a process of its own, which is killed when ctx
// ends.
func measureMatrix(ctx context.Context, progress func(done, of int)) (report lab.Report, err error) {
	cmd, err := self(matrixArg)()
	if err != nil {
		return report, err
	}
	// A pipe of the command's would be closed at its end, whether or not all had
	// been read.
	from, to, err := os.Pipe()
	if err != nil {
		return report, fmt.Errorf("running the lab: %w", err)
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	cmd.Stdout, cmd.Stderr = to, os.Stderr
	process, err := proc.Start(cmd)
	if err := errors.Join(err, to.Close()); err != nil {
		return report, fmt.Errorf("running the lab: %w", err)
	}
	defer process.Kill()
	stop := context.AfterFunc(ctx, process.Kill)
	defer stop()
	for in := json.NewDecoder(from); ; {
		var f finding
		if err := in.Decode(&f); err != nil {
			return report, fmt.Errorf("reading what the lab has found: %w", errors.Join(err, context.Cause(ctx)))
		}
		if f.Report != nil {
			return *f.Report, nil
		}
		progress(f.Done, f.Of)
	}
}
