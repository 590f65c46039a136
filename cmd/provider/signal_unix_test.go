//go:build unix

package main

import (
	"syscall"
	"testing"
)

// SIGTERM ends the provider with exit code 0.
func TestTermEndsTheProcess(t *testing.T) {
	p, c := start(t)
	if _, err := c.Authorise(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	if err := p.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-p.Done()
	if code := p.State().ExitCode(); code != exitOK {
		t.Errorf("it exited with %d", code)
	}
}
