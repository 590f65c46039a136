package page_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"strings"
	"testing"

	"oversell/internal/page"
	"oversell/internal/page/diff"
)

func newRead(t *testing.T) (http.Handler, []diff.Stage) {
	t.Helper()
	all, err := diff.Stages()
	if err != nil {
		t.Fatal(err)
	}
	h, err := page.Read(all)
	if err != nil {
		t.Fatal(err)
	}
	return h, all
}

// askRead sends a request and returns the reply. Headers are pairs.
func askRead(h http.Handler, method, path string, headers ...string) *httptest.ResponseRecorder {
	req := httptest.NewRequest(method, path, nil)
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, req)
	return w
}

// stageReply reads a reply that must be 200 and JSON.
func stageReply(t *testing.T, w *httptest.ResponseRecorder, v any) {
	t.Helper()
	if got := w.Header().Get("Content-Type"); w.Code != http.StatusOK || got != "application/json; charset=utf-8" {
		t.Fatalf("got %d of type %q: %.200s", w.Code, got, w.Body)
	}
	if err := json.Unmarshal(w.Body.Bytes(), v); err != nil {
		t.Fatal(err)
	}
}

func TestStagesAreListedWithoutTheirTexts(t *testing.T) {
	h, all := newRead(t)
	var got struct{ Stages []diff.About }
	w := askRead(h, "GET", "/api/stages")
	if strings.Contains(w.Body.String(), "package lock") {
		t.Error("the list has sources")
	}
	stageReply(t, w, &got)
	if len(got.Stages) != len(all) || len(all) == 0 {
		t.Fatalf("%d stages are listed; want %d", len(got.Stages), len(all))
	}
	for i, s := range all {
		if !reflect.DeepEqual(got.Stages[i], s.About) {
			t.Errorf("got %+v; want %+v", got.Stages[i], s.About)
		}
	}
}

func TestStageIsToldInFull(t *testing.T) {
	h, all := newRead(t)
	for _, s := range all {
		var got diff.Stage
		stageReply(t, askRead(h, "GET", "/api/stages/"+s.Name), &got)
		if !reflect.DeepEqual(got, s) {
			t.Errorf("%s arrives otherwise than it is", s.Name)
		}
	}
}

func TestUnchangedStageIsNotSentAgain(t *testing.T) {
	h, all := newRead(t)
	other, _ := newRead(t) // as another instance, or after a restart
	tags := make(map[string]string)
	for _, path := range []string{"/api/stages", "/api/stages/" + all[0].Name, "/api/stages/" + all[1].Name} {
		first := askRead(h, "GET", path)
		tag := first.Header().Get("ETag")
		if !strings.HasPrefix(tag, `"`) || first.Header().Get("Cache-Control") != "no-cache" {
			t.Errorf("%s: ETag %s, Cache-Control %q; want a strong one, to be asked about", path, tag, first.Header().Get("Cache-Control"))
		}
		if tags[tag] != "" {
			t.Errorf("%s and %s have the same ETag", path, tags[tag])
		}
		tags[tag] = path
		if w := askRead(other, "GET", path, "If-None-Match", tag); w.Code != http.StatusNotModified || w.Body.Len() > 0 {
			t.Errorf("%s: got %d and %d bytes; want 304 and none", path, w.Code, w.Body.Len())
		}
		if w := askRead(h, "GET", path, "If-None-Match", `"another"`); w.Code != http.StatusOK || w.Body.String() != first.Body.String() {
			t.Errorf("%s: got %d; want all of it, for a client with another version", path, w.Code)
		}
		if w := askRead(h, "HEAD", path); w.Code != http.StatusOK || w.Header().Get("ETag") != tag || w.Body.Len() > 0 {
			t.Errorf("HEAD %s: got %d, ETag %s and %d bytes", path, w.Code, w.Header().Get("ETag"), w.Body.Len())
		}
	}
}

func TestStageHasAShortName(t *testing.T) {
	h, _ := newRead(t)
	var got diff.Stage
	if stageReply(t, askRead(h, "GET", "/api/stages/v4"), &got); got.Name != "v4_lua" {
		t.Errorf("v4 is %s", got.Name)
	}
}

func TestWhatIsNoStageIsAProblem(t *testing.T) {
	h, all := newRead(t)
	for _, tt := range []struct {
		method, path string
		status       int
		code, detail string
	}{
		{"GET", "/api/stages/v99", 404, "unknown_stage", `there is no stage "v99"; there are ` + all[0].Name + ", "},
		{"GET", "/api/stages/none", 404, "unknown_stage", `there is no stage "none"`},
		{"GET", "/api/stages/" + url.PathEscape("<b>\n../é"), 404, "unknown_stage", `there is no stage "<b>\n../\u00e9"`},
		{"GET", "/api/stages/" + strings.Repeat("x", 1000), 404, "unknown_stage", `xxx..."`},
		{"GET", "/api/stages/" + all[0].Name + "/mutex.go", 404, "no_such_path", "no such path"},
		{"POST", "/api/stages", 405, "wrong_method", "GET, HEAD"},
		{"DELETE", "/api/stages/" + all[0].Name, 405, "wrong_method", "GET, HEAD"},
	} {
		w := askRead(h, tt.method, tt.path)
		var got struct {
			Type, Title, Detail, Code string
			Status                    int
		}
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
			t.Errorf("%s %.60s: %v", tt.method, tt.path, err)
			continue
		}
		if w.Code != tt.status || got.Status != tt.status || got.Title != http.StatusText(tt.status) || got.Type != "about:blank" ||
			got.Code != tt.code || !strings.Contains(got.Detail, tt.detail) || len(got.Detail) > 300 ||
			w.Header().Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s %.60s: got %d %+v", tt.method, tt.path, w.Code, got)
		}
		if allow := w.Header().Get("Allow"); (tt.status == 405) != (allow == "GET, HEAD") {
			t.Errorf("%s %.60s: allowed is %q", tt.method, tt.path, allow)
		}
	}
}

// The sources of the stages compress well.
func TestStagesAreSentSmall(t *testing.T) {
	h, all := newRead(t)
	path := "/api/stages/" + all[0].Name
	plain, packed := askRead(h, "GET", path), askRead(h, "GET", path, "Accept-Encoding", "gzip")
	if packed.Header().Get("Content-Encoding") != "gzip" || 2*packed.Body.Len() > plain.Body.Len() || plain.Header().Get("Vary") != "Accept-Encoding" {
		t.Errorf("%d bytes of %d, %v", packed.Body.Len(), plain.Body.Len(), packed.Header())
	}
}
