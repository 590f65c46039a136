package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"oversell/internal/atomicfile"
	"oversell/internal/cmdline"
	"oversell/internal/lab"
	"oversell/internal/lab/show"
	"oversell/internal/present"
)

// present shows the report in all requested forms. It returns false if a table that -check checks
// is stale.
func (p program) present(o options, to []file, r lab.Report) (fresh bool, err error) {
	if err := p.print(o, r); err != nil {
		return false, err
	}
	for _, f := range to {
		err = errors.Join(err, f.Fill(func(w io.Writer) error { return f.write(w, r) }))
	}
	if err != nil {
		return false, err
	}
	return p.rewrite(o, o.put(r))
}

func (p program) print(o options, r lab.Report) error {
	style := o.style(p.stdout)
	beside := style.Parts(r)
	switch {
	case o.json == "-":
		return r.WriteJSON(p.stdout)
	case len(r.Cells) == 1 && len(beside) == 0:
		return show.Timeline(p.stdout, r, r.Cells[0], style)
	case len(r.Manifest.Strategies) == 1 && r.Manifest.Strategies[0] == lab.Yours().Name && len(beside) == 0:
		return lab.WriteGrade(p.stdout, r)
	}
	err := show.Matrix(p.stdout, r, style)
	for _, part := range beside {
		fmt.Fprintf(p.stdout, "\n%s\n\n", part.Title)
		err = errors.Join(err, show.Matrix(p.stdout, part.Report, style))
	}
	return err
}

// put returns a function that puts the tables of a report into a text.
func (o options) put(r lab.Report) func(text []byte) ([]byte, error) {
	return func(text []byte) ([]byte, error) { return lab.ReplaceTable(text, r, o.tables[0].Scenarios) }
}

// rewrite updates the tables in the file of -readme, if it is set. If -check is set, it only reports
// whether they are up to date.
func (p program) rewrite(o options, put func(text []byte) ([]byte, error)) (fresh bool, err error) {
	if o.readme == "" {
		return true, nil
	}
	old, text, err := o.replace(put)
	if err != nil {
		return false, err
	}
	if bytes.Equal(old, text) {
		fmt.Fprintf(p.stderr, "lab: the tables in %s match this run\n", o.readme)
		return true, nil
	}
	writeRows(p.stderr, "-", old, text)
	writeRows(p.stderr, "+", text, old)
	if o.check {
		what := ""
		if o.mode == modeSearch {
			what = "-search all "
		}
		fmt.Fprintf(p.stderr, "lab: a table in %s is stale: go run ./cmd/lab %s-readme %[1]s\n", o.readme, what)
		return false, nil
	}
	return true, atomicfile.Write(o.readme, func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
}

// writeRows writes the lines of text that other does not have. It ignores the order of the lines,
// because the rows of a table do not change theirs.
func writeRows(w io.Writer, sign string, text, other []byte) {
	there := slices.Collect(strings.Lines(string(other)))
	for line := range strings.Lines(string(text)) {
		if !slices.Contains(there, line) {
			io.WriteString(w, sign+line)
		}
	}
}

// replace returns the text of -readme, if it is set, before and after put. It does not write the file.
func (o options) replace(put func(text []byte) ([]byte, error)) (old, text []byte, err error) {
	if o.readme == "" {
		return nil, nil, nil
	}
	if old, err = os.ReadFile(o.readme); err != nil {
		return nil, nil, fmt.Errorf("reading the file with the table: %w", err)
	}
	if text, err = put(old); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", o.readme, err)
	}
	return old, text, nil
}

// file is a file for the report.
type file struct {
	*atomicfile.File
	write func(w io.Writer, r lab.Report) error
}

// open creates the files before the run, so that the user does not wait for a report that cannot be
// written.
func (p program) open(o options) (all []file, err error) {
	for _, f := range []struct {
		flag, name string
		write      func(w io.Writer, r lab.Report) error
	}{
		{"-json", o.json, func(w io.Writer, r lab.Report) error { return r.WriteJSON(w) }},
		{"-html", o.html, func(w io.Writer, r lab.Report) error { return show.HTML(w, r, o.style(nil)) }},
		{"-record", o.record, func(w io.Writer, r lab.Report) error {
			return lab.Recorded().With(p.tables, r.Everything()).WriteJSON(w)
		}},
	} {
		if f.name == "" || f.flag == "-json" && f.name == "-" {
			continue
		}
		created, err := atomicfile.Create(f.name)
		if err != nil {
			return all, fmt.Errorf("%s: %w", f.flag, err)
		}
		all = append(all, file{created, f.write})
	}
	return all, nil
}

func (o options) style(w io.Writer) show.Style {
	return show.Style{Style: present.Style{Colour: w != nil && cmdline.Coloured(w), Language: o.language}}
}
