package web_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"gorm.io/gorm"

	"oversell/internal/backend/backendtest"
	"oversell/internal/stock"
	"oversell/internal/web"
)

// traced opens a site whose spans are recorded.
func traced(t *testing.T, rdb redis.UniversalClient, db *gorm.DB, options ...sdktrace.TracerProviderOption) (
	*site, *tracetest.SpanRecorder,
) {
	t.Helper()
	recorder := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(append(options, sdktrace.WithSpanProcessor(recorder))...)
	t.Cleanup(func() {
		if err := provider.Shutdown(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return newSite(t, rdb, db, func(wc *web.Config, sc *stock.Config) { wc.Tracer = provider.Tracer("test") }), recorder
}

// split returns the span of the request and the names of its steps, and checks that the steps are
// children of the request and lie within its time.
func split(t *testing.T, spans []sdktrace.ReadOnlySpan) (root sdktrace.ReadOnlySpan, steps []string) {
	t.Helper()
	if len(spans) == 0 {
		t.Fatal("no spans")
	}
	root = spans[len(spans)-1] // the request's span ends last
	for _, s := range spans[:len(spans)-1] {
		within := !s.StartTime().Before(root.StartTime()) && !s.EndTime().After(root.EndTime()) &&
			!s.EndTime().Before(s.StartTime())
		if !within || s.Parent().SpanID() != root.SpanContext().SpanID() {
			t.Errorf("%s is not in the span of the request", s.Name())
		}
		steps = append(steps, s.Name())
	}
	return root, steps
}

func attributes(span sdktrace.ReadOnlySpan) map[attribute.Key]string {
	all := make(map[attribute.Key]string)
	for _, a := range span.Attributes() {
		all[a.Key] = a.Value.String()
	}
	return all
}

// buyTraced buys a unit of a new item, and returns the span of the request and the names of its steps.
func (s *site) buyTraced(t *testing.T, recorder *tracetest.SpanRecorder, strategy string) (
	sku string, res *httptest.ResponseRecorder, root sdktrace.ReadOnlySpan, steps string) {
	t.Helper()
	recorder.Reset()
	sku = s.put(t, 1)
	res = s.ask(http.MethodPost, "/api/items/"+sku+"/deduct?strategy="+strategy, `{"quantity":1}`,
		"traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	if res.Code/100 != 2 {
		t.Fatalf("%s: %d %s", strategy, res.Code, res.Body)
	}
	root, all := split(t, recorder.Ended())
	return sku, res, root, strings.Join(all, " ")
}

// The steps of a purchase are child spans of its request's span, for each kind of strategy.
func TestDeductIsTraced(t *testing.T) {
	backendtest.Each(t, func(t *testing.T, rdb redis.UniversalClient, db *gorm.DB) {
		s, recorder := traced(t, rdb, db)
		for strategy, want := range map[string]string{
			"v8_fenced":  "look join wait acquire read work write order release",
			"local":      "look join wait read work write order release",
			"lua_batch":  "look join work wait take order",
			"lua_stream": "look join work wait take",
		} {
			sku, res, root, got := s.buyTraced(t, recorder, strategy)
			// The steps begin again if a message about the new sale comes late.
			for try := 0; strings.Count(got, "look") > 1 && try < 20; try++ {
				sku, res, root, got = s.buyTraced(t, recorder, strategy)
			}
			if got != want {
				t.Errorf("%s: the steps are %s, want %s", strategy, got, want)
			}
			id, parent := root.SpanContext().TraceID().String(), root.Parent().SpanID().String()
			if id != "0af7651916cd43dd8448eb211c80319c" || parent != "b7ad6b7169203331" {
				t.Errorf("%s: the trace is %s, and not the client's", strategy, id)
			}
			about := attributes(root)
			if about["oversell.strategy"] != strategy || about["oversell.sku"] != sku ||
				about["http.response.status_code"] != fmt.Sprint(res.Code) {
				t.Errorf("%s: %v", strategy, about)
			}
		}
	})
}

// A purchase that is sold out has no span with an error. If a backend is unavailable, the spans of the
// request and of the step that noticed it have an error.
func TestErrorsAreInTraces(t *testing.T) {
	rdb := backendtest.DialRedis(t, backendtest.Redis(t, "embedded"))
	s, recorder := traced(t, rdb, backendtest.DialDatabase(t, backendtest.Database(t, "embedded")))
	path := "/api/items/" + s.put(t, 0) + "/deduct?strategy=v8_fenced"
	wantProblem(t, s.ask(http.MethodPost, path, `{"quantity":1}`), http.StatusConflict, "sold_out")
	root, _ := split(t, recorder.Ended())
	if root.Status().Code == codes.Error || slices.ContainsFunc(recorder.Ended(), failed) ||
		attributes(root)["oversell.outcome"] != "sold_out" {
		t.Errorf("sold out: %v, %v", root.Status(), root.Attributes())
	}
	must(t, rdb.Close())
	recorder.Reset()
	wantProblem(t, s.ask(http.MethodPost, path, `{"quantity":1}`), http.StatusServiceUnavailable, "backend")
	root, steps := split(t, recorder.Ended())
	if root.Status().Code != codes.Error || len(steps) == 0 || !failed(recorder.Ended()[len(steps)-1]) {
		t.Errorf("away: %v after %v", root.Status(), steps)
	}
}

func failed(s sdktrace.ReadOnlySpan) bool { return s.Status().Code == codes.Error }

// A path that is not valid UTF-8 is left out of spans, because a collector would refuse the whole
// batch.
func TestBadPathIsInNoSpan(t *testing.T) {
	rdb := backendtest.DialRedis(t, backendtest.Redis(t, "embedded"))
	s, recorder := traced(t, rdb, backendtest.DialDatabase(t, backendtest.Database(t, "embedded")))
	w := s.ask(http.MethodPost, "/api/items/%ff%fe/deduct?strategy=none", `{"quantity":1}`)
	wantProblem(t, w, http.StatusBadRequest, "invalid")
	for _, span := range recorder.Ended() {
		for key, value := range attributes(span) {
			if !utf8.ValidString(value) {
				t.Errorf("%s of %s is %q", key, span.Name(), value)
			}
		}
		if status := span.Status().Description; !utf8.ValidString(status) {
			t.Errorf("the status of %s is %q", span.Name(), status)
		}
	}
	if len(recorder.Ended()) == 0 {
		t.Error("no span")
	}
}
