package fleet_test

import (
	"errors"
	"os"
	"testing"
)

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
	p.Kill() // a second call does no harm
	if err := p.Signal(os.Kill); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("a signal to a child that has ended: %v, want %v", err, os.ErrProcessDone)
	}
}
