//go:build mutants

package mutants

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// overlay writes an overlay file for the go command, which makes it read other files than those named, and
// returns its path.
func overlay(t *testing.T, replace map[string]string) string {
	t.Helper()
	b, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "overlay.json")
	if err := os.WriteFile(name, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// inModule returns the absolute path of a file that the elements name from the root of the module.
func inModule(t *testing.T, elements ...string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(root, filepath.Join(elements...)))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// run runs a command at the root of the module. If the command is stopped, the test fails and ends.
func run(t *testing.T, name string, args ...string) (out string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = root
	b, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if ctx.Err() != nil || err != nil && !errors.As(err, &exit) {
		t.Fatalf("run %s %q: %v\n%s", name, args, errors.Join(ctx.Err(), err), b)
	}
	return string(b), cmd.ProcessState.ExitCode()
}
