package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9/logging"

	"oversell/internal/backend/backendtest"
	"oversell/internal/bench/report/pagetest"
	"oversell/internal/holds"
	"oversell/internal/shop"
	"oversell/internal/stock"
	"oversell/internal/stock/stream"
	"oversell/internal/web"
)

func TestMain(m *testing.M) {
	logging.Disable()
	debug.SetGCPercent(400)              // the lab allocates a lot and keeps little
	for _, entry := range os.Environ() { // the user's own settings must not affect the tests
		if name, _, _ := strings.Cut(entry, "="); strings.HasPrefix(name, envPrefix+"_") {
			_ = os.Unsetenv(name)
		}
	}
	if os.Getenv(asProgram) != "" {
		if kept := os.Getenv(keptMatrix); kept != "" && len(os.Args) == 2 && os.Args[1] == matrixArg {
			os.Exit(matrixOnce(kept))
		}
		main()
	}
	done, err := prepare()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(backendtest.Main(m, pagetest.Close, done))
}

// must ends the test if err is not nil.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// prepare makes the tests share one run of the lab, until done is called.
func prepare() (done func() error, err error) {
	dir, err := os.MkdirTemp("", "shop-test-")
	if err != nil {
		return nil, err
	}
	// A shop starts child processes from its own binary.
	err = errors.Join(os.Setenv(asProgram, "1"), os.Setenv(keptMatrix, filepath.Join(dir, "matrix")))
	return func() error {
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
		return os.RemoveAll(dir)
	}, err
}

// keptMatrix is an environment variable that names a file. If the file exists, it contains the
// output of a finished run of the lab.
const keptMatrix = "SHOP_TEST_MATRIX"

// matrixOnce is like matrix, but prints the file if it exists: the lab takes seconds of processor
// time, and many tests need only its result.
func matrixOnce(kept string) int {
	text, err := os.ReadFile(kept)
	if err != nil {
		return matrix(context.Background(), os.Stdout, os.Stderr)
	}
	if _, err := os.Stdout.Write(text); err != nil {
		return complain(os.Stderr, exitUnable, err)
	}
	return exitOK
}

// If the environment variable asProgram is set, the test binary runs the program.
const asProgram = "SHOP_TEST_AS_PROGRAM"

// outcome contains the exit code and the output of a program.
type outcome struct {
	code           int
	stdout, stderr string
}

// try runs the program until it ends.
func try(ctx context.Context, args ...string) outcome {
	var stdout, stderr bytes.Buffer
	code := run(ctx, args, &stdout, &stderr)
	return outcome{code, stdout.String(), stderr.String()}
}

// wantOneLine checks that a program could not run, and that it reported the reason in one line.
func wantOneLine(t *testing.T, got outcome, want string) {
	t.Helper()
	text := got.stderr
	if got.code != exitUnable || got.stdout != "" {
		t.Errorf("exit code %d and %q on stdout, want %d and nothing", got.code, got.stdout, exitUnable)
	}
	if strings.Count(text, "\n") != 1 || !strings.HasPrefix(text, "shop: ") || !strings.Contains(text, want) {
		t.Errorf("stderr %q, want one line with %q", text, want)
	}
	if strings.Contains(text, ":secret") {
		t.Errorf("stderr tells the password: %q", text)
	}
}

