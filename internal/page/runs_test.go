package page_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"oversell/internal/backend/backendtest"
	"oversell/internal/bench/report"
	"oversell/internal/figures"
	"oversell/internal/page"
	"oversell/internal/page/runs"
)

// site is a server that serves only the part Run.
type site struct{ *httptest.Server }

// openRuns serves the part Run until the end of the test.
func openRuns(t *testing.T) *site {
	t.Helper()
	command := new(backendtest.Processes).Command("instance")
	logger := slog.New(slog.DiscardHandler)
	m := runs.New(t.Context(), runs.Config{Command: command, Logger: logger})
	s := &site{httptest.NewUnstartedServer(page.Runs(m, "", logger))}
	s.Config.ReadTimeout = 300 * time.Millisecond // the read timeout must not end streams
	s.Start()
	t.Cleanup(func() {
		m.Close() // ends the streams, for which Close of the server waits
		s.Close()
	})
	return s
}

// ask sends a request, and reads the reply into v unless v is nil.
func (s *site) ask(t *testing.T, method, path, body string, v any) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, strings.NewReader(body))
	must(t, err)
	res, err := s.Client().Do(req)
	must(t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	must(t, err)
	res.Body = io.NopCloser(bytes.NewReader(text))
	if v != nil {
		if err := json.Unmarshal(text, v); err != nil {
			t.Fatalf("%s %s: %s: %.200s", method, path, res.Status, text)
		}
	}
	return res
}

// begin starts a run, and returns its id.
func (s *site) begin(t *testing.T, settings string) string {
	t.Helper()
	var begun struct{ ID string }
	res := s.ask(t, "POST", "/api/runs", settings, &begun)
	if res.StatusCode != http.StatusCreated || begun.ID == "" || res.Header.Get("Location") != "/api/runs/"+begun.ID {
		t.Fatalf("starting a run: %s, %q", res.Status, begun.ID)
	}
	return begun.ID
}

// listener reads a stream of server-sent events.
type listener struct {
	t     *testing.T
	lines *bufio.Scanner
	close context.CancelFunc
	rows  []runs.NumberedRow
	run   *runs.Current
	lists int
}

func (s *site) listen(t *testing.T) *listener {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	req, err := http.NewRequestWithContext(ctx, "GET", s.URL+"/api/runs/events", nil)
	must(t, err)
	res, err := s.Client().Do(req)
	must(t, err)
	t.Cleanup(func() {
		cancel()
		_ = res.Body.Close() // it was cut off
	})
	if res.StatusCode != http.StatusOK || res.Header.Get("Content-Type") != "text/event-stream" ||
		res.Header.Get("Cache-Control") != "no-store" {
		t.Fatalf("the stream begins with %s, %v", res.Status, res.Header)
	}
	l := &listener{t: t, lines: bufio.NewScanner(res.Body), close: cancel}
	l.lines.Buffer(nil, 1<<20)
	return l
}

// next reads one event, and returns its name, or "" at the end of the stream.
func (l *listener) next() (name string) {
	l.t.Helper()
	for l.lines.Scan() {
		field, value, _ := strings.Cut(l.lines.Text(), ": ")
		switch field {
		case "event":
			name = value
		case "data":
			l.take(name, value)
		case "":
			if name != "" {
				return name
			}
		}
	}
	return ""
}

func (l *listener) take(name, data string) {
	l.t.Helper()
	var err error
	switch name {
	case "row":
		var row runs.NumberedRow
		err = json.Unmarshal([]byte(data), &row)
		l.rows = append(l.rows, row)
	case "run":
		var told struct{ Run *runs.Current }
		err = json.Unmarshal([]byte(data), &told)
		l.run = told.Run
	case "list":
		l.lists++
	}
	if err != nil {
		l.t.Errorf("the event %s: %v", name, err)
	}
}

// until reads events until wanted accepts the state of the run.
func (l *listener) until(wanted func(*runs.Current) bool) {
	l.t.Helper()
	for l.run == nil || !wanted(l.run) {
		if l.next() == "" {
			l.t.Fatalf("the stream ended: %v", l.lines.Err())
		}
	}
}

func over(r *runs.Current) bool { return r.Ended != nil }

func underWay(r *runs.Current) bool { return r.Now != nil && r.Now.Phase == runs.Load }

const brief = `{"strategies":["none","v6"],"requests":300,"stock":20}`

// lasting contains the settings of a run that lasts until it is stopped.
const lasting = `{"strategies":["v6_watchdog"],"requests":1000,"stock":1000,"work_us":100000}`

