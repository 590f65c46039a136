package redlock

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Every claim of the package comment names its tests, and those tests exist.
func TestComment(t *testing.T) {
	names, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]bool{}
	for _, name := range names {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range f.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok {
				tests[fn.Name.Name] = true
			}
		}
	}
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	_, claims, found := strings.Cut(string(doc), "// Holds:\n//   - ")
	if !found {
		t.Fatal("no list of what holds")
	}
	for claim := range strings.SplitSeq(claims, "//   - ") {
		named := regexp.MustCompile(`Test\w+`).FindAllString(claim, -1)
		if len(named) == 0 {
			t.Errorf("no test is named for %q", claim)
		}
		for _, name := range named {
			if !tests[name] {
				t.Errorf("the comment names %s, which is not there", name)
			}
		}
	}
}
