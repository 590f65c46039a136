//go:build system

// Package load tests the scripts that let other load generators buy from a shop.
package load_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"oversell/internal/backend/backendtest"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// tools maps each supported load generator to whether CI must have it: .ci/run does not install k6.
var tools = map[string]bool{"wrk": true, "vegeta": true, "k6": false}

// need skips the test if the tool is missing. In CI, it fails the test if CI must have the tool.
func need(t *testing.T, tool string) {
	t.Helper()
	if _, err := exec.LookPath(tool); err == nil {
		return
	}
	out, err := exec.CommandContext(t.Context(), "./run", tool).CombinedOutput()
	if os.Getenv("CI") == "true" && tools[tool] {
		t.Fatalf("%v: %s", err, out)
	}
	t.Skipf("%s", out)
}

// run runs the script, and returns its exit code and output.
func run(t *testing.T, env []string, args ...string) (code int, out string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "./run", args...)
	cmd.Env = append(os.Environ(), env...)
	text, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(text)
}

// With each tool, a load sells exactly the stock. It fails if the item has orders that were not
// reported to the tool.
func TestLoadFailsOnTheBooks(t *testing.T) {
	dir := t.TempDir()
	env := []string{
		"BENCH=" + backendtest.Build(t, dir, "../bench"), "TOKEN=sesame",
		"CONNECTIONS=10", "RATE=200", "SECONDS_LONG=2",
	}
	program := backendtest.Build(t, dir, "../cmd/shop")
	for tool := range tools {
		t.Run(tool, func(t *testing.T) {
			t.Parallel()
			need(t, tool)
			url := backendtest.OpenShop(t, program, "-token", "sesame")
			with := func(more ...string) []string { return append(slices.Clone(env), more...) }
			code, out := run(t, with("STRATEGY=v9_cohort", "STOCK=50"), tool, url)
			if code != 0 || !strings.Contains(out, "the books agree") {
				t.Errorf("v9_cohort: exit code %d, want 0:\n%s", code, out)
			}
			code, out = run(t, with("STRATEGY=sql_conditional", "STOCK=50"), tool, url)
			if code != 0 || !strings.Contains(out, "the books agree") {
				t.Errorf("sql_conditional: exit code %d, want 0:\n%s", code, out)
			}
			stop := buyBeside(t, url)
			code, out = run(t, with("STRATEGY=lua_atomic", "STOCK=1000000"), tool, url)
			stop()
			if code != 1 || !strings.Contains(out, "unreported: ") {
				t.Errorf("beside another buyer: exit code %d, want 1:\n%s", code, out)
			}
			code, out = run(t, with("TOKEN=wrong"), tool, url)
			if code != 2 || !strings.Contains(out, "token") || strings.Contains(out, "wrong") {
				t.Errorf("a wrong token: exit code %d, want 2, and a reason:\n%s", code, out)
			}
		})
	}
}

// buyBeside keeps buying the item until stop is called.
func buyBeside(t *testing.T, url string) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var buyer sync.WaitGroup
	buyer.Go(func() {
		for ctx.Err() == nil {
			deduct := url + "/api/items/load/deduct?strategy=lua_atomic"
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, deduct, strings.NewReader(`{"quantity":1}`))
			if err != nil {
				t.Error(err)
				return
			}
			if res, err := http.DefaultClient.Do(req); err == nil {
				_ = res.Body.Close()
			}
		}
	})
	return func() { cancel(); buyer.Wait() }
}

