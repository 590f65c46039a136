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
	"oversell/internal/lab"
	"oversell/internal/lab/show"
	pagetexts "oversell/internal/page/texts"
	"oversell/internal/present"
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
		return lab.GradeOf(r, o.tables[0].Scenarios, lab.Yours().Name).Write(p.stdout)
	}
	err := show.Matrix(p.stdout, r, style)
	for _, part := range beside {
		fmt.Fprintf(p.stdout, "\n%s\n\n", part.Title)
		err = errors.Join(err, show.Matrix(p.stdout, part.Report, style))
	}
	return err
}

// put puts the tables of a report into a text.
func (o options) put(r lab.Report) func(text []byte) ([]byte, error) {
	return func(text []byte) ([]byte, error) { return lab.ReplaceTable(text, r, o.tables[0].Scenarios) }
}

// rewrite rewrites the file with tables, or reports whether it is up to date.
func (p program) rewrite(o options, put func(text []byte) ([]byte, error)) (fresh bool, err error) {
	c, err := o.replace(put)
	if err != nil {
		return false, err
	}
	if bytes.Equal(c.old, c.text) {
		fmt.Fprintf(p.stderr, "lab: the tables in %s are as this run says\n", o.readme)
		return true, nil
	}
	c.diff(p.stderr)
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

type change struct{ old, text []byte }

// diff writes the lines that only one of the two has: rows of tables, which are not moved.
func (c change) diff(w io.Writer) {
	only := func(sign string, text, other []byte) {
		there := slices.Collect(strings.Lines(string(other)))
		for line := range strings.Lines(string(text)) {
			if !slices.Contains(there, line) {
				io.WriteString(w, sign+line)
			}
		}
	}
	only("-", c.old, c.text)
	only("+", c.text, c.old)
}

// replace puts tables into the text of the file, which it does not write.
func (o options) replace(put func(text []byte) ([]byte, error)) (c change, err error) {
	if o.readme == "" {
		return c, nil
	}
	if c.old, err = os.ReadFile(o.readme); err != nil {
		return c, fmt.Errorf("reading the file with the table: %w", err)
	}
	if c.text, err = put(c.old); err != nil {
		return c, fmt.Errorf("%s: %w", o.readme, err)
	}
	return c, nil
}

type files struct {
	json, html *atomicfile.File // nil: nowhere
}

// open creates the files before the run, so that nobody waits for a report that
// cannot be written.
func (o options) open() (out files, err error) {
	if o.json != "" && o.json != "-" {
		if out.json, err = atomicfile.Create(o.json); err != nil {
			return out, fmt.Errorf("-json: %w", err)
		}
	}
	if o.html != "" {
		if out.html, err = atomicfile.Create(o.html); err != nil {
			return out, errors.Join(fmt.Errorf("-html: %w", err), out.discard())
		}
	}
	return out, nil
}

// discard removes what was not written.
func (f files) discard() error {
	var err error
	for _, one := range []*atomicfile.File{f.json, f.html} {
		if one != nil {
			err = errors.Join(err, one.Close())
		}
	}
	return err
}

// speak loads the texts of the language that -lang names.
func (o *options) speak() error {
	language, err := pagetexts.In(o.lang)
	if err != nil {
		return fmt.Errorf("-lang: %w", err)
	}
	o.language = language
	return nil
}

func (o options) style(w io.Writer) show.Style {
	return show.Style{Style: present.Style{Colour: w != nil && coloured(w), Language: o.language}}
}
