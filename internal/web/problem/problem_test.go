package problem_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	"oversell/internal/message"
	"oversell/internal/web/problem"
)

// reply reads a problem from a reply.
func reply(t *testing.T, w *httptest.ResponseRecorder) (p problem.Problem) {
	t.Helper()
	if got := w.Header().Get("Content-Type"); got != "application/problem+json" {
		t.Errorf("content type %q", got)
	}
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
		t.Fatalf("%s: %v", w.Body, err)
	}
	if said := p.Message.String(); said != "" && said != p.Detail {
		t.Errorf("the message %q has the detail %q", said, p.Detail)
	}
	if p.Status != w.Code {
		t.Errorf("status %d in the body of a %d", p.Status, w.Code)
	}
	return p
}

// Reply writes a problem document, and a Retry-After header only with a 503.
func TestReply(t *testing.T) {
	for status, again := range map[int]string{http.StatusServiceUnavailable: "1", http.StatusConflict: ""} {
		w := httptest.NewRecorder()
		detail := message.Newf("%s is at it", "somebody else")
		problem.Reply(w, status, "busy", detail)
		want := problem.Problem{
			Type: "about:blank", Title: http.StatusText(status), Status: status,
			Detail: "somebody else is at it", Code: "busy", Message: detail,
		}
		if got := reply(t, w); !reflect.DeepEqual(got, want) {
			t.Errorf("%+v; want %+v", got, want)
		}
		if got := w.Header().Get("Retry-After"); got != again {
			t.Errorf("%d: Retry-After %q; want %q", status, got, again)
		}
	}
}

// The reply explains what is wrong with a body in words that a client understands, without names of Go
// types.
func TestReadBody(t *testing.T) {
	const unfit, invalid = "the body is not valid: ", "the body is not valid for this request: "
	for body, want := range map[string]struct {
		status       int
		code, detail string
	}{
		``:                {400, "invalid", "the body is missing; it must be a JSON object"},
		`7`:               {400, "invalid", "the body must be a JSON object"},
		`{"n":"x"}`:       {400, "invalid", unfit + "n must be a whole number, but is a string"},
		`{"s":1}`:         {400, "invalid", unfit + "s must be a string, but is a number"},
		`{"n":1e9}`:       {400, "invalid", unfit + "n must be a whole number, but is a number 1e9"},
		`{"m":1}`:         {400, "invalid", invalid + `unknown field "m" (allowed: n, s)`},
		`{"n":1} {}`:      {400, "invalid", invalid + "there is more data after the JSON object"},
		`{"n":1,"n":2}`:   {400, "invalid", invalid + `the field "n" is given twice`},
		`{"N":1}`:         {400, "invalid", invalid + `unknown field "N" (allowed: n, s)`},
		`null`:            {400, "invalid", "the body must be a JSON object"},
		"{\"n\":1}\xff":   {400, "invalid", invalid + "invalid character 'ÿ' looking for beginning of value"},
		`{"n":1000000000`: {413, "too_large", "the body may have at most 14 bytes"},
		`{"n":1}`:         {},
	} {
		var v struct {
			N int    `json:"n"`
			S string `json:"s"`
		}
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
		if problem.ReadBody(w, http.MaxBytesReader(w, r.Body, 14), &v) {
			if want.status != 0 || v.N != 1 {
				t.Errorf("%q was read as %+v", body, v)
			}
			continue
		}
		got := reply(t, w)
		if got.Status != want.status || got.Code != want.code || got.Detail != want.detail {
			t.Errorf("%q: %+v; want %+v", body, got, want)
		}
	}
}

// If the body is cut off, the reply says so, and does not contain the network error.
func TestBodyThatIsCutOff(t *testing.T) {
	w := httptest.NewRecorder()
	if problem.ReadBody(w, iotest.ErrReader(errors.New("read tcp 10.9.8.7:6379: i/o timeout")), new(struct{})) {
		t.Error("it was read")
	}
	got := reply(t, w)
	if got.Status != 400 || got.Code != "invalid" || got.Detail != "the body ended before it was complete" {
		t.Errorf("%+v", got)
	}
}

func TestReadQuery(t *testing.T) {
	for query, want := range map[string]string{
		"a=1;b=2":   "the query of the URL cannot be read: invalid semicolon separator in query",
		"%zz":       `the query of the URL cannot be read: invalid URL escape "%zz"`,
		"c=1":       `unknown parameter "c"; allowed here: a, b`,
		"a=1&a=2":   "the parameter a is given more than once",
		"b=2&a":     "the parameter a is empty",
		"a=1&b=%32": "",
	} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodGet, "/?"+query, nil)
		got, ok := problem.ReadQuery(w, r, "a", "b")
		if ok != (want == "") || ok && (got["a"] != "1" || got["b"] != "2") {
			t.Errorf("%q was read as %v, %v", query, got, ok)
		}
		if !ok {
			if p := reply(t, w); p.Status != http.StatusBadRequest || p.Code != "invalid" || p.Detail != want {
				t.Errorf("%q: %+v; want %q", query, p, want)
			}
		}
	}
}
