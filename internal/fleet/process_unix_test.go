//go:build unix

package fleet_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"
)

// Stop resumes a paused child, so that the child receives SIGTERM.
func TestStopReachesAPausedChild(t *testing.T) {
	p, _ := start(t, "echo")
	if err := p.Pause(); err != nil {
		t.Fatal(err)
	}
	p.Stop(time.Minute)
	if code := p.State().ExitCode(); code != 3 {
		t.Errorf("exit code %d, want the 3 of a child that was asked", code)
	}
}

func TestStopKillsAfterGrace(t *testing.T) {
	p, _ := start(t, "stubborn")
	p.Stop(10 * time.Millisecond)
	if status := p.State().Sys().(syscall.WaitStatus); status.Signal() != syscall.SIGKILL {
		t.Errorf("ended as %v, want killed", p.State())
	}
}

func TestNothingRunsBetweenPauseAndContinue(t *testing.T) {
	p, said := start(t, "echo")
	if err := p.Pause(); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(said, "are you there?")
	for silent := false; !silent; {
		select {
		case <-said.lines: // not every thread of the child has been stopped yet
			fmt.Fprintln(said, "are you there?")
		case <-time.After(50 * time.Millisecond):
			silent = true
		}
	}
	if err := p.Continue(); err != nil {
		t.Fatal(err)
	}
	if line := said.next(t); line != "are you there?" {
		t.Errorf("the child says %q", line)
	}
}

// A child has its own process group, so Ctrl-C in a terminal does not reach it.
func TestChildHasAGroupOfItsOwn(t *testing.T) {
	p, _ := start(t, "stubborn")
	if group, err := syscall.Getpgid(p.Pid()); err != nil || group != p.Pid() {
		t.Errorf("the child %d is in group %d, %v", p.Pid(), group, err)
	}
}
