package local

import (
	"fmt"
	"os"
	"os/exec"
	"strings"

	"oversell/internal/fleet"
)

// startLogged runs cmd with its output going to the file log.
func startLogged(cmd *exec.Cmd, log string) (*fleet.Process, error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the log: %w", err)
	}
	defer out.Close() // the child has its own handle
	cmd.Stdout, cmd.Stderr = out, out
	return fleet.Start(cmd)
}

// lastLines returns the end of a log, to be added to an error message.
func lastLines(log string) string {
	const most = 8
	b, err := os.ReadFile(log)
	if err != nil || len(b) == 0 {
		return ""
	}
	lines := strings.Split(strings.TrimRight(string(b), "\n"), "\n")
	return "; it logged:\n" + strings.Join(lines[max(0, len(lines)-most):], "\n")
}
