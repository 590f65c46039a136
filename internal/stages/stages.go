// Package stages has the stages of the lock as texts: the source of each, what
// differs from the stage before it, line beside line, and which line fixes
// which anomaly of the lab.
package stages

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strings"

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
	Adds   string `json:"adds"`   // what it has that the one before has not
	Breaks string `json:"breaks"` // what still breaks

	// Fixes are the anomalies that broke before and do not break here, Reopens
	// those that did not break before and break here, by the lab's record.
	Fixes   []Fix         `json:"fixes"`
	Reopens []lab.Anomaly `json:"reopens"`
}

// File is a file of a stage, beside the one with its name in the stage before.
// A file that is in the stage before only has no source, and all its rows are
// removed.
type File struct {
	Name     string `json:"name"`
	Language string `json:"language"` // go or lua
	Source   string `json:"source"`
	Rows     []Row  `json:"rows"`
}

// noLock is the strategy with which the first stage is compared. It has no
// files: all of the first stage is added.
const noLock = "none"

// Stages returns the stages, in the order in which they are taught. The texts
// and the record are in the binary, so that an error is a mistake in it.
func Stages() ([]Stage, error) {
	var all []Stage
	before := Stage{About: About{Name: noLock}}
	for _, s := range locks.Strategies() {
		files, err := read(locks.Sources(), s.Name)
		if err != nil {
			return nil, fmt.Errorf("reading the sources of %s: %w", s.Name, err)
		}
		if len(files) == 0 {
			continue // it is no stage
		}
		stage := Stage{
			About: About{Name: s.Name, Before: before.Name, Adds: s.Adds, Breaks: s.Breaks},
			Files: beside(before.Files, files),
		}
		if stage.Comment, err = comment(files); err != nil {
			return nil, fmt.Errorf("reading the package comment of %s: %w", s.Name, err)
		}
		stage.Fixes = stage.fixes()
		stage.Reopens = stage.reopens()
		all = append(all, stage)
		before = Stage{About: stage.About, Files: files}
	}
	return all, nil
}

// read returns the files of a stage, mutex.go first: there the reading begins.
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

// beside returns the files with their rows, and last those that are gone.
func beside(before, files []File) []File {
	var all []File
	for _, f := range files {
		f.Rows = rows(sourceOf(before, f.Name), f.Source)
		all = append(all, f)
	}
	for _, f := range before {
		if sourceOf(files, f.Name) == "" {
			all = append(all, File{Name: f.Name, Language: f.Language, Rows: rows(f.Source, "")})
		}
	}
	return all
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
