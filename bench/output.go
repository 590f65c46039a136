package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/term"

	"oversell/internal/atomicfile"
	"oversell/internal/bench/report"
	"oversell/internal/bench/report/page"
	"oversell/internal/present"
)

// output holds the destinations of the report. Call report or close at the end.
type output struct {
	table io.Writer
	json  io.Writer // nil: nowhere
	html  io.Writer // nil: nowhere
	style present.Style
	files []*atomicfile.File
}

// open opens the files before the bench runs, so that a file that cannot be written is reported
// early. If the JSON goes to standard output, the table goes to standard error.
func (o options) open(stdout, stderr io.Writer) (out output, err error) {
	out.table, out.style = stdout, present.Style{Language: o.language}
	switch o.json {
	case "":
	case "-":
		out.table, out.json = stderr, stdout
	default:
		if out.json, err = out.create("json", o.json); err != nil {
			return out, err
		}
	}
	if o.html != "" {
		if out.html, err = out.create("html", o.html); err != nil {
			return out, errors.Join(err, out.close())
		}
	}
	return out, nil
}

// create opens the file that a flag names.
func (w *output) create(name, path string) (io.Writer, error) {
	f, err := atomicfile.Create(path)
	if err != nil {
		return nil, fmt.Errorf("-%s: %w", name, err)
	}
	w.files = append(w.files, f)
	return f, nil
}

func (w output) write(report report.Report) error {
	s := w.style
	s.Colour = coloured(w.table)
	err := report.WriteTable(w.table, s)
	if w.json != nil {
		err = errors.Join(err, report.WriteJSON(w.json))
	}
	if w.html != nil {
		err = errors.Join(err, page.HTML(w.html, report, s))
	}
	return err
}

// report calls write, and commits the files if write succeeds. If there are no rows, it writes
// nothing, and existing files stay as they were.
func (w output) report(rows int, write func() error) error {
	if rows == 0 {
		return w.close()
	}
	if err := write(); err != nil {
		return errors.Join(err, w.close())
	}
	var err error
	for _, f := range w.files {
		err = errors.Join(err, f.Commit())
	}
	return errors.Join(err, w.close())
}

// close discards the files that were not committed.
func (w output) close() error {
	var err error
	for _, f := range w.files {
		err = errors.Join(err, f.Close())
	}
	return err
}

func terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// coloured reports whether to colour the output to w: see https://no-color.org.
func coloured(w io.Writer) bool {
	return terminal(w) && os.Getenv("NO_COLOR") == ""
}
