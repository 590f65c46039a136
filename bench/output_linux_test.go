package main

import (
	"os"
	"testing"
)

// A pseudo-terminal is as good as one to look at.
func TestColourIsForTerminalsThatWantIt(t *testing.T) {
	pty, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip(err)
	}
	defer pty.Close()
	t.Setenv("NO_COLOR", "")
	if !coloured(pty) {
		t.Error("no colour on a terminal")
	}
	t.Setenv("NO_COLOR", "1")
	if coloured(pty) {
		t.Error("colour in spite of NO_COLOR")
	}
}
