package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
)

// Growth exits with 0 and a table if each buyer bought, and with 2 and one line if not.
func TestGrowthExitCodes(t *testing.T) {
	dir := t.TempDir()
	one, two, few := filepath.Join(dir, "1.json"), filepath.Join(dir, "2.json"), filepath.Join(dir, "few.json")
	for file, args := range map[string][]string{
		one: {"-instances", "1", "-stock", "300"},
		two: {"-instances", "2", "-stock", "300"},
		few: {"-instances", "1", "-stock", "20"},
	} {
		args = append(args, "-requests", "300", "-strategies", "lua_batch", "-conditions", "calm", "-json", file)
		if got := try(t, args...); got.code != exitExpected {
			t.Fatalf("exit code %d, stderr %q, stdout\n%s", got.code, got.stderr, got.stdout)
		}
	}
	for _, test := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{two, one}, exitExpected, "| Redis commands a sale | items | 1 shop | 2 shops | each doubling |\n"},
		{[]string{"-h"}, exitExpected, "Usage: bench growth"},
		{nil, exitFailed, "no file given"},
		{[]string{filepath.Join(dir, "nowhere.json")}, exitFailed, "nowhere.json"},
		{[]string{one, one}, exitFailed, "bench: growth:"},
		{[]string{few}, exitFailed, "20"},
	} {
		var stdout, stderr bytes.Buffer
		code := growthOf(test.args, &stdout, &stderr)
		if said := stdout.String() + stderr.String(); code != test.code || !strings.Contains(said, test.says) {
			t.Errorf("growth %q: exit code %d, said %q; want %d and %q", test.args, code, said, test.code, test.says)
		}
		if code == exitFailed && (stdout.Len() > 0 || strings.Count(stderr.String(), "\n") != 1) {
			t.Errorf("growth %q: stdout %q, stderr %q", test.args, stdout.String(), stderr.String())
		}
	}
}
