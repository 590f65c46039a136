package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"oversell/internal/bench/report"
)

const compareUsage = `Compare shows what changed between two reports that bench wrote with -json, row by
row, or compares the strategies of one report with its first.

Usage: bench compare OLD.json [NEW.json]

Examples:
  go run ./bench -repeat 6 -json old.json            then change something, and write new.json
  go run ./bench compare old.json new.json           what became faster or slower
  go run ./bench compare new.json                    how the strategies differ

It compares medians, and shows a difference if the intervals of the runs do not
overlap. Reports with different backends, versions of them or of Go, or sizes cannot
be compared.

Exit code: 0 if the reports were compared, 2 if they cannot be.
`

// compareReports runs the compare command.
func compareReports(names []string, stdout io.Writer) error {
	if len(names) == 1 && slices.Contains([]string{"-h", "-help", "--help"}, names[0]) {
		fmt.Fprint(stdout, compareUsage)
		return nil
	}
	if len(names) < 1 || len(names) > 2 {
		return fmt.Errorf("%d files given; it takes one or two (-h shows how)", len(names))
	}
	files := make([]report.File, len(names))
	for i, name := range names {
		r, err := read(name)
		if err != nil {
			return err
		}
		files[i] = report.File{Name: name, Report: r}
	}
	if len(files) == 1 {
		return report.CompareStrategies(stdout, files[0])
	}
	return report.CompareFiles(stdout, files[0], files[1])
}

// read reads a report. Its errors name the file.
func read(name string) (r report.Report, err error) {
	f, err := os.Open(name)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if r, err = report.Read(f); err != nil {
		err = fmt.Errorf("%s: %w", name, err)
	}
	return r, err
}
