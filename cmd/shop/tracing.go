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

	"oversell/internal/fleet"
	"oversell/internal/shop"
)

const (
	// maxSpans is the maximum number of spans, of about 1 KB each, that wait to be sent. Further
	// spans are dropped: a slow collector must not slow down the sale. A purchase has about eight
	// spans.
	maxSpans = 1 << 15
	// flushTime limits the time that a shop takes to send its last spans when it ends.
	flushTime = time.Second
	// tracesPath is the usual path at which collectors accept traces over HTTP.
	tracesPath = "/v1/traces"
)

// trace makes the shop record purchases as spans if -otlp is set, and sends them to that collector.
// OpenTelemetry's environment variables can set the sampler and the headers. If the collector is
// unavailable, the shop logs that and goes on selling. The caller must call the returned function
// after the shop has ended: it sends the waiting spans, for at most flushTime.
func (o options) trace(ctx context.Context, cfg *shop.Config) (closing func(), err error) {
	if o.otlp == "" {
		return func() {}, nil
	}
	u, err := tracesURL(o.otlp)
	if err != nil {
		return nil, err
	}
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(u))
	if err != nil {
		return nil, fmt.Errorf("opening the exporter of traces: %w", err)
	}
	cfg.Instance = uuid.NewString()
	about, err := resource.Merge(resource.NewSchemaless(attribute.String("service.name", "oversell"),
		attribute.String("service.version", fleet.Version()),
		attribute.String("service.instance.id", cfg.Instance)), resource.Environment())
	if err != nil {
		return nil, fmt.Errorf("describing the shop to the collector of traces: %w", err)
	}
	log := cfg.Logger
	provider := sdktrace.NewTracerProvider(sdktrace.WithResource(about),
		sdktrace.WithBatcher(&loggedExporter{SpanExporter: exporter, log: log}, sdktrace.WithMaxQueueSize(maxSpans)))
	cfg.Web.Tracer = provider.Tracer("oversell")
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), flushTime)
		defer cancel()
		if err := provider.Shutdown(ctx); err != nil { // it does not affect sales
			log.Warn("the last traces are lost: the collector does not accept them", "error", err)
		}
	}, nil
}

// tracesURL returns the URL to which spans are sent: the collector's URL, with the usual path if it
// has none.
func tracesURL(address string) (string, error) {
	u, err := url.Parse(address)
	switch {
	case err != nil, u.Scheme != "http" && u.Scheme != "https", u.Hostname() == "":
		return "", errors.New("must be the URL of a collector of OTLP over HTTP, such as http://127.0.0.1:4318")
	case u.User != nil:
		return "", errors.New("must have no password: set OTEL_EXPORTER_OTLP_HEADERS instead")
	case u.RawQuery != "" || u.Fragment != "":
		return "", errors.New("must end with the path, such as http://127.0.0.1:4318" + tracesPath)
	case u.Path == "" || u.Path == "/":
		u.Path = tracesPath
	}
	return u.String(), nil
}

// loggedExporter logs when the collector stops taking spans, and when it takes them again.
type loggedExporter struct {
	sdktrace.SpanExporter
	log  *slog.Logger
	away atomic.Bool
}

// ExportSpans sends spans. An error is logged and not returned, because OpenTelemetry would print
// it.
func (e *loggedExporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := e.SpanExporter.ExportSpans(ctx, spans)
	switch failed := err != nil; {
	case e.away.Swap(failed) == failed:
	case failed:
		e.log.Warn("traces are lost: the collector does not accept them", "error", err)
	default:
		e.log.Info("the collector accepts traces again")
	}
	return nil
}
