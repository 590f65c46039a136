//go:build unix

package backendtest

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"oversell/internal/backend/local"
)

// Stop halts the server, like a machine that hangs: its port still accepts
// connections, but nothing answers.
func (r *LocalRedis) Stop() error { return stop(r.Server) }

// Cont resumes a stopped server.
func (r *LocalRedis) Cont() error { return r.Signal(syscall.SIGCONT) }

// Stop halts the server, like a machine that hangs: its port still accepts
// connections, but nothing answers.
func (d *LocalDatabase) Stop() error { return stop(d.Server) }

// Cont resumes a stopped server.
func (d *LocalDatabase) Cont() error { return d.Signal(syscall.SIGCONT) }

// stop sends the signal and, on systems with /proc, waits until all threads
// have stopped: one that is still running might answer.
func stop(s *local.Server) error {
	if err := s.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	for range 1000 {
		if halted(s.Pid()) {
			return nil
		}
		time.Sleep(time.Millisecond)
	}
	return fmt.Errorf("process %d goes on after SIGSTOP", s.Pid())
}

// halted reports whether all threads of a process are stopped, as far as /proc
// shows.
func halted(pid int) bool {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	for _, thread := range threads {
		stat, err := os.ReadFile(thread)
		if err == nil && !bytes.Contains(stat, []byte(") T ")) {
			return false
		}
	}
	return true
}
