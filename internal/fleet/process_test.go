package fleet_test

import (
	"errors"
	"os"
	"os/exec"
	"testing"
	"time"

	"oversell/internal/fleet"
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

// All that a process has written is read, even if the process ends in the meantime.
func TestLastWordsAreHeard(t *testing.T) {
	talkative := func() (*exec.Cmd, error) { return command("talkative"), nil }
	f := fleet.New(func(int) (fleet.Program, error) {
		return fleet.Program{Name: "talkative", Command: talkative}, nil
	})
	m, err := f.Add(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	f.Stop(time.Minute)
	for end := time.Now().Add(10 * time.Second); m.Stalls.Get() != 2; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the longest stall is %d, want 2", m.Stalls.Get())
		}
	}
}
