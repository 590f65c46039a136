package problem_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"oversell/internal/web/problem"
)

// refused checks that the reply says what is wrong with the request.
func refused(t *testing.T, w *httptest.ResponseRecorder) {
	t.Helper()
	p := reply(t, w)
	if p.Status != http.StatusBadRequest && p.Status != http.StatusRequestEntityTooLarge || p.Detail == "" || p.Code == "" {
		t.Errorf("the reply is %+v", p)
	}
}

// A body that is accepted has each of its fields once, by its exact name, and the values
// that were read.
func FuzzReadBody(f *testing.F) {
	for _, seed := range []string{
		`{"n":1}`, ` {"n":1,"s":"x","l":["a"]} `, `{"n":1,"n":2}`, `{"n":1,"\u006e":2}`, `{"N":1}`, `{"n":1,"N":2}`, `{"ſ":"x"}`,
		`{"s":"x","S":"y"}`, `{}`, `null`, `[]`, ``, `{"n":1}{"n":1}`, `{"n":1}x`, `{"n":1`, `{"n":null}`, `{"l":[{"n":1,"n":2}]}`,
		`{"n":1e2}`, `{"n":"1"}`, `{"":1}`, "{\"s\":\"\xff\"}", `{"s":"\ud800"}`, "\ufeff{}", strings.Repeat("[", 200), strings.Repeat(" ", 300),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var v struct {
			N *int     `json:"n"`
			S *string  `json:"s"`
			L []string `json:"l"`
		}
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(body))
		if !problem.ReadBody(w, http.MaxBytesReader(w, r.Body, 256), &v) {
			refused(t, w)
			return
		}
		if w.Body.Len() > 0 || len(body) > 256 {
			t.Errorf("%d bytes were read, and replied to with %s", len(body), w.Body)
		}
		d := json.NewDecoder(bytes.NewReader(body))
		if _, err := d.Token(); err != nil {
			t.Fatalf("what was read is not JSON: %v", err)
		}
		var names []string
		for d.More() {
			name, err := d.Token()
			if err != nil {
				t.Fatalf("what was read is not JSON: %v", err)
			}
			names = append(names, name.(string))
			if err := d.Decode(new(any)); err != nil {
				t.Fatalf("what was read is not JSON: %v", err)
			}
		}
		var all map[string]any
		if err := json.Unmarshal(body, &all); err != nil || len(all) != len(names) {
			t.Errorf("the fields %q are not each there once: %v", names, err)
		}
		for _, name := range names {
			if !slices.Contains([]string{"n", "s", "l"}, name) {
				t.Errorf("the field %q was read", name)
			}
		}
		if given, ok := all["n"].(float64); ok != (v.N != nil) || ok && given != float64(*v.N) {
			t.Errorf("n is %v in the body, and was read as %v", all["n"], v.N)
		}
	})
}

// A query that is accepted has each parameter once, and no other.
func FuzzReadQuery(f *testing.F) {
	for _, seed := range []string{
		"", "a=1", "a=1&b=2", "a=1&a=2", "a=1;x", "%zz", "a=%zz", "a", "a=", "=1", "&", "a=1&&b=2", "c=3", "A=1", "%61=1", "a=1&%61=2", "a=+", "a=1#b", "a=%00", "a=\xff",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, query string) {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.URL = &url.URL{Path: "/", RawQuery: query}
		w := httptest.NewRecorder()
		got, ok := problem.ReadQuery(w, r, "a", "b")
		if !ok {
			refused(t, w)
			return
		}
		want, err := url.ParseQuery(query)
		if err != nil || len(got) != len(want) || w.Body.Len() > 0 {
			t.Fatalf("%q was read as %v, %v, and replied to with %s", query, got, err, w.Body)
		}
		for name, values := range want {
			if name != "a" && name != "b" || len(values) != 1 || values[0] == "" || got[name] != values[0] {
				t.Errorf("%q was read as %v", query, got)
			}
		}
	})
}
