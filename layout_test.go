package oversell_test

import (
	"os/exec"
	"strings"
	"testing"
)

// list runs go list, and returns the lines of its output.
func list(t *testing.T, arguments ...string) []string {
	t.Helper()
	out, err := exec.Command("go", append([]string{"list"}, arguments...)...).Output()
	if err != nil {
		t.Fatalf("go list %v: %v", arguments, err)
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n")
}

// The packages of the sale and the cache know guards but no lock, and do not depend on the client
// of a lock server. The HTTP package does not know any lock either: the shop passes it the errors
// of locks.
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

// A stage of holds can be copied into another project: of this one it imports only the package of the
// types.
func TestStagesOfHoldsImportOnlyTheTypes(t *testing.T) {
	for _, imported := range list(t, "-f", "{{join .Imports \"\\n\"}}", "./internal/holds/h1_counter",
		"./internal/holds/h2_status", "./internal/holds/h3_claim") {
		if strings.HasPrefix(imported, "oversell/") && imported != "oversell/internal/holds" {
			t.Errorf("a stage of holds imports %s", imported)
		}
	}
}
