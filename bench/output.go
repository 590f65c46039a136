package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/term"

	"oversell/internal/atomicfile"
	"oversell/internal/bench"
	"oversell/internal/bench/page"
)

// output is where the report goes. Either report or close must be called in the end.
type output struct {
	table io.Writer
	json  io.Writer // nil: nowhere
	html  io.Writer // nil: nowhere
	files []*atomicfile.File
}

// open opens the files that are asked for: before the bench, so that nobody
// waits for a report that cannot be written. When standard output is asked for
// as JSON, it is for the JSON alone.
func (o options) open(stdout, stderr io.Writer) (out output, err error) {
	out.table = stdout
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

func (w output) write(report bench.Report) error {
	err := report.WriteTable(w.table, coloured(w.table))
	if w.json != nil {
		err = errors.Join(err, report.WriteJSON(w.json))
	}
	if w.html != nil {
		err = errors.Join(err, page.HTML(w.html, report))
	}
	return err
}

// report has write write a report of so many rows, and puts its files in their place if
// that succeeds. Of a report without rows nothing is written, and the files stay as
// they were.
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

// close removes what was not put in its place.
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

// coloured reports whether w wants colour; see https://no-color.org.
func coloured(w io.Writer) bool {
	return terminal(w) && os.Getenv("NO_COLOR") == ""
}
