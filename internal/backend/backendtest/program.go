package backendtest

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
)

// Build builds a program of the project in a folder, and returns the program's path.
func Build(t testing.TB, dir, pkg string) string {
	t.Helper()
	program := filepath.Join(dir, filepath.Base(pkg))
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, pkg).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return program
}

var address = regexp.MustCompile(`http://127\.0\.0\.1:[0-9]+`)

// OpenShop starts the program of a shop with everything embedded, on a free port, and returns the
// shop's URL. The shop ends with the test.
func OpenShop(t testing.TB, program string, args ...string) (url string) {
	t.Helper()
	shop := exec.Command(program, append([]string{"-addr", "127.0.0.1:0"}, args...)...)
	out, err := shop.StdoutPipe()
	if err == nil {
		err = shop.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := shop.Process.Signal(os.Interrupt); err != nil {
			t.Error(err)
		}
		if err := shop.Wait(); err != nil {
			t.Error(err)
		}
	})
	for lines := bufio.NewScanner(out); url == "" && lines.Scan(); {
		url = address.FindString(lines.Text())
	}
	if url == "" {
		t.Fatal("the shop did not say where it listens")
	}
	return url // what the shop says after that fits into the pipe
}
