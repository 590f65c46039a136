package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"oversell/internal/bench"
	"oversell/internal/bench/compare"
)

// compareArg makes this program compare reports instead of writing one.
const compareArg = "compare"

const compareUsage = `Compare tells what changed between two reports that bench wrote with -json, row
by row, or how the strategies of one report differ from its first one.

Usage: bench compare OLD.json [NEW.json]

Examples:
  go run ./bench -repeat 6 -json old.json            then change something, and write new.json
  go run ./bench compare old.json new.json           what is faster now, or slower
  go run ./bench compare new.json                    how the strategies differ

Medians are compared, and a difference is shown where the intervals of the runs
do not overlap. Reports of different backends, of different versions of them or
of Go, or of different sizes cannot be compared.

Exit code: 0 if the reports were compared, whatever came out; 2 if they cannot be.
`

// compareReports runs the program's second use.
func compareReports(args []string, stdout, stderr io.Writer) int {
	if len(args) == 1 && (args[0] == "-h" || args[0] == "-help" || args[0] == "--help") {
		fmt.Fprint(stdout, compareUsage)
		return exitExpected
	}
	if err := compareFiles(args, stdout); err != nil {
		fmt.Fprintln(stderr, "bench: compare:", err)
		return exitFailed
	}
	return exitExpected
}

func compareFiles(names []string, stdout io.Writer) error {
	if len(names) < 1 || len(names) > 2 {
		return fmt.Errorf("%d files given; it takes one or two (-h shows how)", len(names))
	}
	files := make([]compare.File, len(names))
	for i, name := range names {
		report, err := read(name)
		if err != nil {
			return err
		}
		files[i] = compare.File{Name: name, Report: report}
	}
	if len(files) == 1 {
		found, err := compare.Strategies(files[0])
		if err != nil {
			return err
		}
		return found.WriteStrategies(stdout)
	}
	found, err := compare.Files(files[0], files[1])
	if err != nil {
		return err
	}
	return found.WriteFiles(stdout)
}

// read reads a report. Its errors name the file.
func read(name string) (r bench.Report, err error) {
	f, err := os.Open(name)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if r, err = bench.ReadReport(f); err != nil {
		err = fmt.Errorf("%s: %w", name, err)
	}
	return r, err
}
