//go:build unix

package main

import (
	"bufio"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A shop with a low limit on open files gets many more clients than it can have. It goes on
// running, sells to those that buy, and ends normally.
func TestShopWithFewFilesOutlivesItsClients(t *testing.T) {
	const files, clients = 256, 600
	cmd := exec.CommandContext(t.Context(), "sh", "-c", `ulimit -n "$1" && exec "$2" -addr 127.0.0.1:0`, "sh", strconv.Itoa(files), os.Args[0])
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
	for range clients {
		c, err := net.DialTimeout("tcp", strings.TrimPrefix(url, "http://"), 10*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 30 * time.Second}
	for range 3 {
		res, err := client.Post(url+"/api/items/hot/deduct", "application/json", strings.NewReader(`{"quantity":1}`))
		if err != nil {
			t.Fatalf("beside %d silent connections, with %d files: %v", clients, files, err)
		}
		_ = res.Body.Close()
		if res.StatusCode != http.StatusOK {
			t.Errorf("a buyer got %s", res.Status)
		}
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the shop ended with %v", err)
	}
}
