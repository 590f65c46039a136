package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"oversell/internal/backend/backendtest"
)

// program returns a command that runs this test binary as the program. A test that fails kills it, and
// its processes end with it.
func program(t *testing.T, args ...string) (cmd *exec.Cmd, stdout, stderr *bytes.Buffer) {
	t.Helper()
	cmd = exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), asProgram+"=1", "TMPDIR="+t.TempDir())
	stdout, stderr = new(bytes.Buffer), new(bytes.Buffer)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	t.Cleanup(func() {
		if cmd.Process != nil && cmd.ProcessState == nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait() // it was killed
		}
	})
	return cmd, stdout, stderr
}

// children returns the running child processes of a process.
func children(pid int) []string {
	var all []string
	tasks, _ := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/children")
	for _, task := range tasks {
		list, _ := os.ReadFile(task)
		all = append(all, strings.Fields(string(list))...)
	}
	return all
}

// awaitChildren waits until a process has n children, and returns them. The limit only ends a hang.
func awaitChildren(t *testing.T, pid, n int) []string {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if all := children(pid); len(all) == n {
			return all
		}
	}
	t.Fatalf("the program has the children %v, want %d", children(pid), n)
	return nil
}

// Ctrl-C ends the bench while all buyers wait for a dead holder. The bench prints the finished
// rows, and leaves no process and no file behind.
func TestInterruptPrintsWhatIsFinished(t *testing.T) {
	t.Parallel()
	cmd, stdout, stderr := program(t, small("-strategies", "v1_setnx", "-conditions", "calm,crash", "-wait", "1m")...)
	must(t, cmd.Start())
	two := awaitChildren(t, cmd.Process.Pid, 2)
	awaitChildren(t, cmd.Process.Pid, 1) // the other shop was killed, so the last row is under way
	interrupt(t, cmd, 20*time.Second, two)
	if !strings.Contains(stdout.String(), "v1_setnx") || strings.Contains(stdout.String(), "crash") {
		t.Errorf("want the calm row and no other in\n%s", stdout)
	}
	if !strings.HasPrefix(stderr.String(), "bench: interrupted after 1 finished rows: ") ||
		strings.Count(stderr.String(), "\n") != 1 {
		t.Errorf("stderr %q", stderr)
	}
}

// Ctrl-C ends a sale in chaos even while a shop or a server is stopped, and leaves no process and
// no file behind.
func TestInterruptEndsChaos(t *testing.T) {
	t.Parallel()
	backendtest.Need(t, "redis-server", "mariadb-install-db")
	cmd, _, stderr := program(t, "-redis", "local", "-db", "local", "-conditions", "chaos", "-faults",
		"shop-stop,redis-stop", "-strategies", "v6_watchdog", "-rate", "20", "-ttl", "20s")
	must(t, cmd.Start())
	four := awaitChildren(t, cmd.Process.Pid, 4)
	time.Sleep(2 * time.Second) // the first fault has begun, or is about to
	four = append(four, children(cmd.Process.Pid)...)
	interrupt(t, cmd, 5*time.Second+backendtest.Slack, four)
	if !strings.HasPrefix(stderr.String(), "bench: interrupted after 0 finished rows: ") {
		t.Errorf("stderr %q", stderr)
	}
}

// interrupt interrupts the program. It must fail within a time, and leave none of its processes and no
// file behind.
func interrupt(t *testing.T, cmd *exec.Cmd, within time.Duration, pids []string) {
	t.Helper()
	begun := time.Now()
	must(t, cmd.Process.Signal(os.Interrupt))
	_ = cmd.Wait() // the exit code is checked below
	if took := time.Since(begun); took > within {
		t.Errorf("it took %v to end", took)
	}
	if code := cmd.ProcessState.ExitCode(); code != exitFailed {
		t.Errorf("exit code %d, want %d", code, exitFailed)
	}
	for _, pid := range pids {
		if running(pid) {
			t.Errorf("process %s is left behind", pid)
		}
	}
	dir := strings.TrimPrefix(cmd.Env[len(cmd.Env)-1], "TMPDIR=")
	if left, _ := filepath.Glob(dir + "/*"); len(left) > 0 {
		t.Errorf("files are left behind: %v", left)
	}
}

// running reports whether a process is running. A zombie does not count.
func running(pid string) bool {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

func TestLimitOfOpenFilesIsSaid(t *testing.T) {
	cmd, stdout, stderr := program(t)
	cmd.Args = append([]string{"sh", "-c", `ulimit -n 300; exec "$0"`}, cmd.Args...)
	cmd.Path = "/bin/sh"
	_ = cmd.Run() // the exit code is checked below
	if code := cmd.ProcessState.ExitCode(); code != exitFailed || stdout.Len() > 0 {
		t.Errorf("exit code %d, stdout %q", code, stdout)
	}
	for _, want := range []string{"5000 requests at once need 5500 open files", "the limit is 300", "ulimit -n 5500"} {
		if !strings.Contains(stderr.String(), want) {
			t.Errorf("%q is not in %q", want, stderr)
		}
	}
}
