package oversell_test

import (
	"os/exec"
	"strings"
	"testing"
)

// list returns the lines of go list.
func list(t *testing.T, arguments ...string) []string {
	t.Helper()
	out, err := exec.Command("go", append([]string{"list"}, arguments...)...).Output()
	if err != nil {
		t.Fatalf("go list %v: %v", arguments, err)
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n")
}

// The domain knows guards and no lock, and depends on no client of one. HTTP knows no
// lock either: the shop tells it their errors.
func TestDomainAndHTTPKnowNoLock(t *testing.T) {
	for _, dep := range list(t, "-deps", "./internal/stock", "./internal/cache") {
		for _, name := range []string{
			"oversell/internal/locks", "oversell/internal/backend", "etcd", "zookeeper", "go-zookeeper",
			"redsync", "redislock", "rueidis",
		} {
			if strings.Contains(dep, name) {
				t.Errorf("the domain depends on %s", dep)
			}
		}
	}
	for _, dep := range list(t, "-deps", "./internal/web") {
		if strings.HasPrefix(dep, "oversell/internal/locks") {
			t.Errorf("package web depends on %s", dep)
		}
	}
}
