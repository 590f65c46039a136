package main

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// listeners counts the TCP sockets on which a process listens.
func listeners(t *testing.T, pid int) int {
	t.Helper()
	listening := make(map[string]bool)
	for _, table := range []string{"tcp", "tcp6"} {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", pid, table))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if f := strings.Fields(line); len(f) > 9 && f[3] == "0A" { // its state is LISTEN
				listening["socket:["+f[9]+"]"] = true
			}
		}
	}
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, file := range files {
		if to, err := os.Readlink(file); err == nil && listening[to] {
			count++
		}
	}
	return count
}

// A plain shop runs only what it uses: itself and its Redis. The servers of other locks
// start with the first buyer that needs them.
func TestPlainShopStartsNoServersOfOtherLocks(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-addr", "127.0.0.1:0")
	cmd.Env = append(os.Environ(), "TMPDIR="+t.TempDir())
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	_, url, _ := strings.Cut(line, "open at ")
	url, _, _ = strings.Cut(url, ". ")

	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	offered, err := client.Get(url + "/api/strategies")
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(offered.Body)
	offered.Body.Close()
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		strategy string
		want     int // that listen then, the payment provider among them
	}{
		{"v6_watchdog", 3}, {"etcd", 5}, {"etcd", 5}, {"redlock", 10},
	} {
		if !strings.Contains(string(text), `"name":"`+step.strategy+`"`) {
			t.Errorf("%s is not offered", step.strategy)
		}
		sku := strings.ReplaceAll(step.strategy, "_", "-")
		put, err := http.NewRequest(http.MethodPut, url+"/api/items/"+sku, strings.NewReader(`{"stock":10}`))
		if err != nil {
			t.Fatal(err)
		}
		res, err := client.Do(put)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		res, err = client.Post(url+"/api/items/"+sku+"/deduct?strategy="+step.strategy, "application/json", strings.NewReader(`{"quantity":1}`))
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != http.StatusOK {
			t.Errorf("the first buyer by %s got %s", step.strategy, res.Status)
		}
		if got := listeners(t, cmd.Process.Pid); got != step.want {
			t.Errorf("after a sale by %s %d sockets listen, want %d", step.strategy, got, step.want)
		}
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the shop ended with %v", err)
	}
}