// Two browsers see the same run, even if one connects later, and both agree with the report.
func TestEverybodySeesTheSameRun(t *testing.T) {
	s := openRuns(t)
	a := s.listen(t)
	id := s.begin(t, brief)
	b := s.listen(t)
	a.until(over)
	b.until(over)
	late := s.listen(t)
	late.until(over)
	if len(a.rows) != 2 || !reflect.DeepEqual(a.rows, b.rows) || !reflect.DeepEqual(a.rows, late.rows) ||
		!reflect.DeepEqual(a.run, b.run) || !reflect.DeepEqual(a.run, late.run) || a.lists < 2 || late.lists != 1 {
		t.Fatalf("one saw %+v, the other %+v, and who came late %+v", a.rows, b.rows, late.rows)
	}
	var run runs.Run
	s.ask(t, "GET", "/api/runs/"+id, "", &run)
	var list struct{ Runs []runs.Summary }
	s.ask(t, "GET", "/api/runs", "", &list)
	if !reflect.DeepEqual(run.Rows, []report.Row{a.rows[0].Row, a.rows[1].Row}) ||
		!reflect.DeepEqual(list.Runs, []runs.Summary{run.Summary}) ||
		!reflect.DeepEqual(run.Summary, a.run.Summary) {
		t.Errorf("the run is %+v, and the list %+v", run, list)
	}
	if held := run.Rows[1]; held.Strategy != "v6_watchdog" || held.Verdict != figures.OK {
		t.Errorf("%s: %s", held.Strategy, held.Verdict)
	}
	for query, want := range map[string]string{"": `lang="en"`, "?lang=en": `lang="en"`, "?lang=zh": `lang="zh-CN"`} {
		res := s.ask(t, "GET", "/api/runs/"+id+"/report.html"+query, "", nil)
		text, err := io.ReadAll(res.Body)
		name := `attachment; filename="oversell-` + id + `.html"`
		if err != nil || res.Header.Get("Content-Disposition") != name || !strings.Contains(string(text), id) ||
			!strings.Contains(string(text), want) {
			t.Errorf("the report%s: %v, %v, %d bytes, want %s", query, err, res.Header, len(text), want)
		}
	}
}

// A run continues when the page is closed, and may take longer than the read timeout of a request.
func TestRunGoesOnWithoutThePage(t *testing.T) {
	s := openRuns(t)
	a, b := s.listen(t), s.listen(t)
	id := s.begin(t, lasting)
	a.until(underWay)
	a.close()
	for b.until(underWay); b.run.Now.Point.T < 1000; {
		if b.next() == "" {
			t.Fatalf("the stream ended: %v", b.lines.Err())
		}
	}
	var told map[string]string
	res := s.ask(t, "POST", "/api/runs/"+id+"/stop", "", &told)
	if res.StatusCode != http.StatusAccepted || told["state"] != "stopping" {
		t.Errorf("stop: %s, %v", res.Status, told)
	}
	b.until(over)
	if b.run.State != runs.Stopped {
		t.Errorf("it came to %s", b.run.State)
	}
}

func TestWhatIsNoRunIsAProblem(t *testing.T) {
	s := openRuns(t)
	id := s.begin(t, lasting)
	for _, tt := range []struct {
		method, path, body string
		status             int
		code, detail       string
	}{
		{"POST", "/api/runs", "{}", 409, "busy", id},
		{"POST", "/api/runs", `{"requests":20001}`, 400, "invalid", "allowed: 1 to "},
		{"POST", "/api/runs", `{"strategies":["v99"]}`, 400, "invalid", "v6_watchdog"},
		{"POST", "/api/runs", `{"speed":1}`, 400, "invalid", "speed"},
		{"GET", "/api/runs/nobody", ``, 404, "unknown_run", "nobody"},
		{"POST", "/api/runs/nobody/stop", ``, 404, "unknown_run", "nobody"},
		{"GET", "/api/runs/nobody/report.html", ``, 404, "unknown_run", "nobody"},
		{"GET", "/api/runs/" + id + "/report.html", ``, 409, "no_report", id},
		{"GET", "/api/runs/" + id + "/report.html?lang=fr", ``, 400, "invalid", "allowed: en, zh"},
		{"DELETE", "/api/runs/" + id, ``, 405, "wrong_method", "GET"},
		{"GET", "/api/runs?page=2", ``, 400, "invalid", "no parameter"},
		{"GET", "/api/runs/events", `{}`, 400, "invalid", "no body"},
		{"GET", "/api/runs/" + id + "/more", ``, 404, "no_such_path", "no such path"},
	} {
		var told struct{ Code, Detail string }
		res := s.ask(t, tt.method, tt.path, tt.body, &told)
		if res.StatusCode != tt.status || told.Code != tt.code || !strings.Contains(told.Detail, tt.detail) ||
			res.Header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s %s %.60s: %s %+v", tt.method, tt.path, tt.body, res.Status, told)
		}
	}
	res := s.ask(t, "HEAD", "/api/runs/events", "", nil)
	if res.StatusCode != http.StatusOK || res.Header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("HEAD of the stream: %s, %v", res.Status, res.Header)
	}
}

// The recording that the part Run shows first has the settings of the current first card.
func TestRecordingIsOfACard(t *testing.T) {
	var recorded struct {
		Settings runs.Settings
		Rows     []struct{ Verdict figures.Verdict }
	}
	files, err := page.Files()
	must(t, err)
	must(t, json.Unmarshal(files["page/recorded.json"], &recorded))
	m := runs.New(t.Context(), runs.Config{})
	defer m.Close()
	first := m.Options().Presets[0].Settings
	if !reflect.DeepEqual(recorded.Settings, first) || recorded.Rows[0].Verdict != figures.Oversold {
		t.Errorf("recorded: %+v; the first card: %+v", recorded, first)
	}
}
