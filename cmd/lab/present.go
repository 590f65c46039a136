package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"oversell/internal/atomicfile"
	"oversell/internal/lab"
	"oversell/internal/lab/show"
)

// present shows the report in every way that was asked for. It returns false
// if a table that -check checks is stale.
func (p program) present(o options, to files, r lab.Report) (fresh bool, err error) {
	if err := p.print(o, r); err != nil {
		return false, err
	}
	if to.json != nil {
		err = to.json.Fill(r.WriteJSON)
	}
	if to.html != nil {
		err = errors.Join(err, to.html.Fill(func(w io.Writer) error { return show.HTML(w, r, o.style(nil)) }))
	}
	if err != nil || o.readme == "" {
		return true, err
	}
	return p.table(o, r)
}

// print writes what goes to standard output.
func (p program) print(o options, r lab.Report) error {
	style := o.style(p.stdout)
	beside := style.Parts(r)
	switch {
	case o.json == "-":
		return r.WriteJSON(p.stdout)
	case len(r.Cells) == 1 && len(beside) == 0:
		return show.Timeline(p.stdout, r, r.Cells[0], style)
	case len(r.Manifest.Strategies) == 1 && r.Manifest.Strategies[0] == lab.Yours().Name && len(beside) == 0:
		return lab.GradeOf(r, o.tables[0].Scenarios, lab.Yours().Name).Write(p.stdout)
	}
	err := show.Matrix(p.stdout, r, style)
	for _, part := range beside {
		fmt.Fprintf(p.stdout, "\n%s\n\n", part.Title)
		err = errors.Join(err, show.Matrix(p.stdout, part.Report, style))
	}
	return err
}

// table rewrites the tables in a file, or reports whether they are up to date.
func (p program) table(o options, r lab.Report) (fresh bool, err error) {
	c, err := o.replace(r)
	if err != nil {
		return true, err
	}
	return p.write(o, c)
}

// write rewrites the file with tables, or reports whether it is up to date.
func (p program) write(o options, c change) (fresh bool, err error) {
	if bytes.Equal(c.old, c.text) {
		fmt.Fprintf(p.stderr, "lab: the tables in %s are as this run says\n", o.readme)
		return true, nil
	}
	if o.check {
		what := ""
		if o.mode == modeSearch {
			what = "-search all "
		}
		fmt.Fprintf(p.stderr, "lab: a table in %s is stale: go run ./cmd/lab %s-readme %[1]s\n", o.readme, what)
		return false, nil
	}
	return true, atomicfile.Write(o.readme, func(w io.Writer) error {
		_, err := w.Write(c.text)
		return err
	})
}

// change is what happens to a file.
type change struct{ old, text []byte }

// replace puts the tables of a report into the text of the file, which it does not write.
func (o options) replace(r lab.Report) (c change, err error) {
	if o.readme == "" {
		return c, nil
	}
	if c.old, err = os.ReadFile(o.readme); err != nil {
		return c, fmt.Errorf("reading the file with the table: %w", err)
	}
	if c.text, err = lab.ReplaceTable(c.old, r, o.tables[0].Scenarios); err != nil {
		return c, fmt.Errorf("%s: %w", o.readme, err)
	}
	return c, nil
}
