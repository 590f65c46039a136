// Package diff compares the stages of the lock: the source of each, line beside line
// with the stage before it, and which lines fix which anomaly of the lab.
package diff

import (
	"cmp"
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strings"

	"oversell/internal/catalog"
	"oversell/internal/lab"
	"oversell/internal/locks"
)

// A Stage is one stage of the lock.
type Stage struct {
	About
	Comment string `json:"comment"` // the package comment, as go doc has it
	Files   []File `json:"files"`
}

// About is what a stage is, without its texts.
type About struct {
	Name   string `json:"name"`
	Before string `json:"before"` // what it is compared with: the stage before it, or no lock
	Adds   string `json:"adds"`   // what it has that the one before lacks
	Breaks string `json:"breaks"` // what still breaks

	// By the lab's record, Fixes are the anomalies that broke before this stage and
	// hold with it; Reopens are those that held before and break with it.
	Fixes   []Fix         `json:"fixes"`
	Reopens []lab.Anomaly `json:"reopens"`
}

// File is a file of a stage, compared with the file of the same name in the stage
// before. A file that only the stage before has is here without a source, and all its
// rows are Removed.
type File struct {
	Name     string `json:"name"`
	Language string `json:"language"` // go or lua
	Source   string `json:"source"`
	Rows     []Row  `json:"rows"`
	Head     int    `json:"head"` // how many of the first rows are the comment that begins the file
}

// noLock is the strategy that the first stage is compared with. It has no files, so all
// of the first stage is Added.
const noLock = "none"

// Stages returns the stages in teaching order. The sources and the record are compiled
// in, so an error means that this build is wrong.
func Stages() ([]Stage, error) {
	var all []Stage
	before := Stage{About: About{Name: noLock}}
	for _, name := range locks.Stages() {
		s, err := catalog.Strategies().Find(name)
		if err != nil {
			return nil, err
		}
		files, err := read(locks.Sources(), name)
		if err != nil {
			return nil, fmt.Errorf("reading the sources of %s: %w", name, err)
		}
		stage := Stage{
			About: About{Name: name, Before: before.Name, Adds: s.Adds, Breaks: s.Breaks},
			Files: beside(before.Files, files),
		}
		if stage.Comment, err = comment(files); err != nil {
			return nil, fmt.Errorf("reading the package comment of %s: %w", name, err)
		}
		if stage.Fixes, err = stage.fixes(); err != nil {
			return nil, fmt.Errorf("finding the lines of %s that fix anomalies: %w", name, err)
		}
		stage.Reopens = stage.reopens()
		stage.order(before.Files)
		all = append(all, stage)
		before = Stage{About: stage.About, Files: files}
	}
	return all, nil
}

// read returns the files of a stage: mutex.go first.
func read(sources fs.FS, stage string) ([]File, error) {
	names, err := fs.Glob(sources, stage+"/*")
	if err != nil {
		return nil, err
	}
	var files []File
	for _, name := range names {
		text, err := fs.ReadFile(sources, name)
		if err != nil {
			return nil, err
		}
		files = append(files, File{Name: path.Base(name), Language: strings.TrimPrefix(path.Ext(name), "."), Source: string(text)})
	}
	slices.SortStableFunc(files, func(a, b File) int { return rank(a) - rank(b) })
	return files, nil
}

// rank puts mutex.go first, and the other Go files before the scripts.
func rank(f File) int {
	switch {
	case f.Name == "mutex.go":
		return 0
	case f.Language == "go":
		return 1
	}
	return 2
}

// beside returns the files with their rows, and after them the files that are gone.
func beside(before, files []File) []File {
	var all []File
	for _, f := range files {
		all = append(all, f.against(sourceOf(before, f.Name)))
	}
	for _, f := range before {
		if sourceOf(files, f.Name) == "" {
			all = append(all, File{Name: f.Name, Language: f.Language}.against(f.Source))
		}
	}
	return all
}

// against returns the file with the rows that compare it with its source before.
func (f File) against(before string) File {
	f.Rows = rows(before, f.Source)
	colour(f.Rows, f.Language, before, f.Source)
	old, now := head(before), head(f.Source)
	for _, r := range f.Rows {
		if r.Old != nil && r.Old.Number > old || r.New != nil && r.New.Number > now {
			break
		}
		f.Head++
	}
	return f
}

// head counts the lines of the comment that begins a text.
func head(text string) int {
	n := 0
	for line := range strings.Lines(text) {
		if (&Line{Text: line}).code() || strings.TrimSpace(line) == "" {
			break
		}
		n++
	}
	return n
}

// order puts the files in the order in which the page shows them. First are those that the
// stage adds, then those that it changes, and last those that are gone. Of each kind those
// that fix an anomaly come first, and then those with the most lines of changed code.
func (s Stage) order(before []File) {
	kind := func(f File) int {
		switch {
		case f.Source == "":
			return 2
		case sourceOf(before, f.Name) == "":
			return 0
		}
		return 1
	}
	fixes := func(f File) int {
		has := func(lines Lines) bool { return lines.File == f.Name }
		if slices.ContainsFunc(s.Fixes, func(fix Fix) bool { return slices.ContainsFunc(fix.Lines, has) }) {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(s.Files, func(a, b File) int {
		return cmp.Or(kind(a)-kind(b), fixes(a)-fixes(b), b.changedCode()-a.changedCode())
	})
}

// changedCode counts the rows with code that differs.
func (f File) changedCode() int {
	n := 0
	for _, r := range f.Rows {
		if r.Kind != Same && (r.Old.code() || r.New.code()) {
			n++
		}
	}
	return n
}

func sourceOf(files []File, name string) string {
	for _, f := range files {
		if f.Name == name {
			return f.Source
		}
	}
	return ""
}

// comment returns the package comment.
func comment(files []File) (string, error) {
	for _, f := range files {
		if f.Language != "go" {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), f.Name, f.Source, parser.PackageClauseOnly|parser.ParseComments)
		if err != nil {
			return "", err
		}
		if parsed.Doc != nil {
			return parsed.Doc.Text(), nil
		}
	}
	return "", nil
}
