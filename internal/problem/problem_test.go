package problem_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"oversell/internal/problem"
)

// reply reads a problem that was replied.
func reply(t *testing.T, w *httptest.ResponseRecorder) (p problem.Problem) {
	t.Helper()
	if got := w.Header().Get("Content-Type"); got != "application/problem+json" {
		t.Errorf("content type %q", got)
	}
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
		t.Fatalf("%s: %v", w.Body, err)
	}
	if p.Status != w.Code {
		t.Errorf("status %d in the body of a %d", p.Status, w.Code)
	}
	return p
}

// Of a 503 a client is told when to come again, and of nothing else.
func TestReply(t *testing.T) {
	for status, again := range map[int]string{http.StatusServiceUnavailable: "1", http.StatusConflict: ""} {
		w := httptest.NewRecorder()
		problem.Reply(w, status, "busy", "somebody else is at it")
		want := problem.Problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: "somebody else is at it", Code: "busy"}
		if got := reply(t, w); got != want {
			t.Errorf("%+v; want %+v", got, want)
		}
		if got := w.Header().Get("Retry-After"); got != again {
			t.Errorf("%d: Retry-After %q; want %q", status, got, again)
		}
	}
}

// What is wrong with a body is said in words of the client's, not of the program's.
func TestReadBody(t *testing.T) {
	for body, want := range map[string]problem.Problem{
		``:            {Status: 400, Code: "invalid", Detail: "the body is missing, and must be a JSON object"},
		`7`:           {Status: 400, Code: "invalid", Detail: "the body must be a JSON object"},
		`{"n":"x"}`:   {Status: 400, Code: "invalid", Detail: "the body does not fit: n cannot be a string"},
		`{"n":1e9}`:   {Status: 400, Code: "invalid", Detail: "the body does not fit: n cannot be a number 1e9"},
		`{"m":1}`:     {Status: 400, Code: "invalid", Detail: `the body is not the JSON that is wanted: unknown field "m"`},
		`{"n":1} {}`:  {Status: 400, Code: "invalid", Detail: "the body is not the JSON that is wanted: there is more after the JSON object"},
		`{"n":100000`: {Status: 413, Code: "too_large", Detail: "the body may have at most 10 bytes"},
		`{"n":1}`:     {},
	} {
		var v struct {
			N int `json:"n"`
		}
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
		if problem.ReadBody(w, http.MaxBytesReader(w, r.Body, 10), &v) {
			if want.Status != 0 || v.N != 1 {
				t.Errorf("%q was read as %+v", body, v)
			}
			continue
		}
		got := reply(t, w)
		if got.Status != want.Status || got.Code != want.Code || got.Detail != want.Detail {
			t.Errorf("%q: %+v; want %+v", body, got, want)
		}
	}
}
