package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/term"

	"oversell/internal/bench"
)

// output is where the report goes.
type output struct {
	table io.Writer
	json  io.Writer // nil: nowhere
	file  *os.File  // nil: none was opened
}

// open opens the file for the JSON, if one is asked for: before the bench, so
// that nobody waits for a report that cannot be written. When standard output
// is asked for, it is for the JSON alone.
func (o options) open(stdout, stderr io.Writer) (output, error) {
	switch o.json {
	case "":
		return output{table: stdout}, nil
	case "-":
		return output{table: stderr, json: stdout}, nil
	}
	f, err := os.Create(o.json)
	if err != nil {
		return output{}, fmt.Errorf("-json: %w", err)
	}
	return output{table: stdout, json: f, file: f}, nil
}

func (w output) write(report bench.Report) error {
	err := report.WriteTable(w.table, coloured(w.table))
	if w.json != nil {
		err = errors.Join(err, report.WriteJSON(w.json))
	}
	return err
}

func (w output) close() error {
	if w.file == nil {
		return nil
	}
	return w.file.Close()
}

func terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// coloured reports whether w wants colour; see https://no-color.org.
func coloured(w io.Writer) bool {
	return terminal(w) && os.Getenv("NO_COLOR") == ""
}