func TestWhatIsWrongIsSaidInOneLine(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	must(t, os.WriteFile(secret, []byte("the secret of this test"), 0o600))
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"-nonsense"}, "-nonsense"},
		{[]string{"hot"}, `"hot" is not a flag`},
		{[]string{"-strategy", "zebra"}, "v6_watchdog"},
		{[]string{"-strategies", "none"}, "did you mean -strategy?"},
		{[]string{"-ttl", "5"}, "write 5s"},
		{[]string{"-addr", "8080"}, "write :8080"},
		{[]string{"-addr", "localhost"}, "must be HOST:PORT"},
		{[]string{"-redis", "127.0.0.1:1"}, "unreachable"},
		{[]string{"-strategy", "sql_for_update"}, "needs MySQL or MariaDB"},
		{[]string{"-strategy", "sql_units"}, "needs MySQL or MariaDB"},
		{[]string{"-strategy", "sql_get_lock", "-db", "sqlite:x"}, "needs MySQL or MariaDB"},
		{[]string{"-ttl", "soon"}, "-ttl"},
		{[]string{"-ttl", "0s"}, "-ttl"},
		{[]string{"-ttl", "-1s"}, "-ttl"},
		{[]string{"-ttl", "999us"}, "-ttl"},
		{[]string{"-wait", "0s"}, "-wait"},
		{[]string{"-reconcile", "-1s"}, "-reconcile"}, {[]string{"-reconcile", "5ms"}, "-reconcile"},
		{[]string{"-retry", "spin"}, "line:DELAY"},
		{[]string{"-log", "xml"}, "-log"},
		{[]string{"-otlp", "127.0.0.1:4318"}, "-otlp must be the URL"},
		{
			[]string{"-worker", "-otlp", "http://127.0.0.1:1", "-redis", "redis://127.0.0.1:1", "-db", "sqlite:x"},
			"no -otlp",
		},
		{
			[]string{"-worker", "-addr", "127.0.0.1:0", "-redis", "redis://127.0.0.1:1", "-db", "sqlite:x"},
			"no -addr",
		},
		{[]string{"-hosts", "*.example"}, "-hosts"},
		{[]string{"-hold-ttl", "999ms"}, "-hold-ttl"},
		{[]string{"-hold-max", "5s", "-hold-ttl", "20s"}, "at least -hold-ttl"},
		{[]string{"-hold-limit", "-1"}, "-hold-limit"},
		{[]string{"-provider", "http://127.0.0.1:1"}, "-webhook-secret-file"},
		{[]string{"-provider", "nowhere", "-webhook-secret-file", "/no-such-file"}, "-webhook-secret-file: "},
		{[]string{"-webhook-secret-file", "x"}, "-webhook-secret-file"},
		{[]string{"-provider", "none", "-webhook-secret-file", "x"}, "-webhook-secret-file is only for"},
		{[]string{"-provider-name", "pay"}, "-provider-name is for -provider URL"},
		{
			[]string{"-provider", "http://127.0.0.1:1", "-webhook-secret-file", secret, "-provider-name", "process:1"},
			"begins with process:",
		},
		{[]string{"-redis", "nowhere"}, "-redis"},
		{[]string{"-redis", "redis://:secret@127.0.0.1:1"}, "127.0.0.1:1"},
		{[]string{"-db", "nowhere"}, "-db"},
		{[]string{"-db", "u:secret@tcp(127.0.0.1:1)/d"}, "127.0.0.1:1"},
		{[]string{"-addr", "127.0.0.1:99999"}, "99999"},
	} {
		t.Run(strings.Join(tt.args, " "), func(t *testing.T) {
			got := try(t.Context(), append([]string{"-log", "text"}, tt.args...)...)
			got.stderr = logLines.ReplaceAllString(got.stderr, "")
			wantOneLine(t, got, tt.want)
		})
	}
}

// logLines matches the lines of the log.
var logLines = regexp.MustCompile(`(?m)^time=.*\n`)

func TestEnvironmentIsTheDefaultOfAFlag(t *testing.T) {
	t.Setenv("OVERSELL_STRATEGY", "watch")
	t.Setenv("OVERSELL_REDIS", "redis://a:1")
	t.Setenv("OVERSELL_DB", "u@tcp(b:2)/d")
	t.Setenv("OVERSELL_TOKEN", "sesame")
	t.Setenv("OVERSELL_ADDR", "127.0.0.1:0")
	t.Setenv("OVERSELL_HOSTS", "shop.example")
	t.Setenv("OVERSELL_TTL", "7s")
	t.Setenv("OVERSELL_RETRY", "fixed:20ms")
	t.Setenv("OVERSELL_RECONCILE", "9s")
	t.Setenv("OVERSELL_WAIT", "")
	t.Setenv("OVERSELL_HOLD_LIMIT", "3")
	o, err := parse([]string{"-strategy", "v1_setnx"})
	must(t, err)
	want := options{
		hosts: "shop.example", redis: "redis://a:1", db: "u@tcp(b:2)/d", log: "text", consume: true,
		Config: shop.Config{
			Web:   web.Config{Addr: "127.0.0.1:0", Token: "sesame"},
			Stock: stock.Config{Wait: 10 * time.Second},
			Holds: holds.Config{TTL: 10 * time.Minute, Settle: 30 * time.Second, Limit: 3},
			TTL:   7 * time.Second, Reconcile: 9 * time.Second, Policy: o.Policy,
			Strategy: "v1_setnx", Provider: "embedded",
			Stream: stock.Stream{Backlog: 100_000}, Consumer: stream.Consumer{ClaimAfter: 3 * time.Second},
		},
	}
	if !reflect.DeepEqual(o, want) || o.Policy.String() != "fixed:20ms" {
		t.Errorf("got %+v, want %+v", o, want)
	}
	t.Setenv("OVERSELL_TTL", "soon")
	wantOneLine(t, try(t.Context()), "OVERSELL_TTL")
}