// The script refuses arguments that it does not understand before it sends any request to the shop.
func TestRunRefuses(t *testing.T) {
	const noTool, noURL = "it must be wrk, vegeta or k6", "is not the URL of a shop"
	for _, test := range []struct {
		env, says string
		args      []string
	}{
		{"", noTool, nil},
		{"", noTool, []string{"ab"}},
		{"", noTool, []string{"wrk; true"}},
		{"", noURL, []string{"wrk", "127.0.0.1:8080"}},
		{"", noURL, []string{"wrk", "http://127.0.0.1:8080/api/items/hot"}},
		{"", "3 arguments given", []string{"wrk", "http://127.0.0.1:8080", "hot"}},
		{"CONNECTIONS=0", "CONNECTIONS is \"0\"; it must be a whole number from 1", []string{"wrk"}},
		{"RATE=1.5", "RATE is \"1.5\"; it must be a whole number", []string{"vegeta"}},
		{"RATE=500/1s", "RATE is", []string{"vegeta"}},
		{"SECONDS_LONG=5s", "SECONDS_LONG is", []string{"k6"}},
		{"SECONDS_LONG=08", "SECONDS_LONG is", []string{"k6"}},
		{"STOCK=-1", "STOCK is", []string{"wrk"}},
		{"STOCK=1000000001", "STOCK is", []string{"wrk"}},
		{"STOCK=99999999999999999999", "STOCK is", []string{"wrk"}},
		{"SKU=a/b", "SKU is", []string{"wrk"}},
		{`STRATEGY=v9","stock":9`, "STRATEGY is", []string{"wrk"}},
		{"KEEPER=holds", "KEEPER is \"holds\"; it must be redis or database", []string{"wrk"}},
	} {
		code, out := run(t, []string{test.env}, test.args...)
		if code != 2 || !strings.Contains(out, test.says) || strings.Count(out, "\n") != 1 {
			t.Errorf("%+v: exit code %d, want 2 and one line:\n%s", test, code, out)
		}
	}
	code, out := run(t, []string{"STRATEGY=sql_units", "KEEPER=redis"}, "wrk")
	if code != 2 || !strings.Contains(out, "sells from the database") {
		t.Errorf("a stock in Redis for sql_units: exit code %d, want 2: %s", code, out)
	}
	if code, out := run(t, nil, "-h"); code != 0 || !strings.Contains(out, "Example") {
		t.Errorf("-h: exit code %d: %s", code, out)
	}
}

// withFakes returns an environment in which wrk is the given shell script, the bench always reports
// that the books agree, and temporary files are in a separate folder.
func withFakes(t *testing.T, wrk string) (env []string, tmp string) {
	t.Helper()
	dir, tmp := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{"wrk": wrk, "bench": "exit 0"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return []string{
		"PATH=" + dir + string(os.PathListSeparator) + os.Getenv("PATH"),
		"BENCH=" + filepath.Join(dir, "bench"), "TMPDIR=" + tmp,
	}, tmp
}

// The script puts the stock where the strategy sells from, unless KEEPER names another place, and
// sends the token to the shop.
func TestRunPutsTheItemOnSale(t *testing.T) {
	var mu sync.Mutex
	var body, token string
	shop := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		body, token = string(text), r.Header.Get("Authorization")
	}))
	defer shop.Close()
	fakes, _ := withFakes(t, "exit 0")
	for _, test := range []struct {
		env         []string
		body, token string
	}{
		{nil, `{"stock":1000}`, ""},
		{[]string{"STOCK=7", "TOKEN=sesame \\\"open\\\""}, `{"stock":7}`, `Bearer sesame \"open\"`},
		{[]string{"STRATEGY=lua_batch"}, `{"stock":1000,"strategy":"lua_batch"}`, ""},
		{[]string{"STRATEGY=sql_units"}, `{"stock":1000,"keeper":"database","strategy":"sql_units"}`, ""},
		{
			[]string{"STRATEGY=v9_cohort", "KEEPER=database"},
			`{"stock":1000,"keeper":"database","strategy":"v9_cohort"}`, "",
		},
		{[]string{"KEEPER=redis"}, `{"stock":1000,"keeper":"redis"}`, ""},
	} {
		code, out := run(t, append(slices.Clone(fakes), test.env...), "wrk", shop.URL)
		mu.Lock()
		if code != 0 || body != test.body || token != test.token {
			t.Errorf("%+v: exit code %d, the shop got %s and the token %q\n%s", test, code, body, token, out)
		}
		mu.Unlock()
	}
}

// Only the user can read the temporary files, one of which contains the token. They are removed
// even if the script is stopped.
func TestRunKeepsTheTokenToItself(t *testing.T) {
	shop := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer shop.Close()
	const look = `ls -lR "$TMPDIR"; grep -rl sesame "$TMPDIR"; `
	for name, test := range map[string]struct {
		wrk  string
		code int
	}{
		"the end":   {look + "exit 0", 0},
		"a failure": {look + "exit 1", 2},
		"a signal":  {look + "kill -TERM $PPID", -1},
	} {
		env, tmp := withFakes(t, test.wrk)
		code, out := run(t, append(env, "TOKEN=sesame"), "wrk", shop.URL)
		if code != test.code {
			t.Errorf("%s: exit code %d, want %d", name, code, test.code)
		}
		if !regexp.MustCompile(`(?m)^total.*\ndrwx------.*`).MatchString(out) || strings.Count(out, tmp+"/") < 2 {
			t.Errorf("%s: want one folder that only its owner can open, and in it the token:\n%s", name, out)
		}
		if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
			t.Errorf("%s: left in the folder of temporary files: %v, %v", name, left, err)
		}
	}
}
