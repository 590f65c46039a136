package web

import (
	"net/http"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"oversell/internal/figures"
	"oversell/internal/stock"
)

// deductRoute is the name of the purchase route in traces.
const deductRoute = "/api/items/{sku}/deduct"

// trace begins the span of a purchase and makes the purchase record its steps. The reply must be
// written to the returned writer. The returned function must be called after the reply: it ends the
// span and adds a child span for each step. The attributes follow OpenTelemetry's conventions for
// HTTP, and contain no idempotency key or buyer.
//
// The steps become spans only when the request is over, so that a purchase that is not sampled
// costs nothing. The trace of a request has no steps if its shop was killed.
func (a *API) trace(w http.ResponseWriter, r *http.Request, req *stock.Request) (
	http.ResponseWriter, func(outcome string, res stock.Result),
) {
	if a.cfg.Tracer == nil {
		return w, func(string, stock.Result) {}
	}
	ctx := propagation.TraceContext{}.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
	about := []attribute.KeyValue{
		attribute.String("http.request.method", http.MethodPost), attribute.String("http.route", deductRoute),
		attribute.String("oversell.strategy", req.Strategy), attribute.Int64("oversell.quantity", req.Quantity),
	}
	if stock.CheckSKU(req.SKU) == nil { // a collector refuses a whole batch if a text is not UTF-8
		about = append(about, attribute.String("oversell.sku", req.SKU))
	}
	ctx, span := a.cfg.Tracer.Start(ctx, http.MethodPost+" "+deductRoute,
		trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(about...))
	if !span.IsRecording() { // not sampled
		return w, func(string, stock.Result) { span.End() }
	}
	req.Steps = new(figures.Steps)
	sent := &statusKeeper{ResponseWriter: w}
	return sent, func(outcome string, res stock.Result) {
		steps, skipped := req.Steps.All()
		for _, step := range steps {
			_, child := a.cfg.Tracer.Start(ctx, step.Name, trace.WithTimestamp(step.From))
			if stock.IsFailure(step.Err) {
				child.SetStatus(codes.Error, step.Err.Error())
			}
			child.End(trace.WithTimestamp(step.To))
		}
		span.SetAttributes(
			attribute.Int("http.response.status_code", sent.status),
			attribute.String("oversell.outcome", outcome),
			attribute.Int("oversell.lock.attempts", res.Lock.Attempts),
			attribute.Int("oversell.lock.renewals", res.Lock.Renewals),
			attribute.Bool("oversell.lock.lost", res.Lock.Lost))
		if skipped > 0 {
			span.SetAttributes(attribute.Int("oversell.steps_skipped", skipped))
		}
		if sent.status >= http.StatusInternalServerError {
			span.SetStatus(codes.Error, outcome)
		}
		span.End()
	}
}

// statusKeeper keeps the status of a reply.
type statusKeeper struct {
	http.ResponseWriter
	status int
}

func (k *statusKeeper) WriteHeader(status int) {
	k.status = status
	k.ResponseWriter.WriteHeader(status)
}