func TestHelpShowsExamplesFlagsAndStrategies(t *testing.T) {
	t.Setenv("OVERSELL_TOKEN", "secret-of-mine")
	for _, flag := range []string{"-h", "-help", "-h all"} {
		got := try(t.Context(), strings.Fields(flag)...)
		if got.code != exitOK || got.stderr != "" {
			t.Errorf("%s: exit code %d, stderr %q", flag, got.code, got.stderr)
		}
		for _, part := range []string{
			"shop -redis local -db local", "-strategy STRATEGY", "OVERSELL_ADDR", "v6_watchdog",
		} {
			if !strings.Contains(got.stdout, part) {
				t.Errorf("%s shows no %q:\n%s", flag, part, got.stdout)
			}
		}
		if strings.Contains(got.stdout, "secret-of-mine") {
			t.Errorf("%s shows the token", flag)
		}
	}
	if err := helpText.Check(flags(new(options), new(string))); err != nil {
		t.Error(err)
	}
}

// program is a running shop.
type program struct {
	addr           string
	stop           context.CancelFunc
	code           chan int
	stdout, stderr backendtest.Output
}

var hostPort = regexp.MustCompile(`^[^/\s]+:[0-9]+`)

// start runs the shop with everything embedded, on a free port.
func start(t *testing.T, args ...string) *program {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	p := &program{stop: cancel, code: make(chan int, 1)}
	go func() { p.code <- run(ctx, append([]string{"-addr", "127.0.0.1:0"}, args...), &p.stdout, &p.stderr) }()
	t.Cleanup(cancel)
	for p.addr == "" {
		select {
		case code := <-p.code:
			t.Fatalf("exit code %d, stderr %s", code, &p.stderr)
		case <-time.After(5 * time.Millisecond):
		}
		if _, rest, found := strings.Cut(p.stdout.String(), "http://"); found {
			p.addr = hostPort.FindString(rest)
		}
	}
	return p
}

func TestShopOpensSellsAndCloses(t *testing.T) {
	p := start(t, "-token", "sesame", "-log", "json")
	p.buy(t, "")
	if got := try(t.Context(), "-check", "-addr", p.addr); got.code != exitOK {
		t.Errorf("-check: %+v", got)
	}
	p.end(t)
	for _, part := range []string{`"redis":"miniredis`, `"database":"SQLite`, p.addr} {
		if !strings.Contains(p.stderr.String(), part) {
			t.Errorf("the log has no %s:\n%s", part, &p.stderr)
		}
	}
	if strings.Contains(p.stderr.String(), "sesame") {
		t.Errorf("the log tells the token:\n%s", &p.stderr)
	}
	if got := try(t.Context(), "-check", "-addr", p.addr); got.code != exitFailed {
		t.Errorf("-check of a closed shop: %+v, want exit code %d", got, exitFailed)
	}
}

// end stops a shop, which must exit without an error.
func (p *program) end(t *testing.T) {
	t.Helper()
	p.stop()
	if code := <-p.code; code != exitOK {
		t.Errorf("exit code %d, want %d: %s", code, exitOK, &p.stderr)
	}
}

