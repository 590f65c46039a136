package main

import (
	"errors"
	"fmt"
	"io"

	"oversell/internal/atomicfile"
	"oversell/internal/bench/report"
	"oversell/internal/cmdline"
	"oversell/internal/present"
)

// output holds the destinations of the report. Call write or close at the end.
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
		out.json, err = out.create("json", o.json)
	}
	if err == nil && o.html != "" {
		out.html, err = out.create("html", o.html)
	}
	if err != nil {
		return out, errors.Join(err, out.close())
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

// write writes the report. If it has no rows, or cannot be written, existing files stay as they were.
func (w output) write(r report.Report) (err error) {
	defer func() { err = errors.Join(err, w.close()) }()
	if len(r.Rows) == 0 {
		return nil
	}
	s := w.style
	s.Colour = cmdline.Coloured(w.table)
	err = r.WriteTable(w.table, s)
	if w.json != nil {
		err = errors.Join(err, r.WriteJSON(w.json))
	}
	if w.html != nil {
		err = errors.Join(err, r.WriteHTML(w.html, s))
	}
	if err != nil {
		return err
	}
	for _, f := range w.files {
		err = errors.Join(err, f.Commit())
	}
	return err
}

// close discards the files that were not committed.
func (w output) close() error {
	var err error
	for _, f := range w.files {
		err = errors.Join(err, f.Close())
	}
	return err
}
