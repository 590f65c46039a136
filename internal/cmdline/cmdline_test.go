package cmdline

import (
	"os"
	"testing"
)

// A pseudo-terminal gets colours as a terminal does.
func TestColourIsForTerminalsThatWantIt(t *testing.T) {
	pty, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip(err)
	}
	defer pty.Close()
	for noColour, want := range map[string]bool{"": true, "1": false} {
		t.Setenv("NO_COLOR", noColour)
		if Coloured(pty) != want {
			t.Errorf("NO_COLOR=%s: colour %v", noColour, !want)
		}
	}
}
