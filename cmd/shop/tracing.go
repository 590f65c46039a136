package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"oversell/internal/fleet"
	"oversell/internal/shop"
)

const (
	// maxSpans is how many spans wait to be sent, of about 1 KB each. More are dropped: a
	// slow collector must not slow the sale. A deduct has about eight.
	maxSpans = 1 << 15
	// flushTime is how long a shop that ends goes on sending spans.
	flushTime = time.Second
	// tracesPath is where collectors take traces over HTTP.
	tracesPath = "/v1/traces"
)

// trace has the shop make spans of purchases if -otlp is set. The caller must call closing after
// the shop has ended.
func (o options) trace(ctx context.Context, cfg *shop.Config) (closing func(), err error) {
	if o.otlp == "" {
		return func() {}, nil
	}
	cfg.Instance = uuid.NewString()
	t, err := openTraces(ctx, o.otlp, cfg.Instance, cfg.Logger)
	if err != nil {
		return nil, err
	}
	cfg.Web.Tracer = t.tracer()
	return t.close, nil
}

// traces sends spans to a collector.
type traces struct {
	provider *sdktrace.TracerProvider
	log      *slog.Logger
}

// openTraces begins to send spans to the collector at address, see tracesURL. The sampler and
// the headers can be set by OpenTelemetry's environment variables. A collector that is away does
// not keep the shop from selling: that is logged.
func openTraces(ctx context.Context, address, instance string, log *slog.Logger) (*traces, error) {
	u, err := tracesURL(address)
	if err != nil {
		return nil, err
	}
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(u))
	if err != nil {
		return nil, fmt.Errorf("opening the exporter of traces: %w", err)
	}
	about, err := resource.Merge(resource.NewSchemaless(attribute.String("service.name", "oversell"),
		attribute.String("service.version", fleet.Version()),
		attribute.String("service.instance.id", instance)), resource.Environment())
	if err != nil {
		return nil, fmt.Errorf("describing the shop to the collector of traces: %w", err)
	}
	return &traces{log: log, provider: sdktrace.NewTracerProvider(sdktrace.WithResource(about),
		sdktrace.WithBatcher(&loggedExporter{SpanExporter: exporter, log: log},
			sdktrace.WithMaxQueueSize(maxSpans)))}, nil
}

// tracer returns what makes the spans. Its methods are safe for concurrent use.
func (t *traces) tracer() trace.Tracer { return t.provider.Tracer("oversell") }

// close sends the spans that wait, for as long as flushTime.
func (t *traces) close() {
	ctx, cancel := context.WithTimeout(context.Background(), flushTime)
	defer cancel()
	if err := t.provider.Shutdown(ctx); err != nil { // the sales are not worse for it
		t.log.Warn("the last traces are lost: the collector does not take them", "error", err)
	}
}

// tracesURL returns the URL to which spans are sent: that of a collector, with the usual path
// unless it has one.
func tracesURL(address string) (string, error) {
	u, err := url.Parse(address)
	switch {
	case err != nil, u.Scheme != "http" && u.Scheme != "https", u.Hostname() == "":
		return "", errors.New("must be the URL of a collector of OTLP over HTTP, as http://127.0.0.1:4318")
	case u.User != nil:
		return "", errors.New("must have no password: set OTEL_EXPORTER_OTLP_HEADERS instead")
	case u.RawQuery != "" || u.Fragment != "":
		return "", errors.New("must end with the path, as http://127.0.0.1:4318" + tracesPath)
	case u.Path == "" || u.Path == "/":
		u.Path = tracesPath
	}
	return u.String(), nil
}

// loggedExporter logs when spans begin to be lost, and when they are sent again.
type loggedExporter struct {
	sdktrace.SpanExporter
	log  *slog.Logger
	away atomic.Bool
}

// ExportSpans sends spans. An error is logged and not returned: the package would print it.
func (e *loggedExporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := e.SpanExporter.ExportSpans(ctx, spans)
	switch failed := err != nil; {
	case e.away.Swap(failed) == failed:
	case failed:
		e.log.Warn("traces are lost: the collector does not take them", "error", err)
	default:
		e.log.Info("the collector takes traces again")
	}
	return nil
}
