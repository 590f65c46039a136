//go:build unix

package runs

import (
	"errors"
	"syscall"
	"testing"
)

// All offered settings can be run, even with a low limit on open files.
func TestNoMoreIsOfferedThanFilesAllow(t *testing.T) {
	var limit syscall.Rlimit
	must(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit))
	few := limit
	few.Cur = 4000
	if limit.Cur < few.Cur {
		t.Skipf("only %d files may be open", limit.Cur)
	}
	must(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &few))
	defer func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
			t.Error(err)
		}
	}()
	m := pretending(t)
	offered := m.Options()
	most := offered.Limits.Requests.Max
	if most < offered.Limits.Requests.Min || most >= int64(few.Cur) || int64(offered.Defaults.Requests) > most {
		t.Fatalf("with %d files, up to %d are offered, and %d by default", few.Cur, most, offered.Defaults.Requests)
	}
	s := long(m)
	s.Instances, s.Conditions = int(offered.Limits.Instances.Max), nil
	for _, c := range offered.Conditions {
		s.Conditions = append(s.Conditions, c.Name)
	}
	s.Requests = int(most) + 1
	if _, err := m.Start(s); !errors.Is(err, ErrSettings) {
		t.Errorf("one more than what is offered: %v", err)
	}
	s.Requests--
	start(t, m, s) // closing the manager stops the run
}