// buy buys a unit with the strategy, or with the default strategy if it is "".
func (p *program) buy(t *testing.T, strategy string) {
	t.Helper()
	path := "/api/items/hot/deduct"
	if strategy != "" {
		path += "?strategy=" + strategy
	}
	if status := p.call(t, http.MethodPost, path, `{"quantity":1}`, new(any)); status != http.StatusOK {
		t.Errorf("a buyer got %d", status)
	}
}

// call sends a request to the shop, and reads the reply into v.
func (p *program) call(t *testing.T, method, path, body string, v any) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://"+p.addr+path, strings.NewReader(body))
	must(t, err)
	res, err := http.DefaultClient.Do(req)
	must(t, err)
	defer res.Body.Close()
	if err := json.NewDecoder(res.Body).Decode(v); err != nil {
		t.Fatalf("%s %s: %s: %v", method, path, res.Status, err)
	}
	return res.StatusCode
}

// A shop in a container listens on all addresses. Its health check passes, and it accepts only
// requests for this machine and for the names in -hosts.
func TestShopOnAllAddressesGoesByItsNames(t *testing.T) {
	p := start(t, "-addr", ":0", "-hosts", "shop.example")
	_, port, err := net.SplitHostPort(p.addr)
	if err != nil || p.addr != "localhost:"+port {
		t.Fatalf("the address that is printed is %s, %v", p.addr, err)
	}
	for host, want := range map[string]int{
		"127.0.0.1:" + port: http.StatusOK, "shop.example": http.StatusOK, "evil.example:" + port: http.StatusForbidden,
	} {
		req, err := http.NewRequest(http.MethodGet, "http://"+p.addr+"/api/items/hot", nil)
		must(t, err)
		req.Host = host
		res, err := http.DefaultClient.Do(req)
		must(t, err)
		res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("as %s: %s, want %d", host, res.Status, want)
		}
	}
	for _, at := range []string{p.addr, "0.0.0.0:" + port, ":" + port} {
		if got := try(t.Context(), "-check", "-addr", at); got.code != exitOK {
			t.Errorf("-check -addr %s: %+v", at, got)
		}
	}
	p.end(t)
}

// The teacher of a class gets a token. Without the token, a buyer can only buy one unit at a time
// with the chosen strategy, and cannot change anything else.
func TestShopForAClass(t *testing.T) {
	p := start(t, "-class", "-addr", "127.0.0.1:0")
	for _, want := range []string{"Phones: http://127.0.0.1:", "/#/shop/phone\n", "strategy: "} {
		if !strings.Contains(p.stdout.String(), want) {
			t.Errorf("the teacher is not told %q:\n%s", want, &p.stdout)
		}
	}
	for _, r := range []struct {
		method, path, body string
		want               int
	}{
		{"PUT", "/api/class", `{"work_ms":0}`, http.StatusUnauthorized},
		{"PUT", "/api/items/hot", `{"stock":99}`, http.StatusUnauthorized},
		{"POST", "/api/items/hot/deduct", `{"quantity":2}`, http.StatusForbidden},
		{"POST", "/api/items/hot/deduct?strategy=v9_cohort", `{"quantity":1}`, http.StatusForbidden},
		{"POST", "/api/items/hot/deduct", `{"quantity":1}`, http.StatusOK},
	} {
		if got := p.call(t, r.method, r.path, r.body, new(any)); got != r.want {
			t.Errorf("%s %s %s: %d, want %d", r.method, r.path, r.body, got, r.want)
		}
	}
	p.end(t)
}

// The request that the shop prints sells a unit, with each of these strategies as the default.
func TestFirstRequestSellsByEveryDefault(t *testing.T) {
	for _, strategy := range []string{"sql_conditional", "etcd"} {
		t.Run(strategy, func(t *testing.T) {
			if strategy == "etcd" {
				backendtest.System(t)
			}
			p := start(t, "-strategy", strategy)
			p.buy(t, "")
			p.end(t)
		})
	}
}

func TestToldToStopBeforeItIsReady(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got := try(ctx, "-addr", "127.0.0.1:0"); got.code != exitOK {
		t.Errorf("%+v; want exit code %d", got, exitOK)
	}
}
