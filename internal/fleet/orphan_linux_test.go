package fleet_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// When a parent is killed, the kernel kills its child.
func TestChildDiesWithAKilledParent(t *testing.T) {
	parent, said := start(t, "parent")
	pid, err := strconv.Atoi(said.next(t))
	if err != nil {
		t.Fatal(err)
	}
	// Give idle threads time to end. The kernel kills a child when the thread that started it ends, even if
	// the process goes on.
	time.Sleep(50 * time.Millisecond)
	if !alive(pid) {
		t.Fatal("the child died before its parent")
	}
	parent.Kill()
	for end := time.Now().Add(time.Minute); alive(pid); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the child outlives its parent")
		}
	}
}

// alive reports whether a process is running. A zombie does not count.
func alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(stat), ") Z ")
}
