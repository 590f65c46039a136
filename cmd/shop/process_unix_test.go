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
)

// startProcess runs the program as a process with this limit of open files, and returns its URL.
func startProcess(t *testing.T, files int) (cmd *exec.Cmd, url string) {
	t.Helper()
	const limited = `ulimit -n "$1" && exec "$2" -addr 127.0.0.1:0`
	cmd = exec.CommandContext(t.Context(), "sh", "-c", limited, "sh", strconv.Itoa(files), os.Args[0])
	stdout, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	line, err := bufio.NewReader(stdout).ReadString('\n')
	must(t, err)
	_, url, _ = strings.Cut(line, "open at ")
	url, _, _ = strings.Cut(url, ". ")
	return cmd, url
}

// The program starts, sells, and exits without an error after a signal. With a low limit of open
// files, it still sells beside many more connections than it can serve.
func TestProgramSellsUntilItIsSignalled(t *testing.T) {
	for signal, limit := range map[syscall.Signal]struct{ files, clients int }{
		syscall.SIGINT: {1024, 0}, syscall.SIGTERM: {256, 600},
	} {
		t.Run(signal.String(), func(t *testing.T) {
			cmd, url := startProcess(t, limit.files)
			for range limit.clients {
				c, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
				must(t, err)
				defer c.Close()
			}
			client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
			for range 3 {
				res, err := client.Post(url+"/api/items/hot/deduct", "application/json",
					strings.NewReader(`{"quantity":1}`))
				if err != nil {
					t.Fatalf("beside %d silent connections, with %d files: %v", limit.clients, limit.files, err)
				}
				_ = res.Body.Close()
				if res.StatusCode != http.StatusOK {
					t.Errorf("a buyer got %s", res.Status)
				}
			}
			must(t, cmd.Process.Signal(signal))
			if err := cmd.Wait(); err != nil {
				t.Errorf("the shop ended with %v, want exit code 0", err)
			}
		})
	}
}
