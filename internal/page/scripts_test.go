package page_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// The scripts are formatted by dprint, with dprint.json: npx dprint fmt.
const (
	maxColumns  = 120
	maxFunction = 80 // lines
)

// function is a line that begins a function or a method. A formatted function ends where
// a line with the same indentation begins with a brace.
var function = regexp.MustCompile(`^(\s*)(?:.*\bfunction\b.*|.*=>|(?:async )?\w+\(.*\)) \{$`)

// control is a line that begins another block.
var control = regexp.MustCompile(`^\s*(?:\}|(?:if|for|while|switch|catch)\b)`)

// scripts are the scripts of all pages.
func scripts(t *testing.T) map[string][]string {
	t.Helper()
	all := make(map[string][]string)
	err := filepath.WalkDir("..", func(name string, d fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(name) != ".js" || strings.Contains(name, "uplot") {
			return err
		}
		text, err := os.ReadFile(name)
		all[name] = strings.Split(string(text), "\n")
		return err
	})
	if err != nil || len(all) < 20 {
		t.Fatalf("%d scripts were found: %v", len(all), err)
	}
	return all
}

func TestScriptsHaveShortLinesAndFunctions(t *testing.T) {
	for name, lines := range scripts(t) {
		for i, line := range lines {
			if n := utf8.RuneCountInString(line); n > maxColumns {
				t.Errorf("%s:%d has %d columns; at most %d are allowed", name, i+1, n, maxColumns)
			}
			begins := function.FindStringSubmatch(line)
			if begins == nil || control.MatchString(line) {
				continue
			}
			end := i + 1
			for !strings.HasPrefix(lines[end], begins[1]+"}") {
				end++
			}
			if n := end - i + 1; n > maxFunction {
				t.Errorf("%s:%d begins a function of %d lines; at most %d are allowed", name, i+1, n, maxFunction)
			}
		}
	}
}
