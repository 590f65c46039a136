//go:build system

package mutants

import (
	"go/ast"
	"go/build"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

// Each mutant of Go code builds: its types are in order. That takes seconds, and to compile them all takes minutes.
func TestEachMutantBuilds(t *testing.T) {
	breaks := map[edit]string{}
	for _, m := range all() {
		breaks[m.edit()] = m.Breaks
	}
	for _, m := range ofSales() {
		breaks[m.edit()] = m.Breaks
	}
	list := exec.Command("go", "list", "-export", "-deps", "-f", "{{.ImportPath}}={{.Export}}")
	list.Dir, list.Stderr = root, os.Stderr
	for e := range breaks {
		list.Args = append(list.Args, "./"+path.Dir(e.path))
	}
	b, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	exports := map[string]string{}
	for line := range strings.Lines(string(b)) {
		name, file, _ := strings.Cut(strings.TrimSpace(line), "=")
		exports[name] = file
	}
	files := token.NewFileSet()
	imports := importer.ForCompiler(files, "gc", func(name string) (io.ReadCloser, error) {
		return os.Open(exports[name])
	})
	for e, what := range breaks {
		if path.Ext(e.path) != ".go" {
			continue
		}
		pkg, err := build.ImportDir(filepath.Join(root, path.Dir(e.path)), 0)
		if err != nil {
			t.Fatal(err)
		}
		var parsed []*ast.File
		for _, name := range pkg.GoFiles {
			var text any // nil: the file's own
			if name == path.Base(e.path) {
				text = mutated(t, e)
			}
			f, err := parser.ParseFile(files, filepath.Join(pkg.Dir, name), text, parser.SkipObjectResolution)
			if err != nil {
				t.Error(err)
				continue
			}
			parsed = append(parsed, f)
		}
		config := types.Config{Importer: imports, Error: func(err error) { t.Errorf("%s: %v", what, err) }}
		_, _ = config.Check(pkg.Dir, files, parsed, nil)
	}
}
