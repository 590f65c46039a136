package local_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"oversell/internal/backend/backendtest"
	"oversell/internal/backend/local"
)

// TestServersDieWithAKilledProgram runs this test binary again as a program
// that starts servers, and kills it.
func TestServersDieWithAKilledProgram(t *testing.T) {
	backendtest.Need(t, "redis-server", "mariadbd")
	emptyTempDir(t)
	program := exec.Command(os.Args[0], "-test.run=^TestProgramWithServers$")
	program.Env = append(os.Environ(), "OVERSELL_TEST_PROGRAM=1")
	out, err := program.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	pids := readPids(t, bufio.NewScanner(out))
	// Long enough for idle threads that started a process to end.
	time.Sleep(50 * time.Millisecond)
	for _, pid := range pids {
		if !alive(pid) {
			t.Errorf("server %d died before its program", pid)
		}
	}
	if err := program.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = program.Wait() // it was killed
	for _, pid := range pids {
		for end := time.Now().Add(2 * time.Second); alive(pid); time.Sleep(5 * time.Millisecond) {
			if time.Now().After(end) {
				t.Errorf("server %d outlives its program", pid)
				break
			}
		}
	}
}

// TestProgramWithServers is not a test but the program of the test above.
func TestProgramWithServers(t *testing.T) {
	if os.Getenv("OVERSELL_TEST_PROGRAM") == "" {
		t.Skip("only a part of TestServersDieWithAKilledProgram")
	}
	r, err := local.StartRedis(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	d, err := local.StartDatabase(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println("pids", r.Pid(), d.Pid())
	time.Sleep(time.Minute)
}

func readPids(t *testing.T, lines *bufio.Scanner) (pids []int) {
	t.Helper()
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		if len(words) == 0 || words[0] != "pids" {
			continue
		}
		for _, word := range words[1:] {
			pid, err := strconv.Atoi(word)
			if err != nil {
				t.Fatal(err)
			}
			pids = append(pids, pid)
		}
		return pids
	}
	t.Fatal("the program ended without starting its servers")
	return nil
}

// alive reports whether a process runs. One that has ended, but that its new
// parent has not waited for yet, does not count.
func alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(stat), ") Z ")
}
