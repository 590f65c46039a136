package locktest_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"oversell/internal/backend/backendtest"
)

// folders returns the folders of all stages.
func folders(t *testing.T) []string {
	t.Helper()
	dirs, err := filepath.Glob("../v[0-9]_*")
	if err != nil || len(dirs) != 9 {
		t.Fatalf("stages: %v, %v; want nine", dirs, err)
	}
	return dirs
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	backendtest.Must(t, err)
	return string(b)
}

func files(t *testing.T, dir, pattern string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, pattern))
	backendtest.Must(t, err)
	var names []string
	for _, path := range paths {
		names = append(names, filepath.Base(path))
	}
	return names
}

// A script or helper that the next stage does not change is copied byte for byte. Therefore only the
// first stage that has it needs tests and mutants for it.
func TestStageFiles(t *testing.T) {
	for _, same := range []struct {
		before, after string
		names         []string
	}{
		{"v5_reentrant", "v6_watchdog", []string{"lock.lua", "unlock.lua", "owner.go"}},
		{"v6_watchdog", "v7_queue", []string{"renewal.go", "renew.lua", "owner.go"}},
		{"v7_queue", "v8_fenced", []string{"owner.go", "unlock.lua", "leave.lua", "sleep.go"}},
		{"v8_fenced", "v9_cohort", []string{"sleep.go"}},
	} {
		for _, name := range same.names {
			if read(t, "../"+same.before+"/"+name) != read(t, "../"+same.after+"/"+name) {
				t.Errorf("%s differs from %s to %s", name, same.before, same.after)
			}
		}
	}
}

func TestStagePackages(t *testing.T) {
	for _, dir := range folders(t) {
		for _, name := range files(t, dir, "*.go") {
			path := filepath.Join(dir, name)
			f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
			backendtest.Must(t, err)
			// An example is in the external test package, and imports its stage.
			pkg, own := "lock", ""
			if name == "example_test.go" {
				pkg, own = "lock_test", "oversell/internal/locks/"+filepath.Base(dir)
			}
			if f.Name.Name != pkg {
				t.Errorf("%s is package %s; want %s", path, f.Name.Name, pkg)
			}
			for _, spec := range f.Imports {
				imported, err := strconv.Unquote(spec.Path.Value)
				backendtest.Must(t, err)
				if strings.HasPrefix(imported, "oversell/") && !strings.HasSuffix(name, "_test.go") ||
					imported != own && regexp.MustCompile(`/locks/v\d_`).MatchString(imported) {
					t.Errorf("%s imports %s; a stage stands alone", path, imported)
				}
			}
		}
	}
}

// The package comment of each lock says what is new, what holds and what breaks. Each test that it
// names exists.
func TestComments(t *testing.T) {
	for _, dir := range append(folders(t), "../redlock", "../etcdlock", "../zklock") {
		paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
		backendtest.Must(t, err)
		if dir == "../etcdlock" || dir == "../zklock" {
			paths = append(paths, "../lease/promises_test.go")
		}
		tests, doc := map[string]bool{}, ""
		for _, path := range paths {
			f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
			backendtest.Must(t, err)
			doc += f.Doc.Text()
			for _, decl := range f.Decls {
				if fn, ok := decl.(*ast.FuncDecl); ok {
					tests[fn.Name.Name] = true
				}
			}
		}
		for _, part := range []string{"\nNew", "\nHolds:\n  - ", "\nBreaks:\n  - "} {
			if !strings.Contains(doc, part) {
				t.Errorf("%s: the package comment lacks %q", dir, part)
			}
		}
		for _, name := range regexp.MustCompile(`Test\w+`).FindAllString(doc, -1) {
			if !tests[name] {
				t.Errorf("%s: the package comment names %s, which is not there", dir, name)
			}
		}
	}
}

var (
	argument = regexp.MustCompile(`(?:KEYS|ARGV)\[\d+\]`)
	call     = regexp.MustCompile(`redis\.p?call\('(\w+)'\s*,\s*([^,)]+)`)
	returned = regexp.MustCompile(`(?m)\breturn +([^\n]+)$`)
	promised = regexp.MustCompile(`(?m)^--(?: Returns)? +(-?\w+|\{.*\}):`)
)

// A script's header names each of its KEYS and ARGV, with units, and each value that it returns. Every
// key that a script uses is in KEYS.
func TestScripts(t *testing.T) {
	for _, dir := range folders(t) {
		for _, name := range files(t, dir, "*.lua") {
			t.Run(filepath.Base(dir)+"/"+name, func(t *testing.T) {
				checkScript(t, read(t, filepath.Join(dir, name)))
			})
		}
	}
}

func checkScript(t *testing.T, script string) {
	var header, body strings.Builder
	for line := range strings.Lines(script) {
		if strings.HasPrefix(line, "--") {
			header.WriteString(line)
		} else {
			body.WriteString(line)
		}
	}
	for _, arg := range argument.FindAllString(body.String(), -1) {
		if !strings.Contains(header.String(), "\n-- "+arg+": ") {
			t.Errorf("the header does not name %s", arg)
		}
	}
	for _, arg := range argument.FindAllString(header.String(), -1) {
		if !strings.Contains(body.String(), arg) {
			t.Errorf("the header names %s, which is not used", arg)
		}
	}
	for line := range strings.Lines(header.String()) {
		if strings.Contains(line, "ttl,") && !strings.Contains(line, "milliseconds") {
			t.Errorf("no unit in %q", line)
		}
	}
	for _, c := range call.FindAllStringSubmatch(body.String(), -1) {
		if !strings.HasPrefix(c[2], "KEYS[") {
			t.Errorf("%s touches %s, which is not in KEYS", c[1], c[2])
		}
		if strings.Contains(c[2], "..") && !strings.Contains(header.String(), "derived from KEYS[1]") {
			t.Errorf("%s touches %s, and the header does not say so", c[1], c[2])
		}
	}
	_, returns, ok := strings.Cut(header.String(), "-- Returns")
	if !ok {
		t.Fatal("the header does not say what is returned")
	}
	var says, does []string
	for _, m := range promised.FindAllStringSubmatch("-- Returns"+returns, -1) {
		says = append(says, m[1])
	}
	for _, m := range returned.FindAllStringSubmatch(body.String(), -1) {
		does = append(does, m[1])
	}
	slices.Sort(says)
	slices.Sort(does)
	if !slices.Equal(says, slices.Compact(does)) {
		t.Errorf("the header says that %q is returned; it is %q", says, does)
	}
}
