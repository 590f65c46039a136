package fleet_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"oversell/internal/fleet"
)

func TestStartSaysWhatCannotBeRun(t *testing.T) {
	_, err := fleet.Start(exec.Command(filepath.Join(t.TempDir(), "no-such-program")))
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v, want %v", err, os.ErrNotExist)
	}
}

func TestKillWaitsForTheEnd(t *testing.T) {
	p, _ := start(t, "stubborn")
	p.Kill()
	select {
	case <-p.Done():
	default:
		t.Fatal("Kill returns while the child runs")
	}
	if p.State().Success() {
		t.Error("a killed child has ended well")
	}
	p.Kill() // calling it again does no harm
	if err := p.Signal(os.Kill); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("a signal to a child that has ended: %v, want %v", err, os.ErrProcessDone)
	}
}
