package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"
)

// collected contains the spans that a collector in this process has received.
type collected struct {
	mu       sync.Mutex
	names    []string
	services []string
}

// openCollector starts a collector that receives traces by OTLP over HTTP.
func openCollector(t *testing.T) (*collected, string) {
	t.Helper()
	got := new(collected)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var req collector.ExportTraceServiceRequest
		if err == nil {
			err = proto.Unmarshal(body, &req)
		}
		if err != nil || r.URL.Path != "/v1/traces" {
			t.Errorf("%s: %v", r.URL, err)
			http.Error(w, "not spans", http.StatusBadRequest)
			return
		}
		got.add(&req)
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	t.Cleanup(server.Close)
	return got, server.URL
}

func (c *collected) add(req *collector.ExportTraceServiceRequest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range req.ResourceSpans {
		for _, a := range r.Resource.Attributes {
			if a.Key == "service.name" {
				c.services = append(c.services, a.Value.GetStringValue())
			}
		}
		for _, scope := range r.ScopeSpans {
			for _, span := range scope.Spans {
				c.names = append(c.names, span.Name)
			}
		}
	}
}

// The spans of a purchase reach the collector before the shop exits.
func TestTracesComeToACollector(t *testing.T) {
	got, url := openCollector(t)
	p := start(t, "-otlp", url)
	p.buy(t, "v8_fenced")
	p.end(t)
	for _, want := range []string{
		"POST /api/items/{sku}/deduct", "wait", "acquire", "read", "work", "write", "order", "release",
	} {
		if !slices.Contains(got.names, want) {
			t.Errorf("no span is called %q: %q", want, got.names)
		}
	}
	if !slices.Contains(got.services, "oversell") {
		t.Errorf("the spans are of %q", got.services)
	}
}

// A collector that hangs delays the exit of a shop by at most flushTime, and the log reports the
// lost spans.
func TestCollectorMayHang(t *testing.T) {
	hang := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hang }))
	defer server.Close()
	defer close(hang)
	p := start(t, "-otlp", server.URL)
	p.buy(t, "")
	p.end(t)
	if !strings.Contains(p.stderr.String(), "the last traces are lost") {
		t.Errorf("the log does not say it: %s", p.stderr.String())
	}
}

func TestTracesURL(t *testing.T) {
	for address, want := range map[string]string{
		"http://127.0.0.1:4318":             "http://127.0.0.1:4318/v1/traces",
		"http://127.0.0.1:4318/":            "http://127.0.0.1:4318/v1/traces",
		"https://collector.example/a/b":     "https://collector.example/a/b",
		"127.0.0.1:4318":                    "",
		"localhost:4318":                    "",
		"grpc://127.0.0.1:4317":             "",
		"http://":                           "",
		"http://user:secret@127.0.0.1:4318": "",
		"http://127.0.0.1:4318?key=secret":  "",
		"":                                  "",
	} {
		got, err := tracesURL(address)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v; want %q", address, got, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: the error tells the secret: %v", address, err)
		}
	}
}
