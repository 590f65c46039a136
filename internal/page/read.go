package page

import (
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"path"
	"slices"

	"github.com/aymanbagabas/go-udiff"

	"oversell/internal/catalog"
	"oversell/internal/locks"
	"oversell/internal/web/problem"
)

// stage is a stage of the lock, as the part Read shows it.
type stage struct {
	Name   string   `json:"name"`
	Before string   `json:"before,omitempty"` // the stage that it is compared with; the first has none
	Adds   string   `json:"adds"`             // what it adds to the stage before it
	Breaks string   `json:"breaks"`           // what still breaks
	Files  []source `json:"files"`
}

// source is a Go file or a script of a stage.
type source struct {
	Name string `json:"name"`
	Text string `json:"text,omitempty"` // empty: only the stage before has the file
	Diff string `json:"diff,omitempty"` // unified, from the stage before; empty: nothing changed
}

// stageHandler returns the handler of the part Read: GET /api/stages replies with the stages in teaching
// order. The reply is made once and has an ETag. The handler is safe for concurrent use.
func stageHandler() (http.Handler, error) {
	all, err := stages()
	if err != nil {
		return nil, fmt.Errorf("reading the stages: %w", err)
	}
	reply, err := packJSON(map[string][]stage{"stages": all})
	if err != nil {
		return nil, fmt.Errorf("writing the stages: %w", err)
	}
	return problem.Routes{"GET /api/stages": problem.Parameters(reply.ServeHTTP)}.Handler(), nil
}

func stages() ([]stage, error) {
	var all []stage
	before, old := "", map[string]string{}
	for _, name := range locks.Stages() {
		strategy, err := catalog.Strategies().Find(name)
		if err != nil {
			return nil, err
		}
		texts, err := textsOf(name)
		if err != nil {
			return nil, err
		}
		s := stage{Name: name, Before: before, Adds: strategy.Adds, Breaks: strategy.Breaks}
		both := maps.Clone(texts)
		maps.Copy(both, old)
		for _, file := range slices.Sorted(maps.Keys(both)) {
			f := source{Name: file, Text: texts[file]}
			if before != "" {
				f.Diff = udiff.Unified(path.Join(before, file), path.Join(name, file), old[file], f.Text)
			}
			s.Files = append(s.Files, f)
		}
		all = append(all, s)
		before, old = name, texts
	}
	return all, nil
}

// textsOf returns the files of a stage by their names.
func textsOf(stage string) (map[string]string, error) {
	names, err := fs.Glob(locks.Sources(), stage+"/*")
	if err != nil {
		return nil, err
	}
	texts := make(map[string]string)
	for _, name := range names {
		text, err := fs.ReadFile(locks.Sources(), name)
		if err != nil {
			return nil, err
		}
		texts[path.Base(name)] = string(text)
	}
	return texts, nil
}
