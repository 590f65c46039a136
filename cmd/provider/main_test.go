package main

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"oversell/internal/fleet"
	"oversell/internal/payment"
)

// asProvider makes this test binary run the program.
const asProvider = "be-the-provider"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == asProvider {
		os.Args = append(os.Args[:1], os.Args[2:]...)
		main()
	}
	os.Exit(m.Run())
}

const secret = "a secret of the tests"

func secretFile(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(name, []byte(secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// start runs the provider as a separate process, and returns a client for it.
func start(t *testing.T, args ...string) (*fleet.Process, *payment.Client) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	args = append([]string{asProvider, "-addr", "127.0.0.1:0", "-secret-file", secretFile(t)}, args...)
	cmd := exec.Command(self, args...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p, err := fleet.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	line, err := bufio.NewReader(out).ReadString('\n')
	_, address, ok := strings.Cut(strings.TrimSpace(line), " is at ")
	if err != nil || !ok {
		t.Fatalf("it said %q, %v", line, err)
	}
	c, err := payment.NewClient(payment.ClientConfig{URL: address, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return p, c
}

var request = payment.Request{Key: "a", Reference: "hold-1", Amount: 1250, Currency: "EUR"}

// The program authorises, captures, and sends webhooks that are signed with its secret. If it is
// killed, the next process with the same ledger still has the payment.
func TestProcessChargesAndTellsTheShop(t *testing.T) {
	events := make(chan payment.Event, 8)
	shop := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = payment.Verify([]byte(secret), r.Header.Get(payment.SignatureHeader), body, time.Now())
		}
		var e payment.Event
		if err == nil {
			e, err = payment.ParseEvent(body)
		}
		if err != nil {
			t.Errorf("a webhook: %v", err)
		}
		events <- e
	}))
	defer shop.Close()
	ledger := filepath.Join(t.TempDir(), "ledger")
	process, c := start(t, "-webhook", shop.URL, "-ledger", ledger)
	p, err := c.Authorise(t.Context(), request)
	if err == nil {
		p, err = c.Capture(t.Context(), p.ID, "c")
	}
	if err != nil || p.Status != payment.Captured {
		t.Fatalf("got %+v, %v", p, err)
	}
	for _, want := range []payment.EventType{payment.EventAuthorised, payment.EventCaptured} {
		if e := <-events; e.Type != want || e.Payment.ID != p.ID {
			t.Errorf("got %+v; want %s", e, want)
		}
	}
	process.Kill()
	_, next := start(t, "-ledger", ledger)
	if now, err := next.Payment(t.Context(), p.ID); err != nil || now != p {
		t.Errorf("after the kill it is %+v, %v; want %+v", now, err, p)
	}
}

// A setup that cannot work is reported in one line on standard error.
func TestWrongFlags(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	file := secretFile(t)
	for _, args := range [][]string{
		{}, {"-x"}, {"more"}, {"-secret-file", file + "x"}, {"-secret-file", empty},
		{"-secret-file", file, "-webhook", "localhost"}, {"-secret-file", file, "-addr", "nowhere"},
		{"-secret-file", file, "-ledger", filepath.Dir(file)}, {"-secret-file", file, "-ledger", file},
	} {
		var out, complaint bytes.Buffer
		code := run(t.Context(), args, &out, &complaint)
		text := complaint.String()
		if code != exitUnable || !strings.HasPrefix(text, "provider: ") || strings.Count(text, "\n") != 1 ||
			out.Len() > 0 {
			t.Errorf("%v: exit code %d, %q, %q", args, code, text, out.String())
		}
	}
}
