package page_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"oversell/internal/backend/backendtest"
	"oversell/internal/bench/report"
	"oversell/internal/figures"
	"oversell/internal/message"
	"oversell/internal/page"
	"oversell/internal/page/runs"
	"oversell/internal/page/texts"
	"oversell/internal/web/problem"
)

// site is a server that serves only the part Run.
type site struct {
	*httptest.Server
	manager *runs.Manager
}

// openRuns serves the part Run until the end of the test.
func openRuns(t *testing.T, token string) *site {
	t.Helper()
	command := new(backendtest.Processes).Command("instance")
	logger := slog.New(slog.DiscardHandler)
	m := runs.New(t.Context(), runs.Config{Command: command, Logger: logger})
	s := &site{httptest.NewUnstartedServer(page.Runs(m, token, logger)), m}
	s.Config.ReadTimeout = 300 * time.Millisecond // the read timeout must not end streams
	s.Start()
	t.Cleanup(func() {
		m.Close() // ends the streams, for which Close of the server waits
		s.Close()
	})
	return s
}

// ask sends a request, and reads the reply into v unless v is nil. Headers are pairs of names and
// values.
func (s *site) ask(t *testing.T, method, path, body string, v any, headers ...string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, strings.NewReader(body))
	must(t, err)
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
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
func (s *site) begin(t *testing.T, settings string, headers ...string) string {
	t.Helper()
	var begun struct{ ID string }
	res := s.ask(t, "POST", "/api/runs", settings, &begun, headers...)
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
	s := openRuns(t, "")
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
	s := openRuns(t, "")
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

func TestStartAndStopAskForTheToken(t *testing.T) {
	s := openRuns(t, "sesame")
	var options struct {
		TokenNeeded bool `json:"token_needed"`
	}
	if s.ask(t, "GET", "/api/runs/options", "", &options); !options.TokenNeeded {
		t.Error("the options do not say that a token is asked for")
	}
	for _, path := range []string{"/api/runs", "/api/runs/1/stop"} {
		for _, headers := range [][]string{nil, {"Authorization", "Bearer open"}, {"Authorization", "sesame"}} {
			var told struct{ Code string }
			res := s.ask(t, "POST", path, brief, &told, headers...)
			if res.StatusCode != http.StatusUnauthorized || told.Code != "no_token" ||
				res.Header.Get("WWW-Authenticate") == "" {
				t.Errorf("%s with %v: %s, %q", path, headers, res.Status, told.Code)
			}
		}
	}
	if len(s.manager.List()) != 0 {
		t.Error("a run was started")
	}
	id := s.begin(t, lasting, "Authorization", "Bearer sesame")
	res := s.ask(t, "POST", "/api/runs/"+id+"/stop", "", nil, "Authorization", "Bearer sesame")
	if res.StatusCode != http.StatusAccepted {
		t.Errorf("stop with the token: %s", res.Status)
	}
}

func TestWhatIsNoRunIsAProblem(t *testing.T) {
	s := openRuns(t, "")
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

// The page shows why a request for a run was refused, also in Chinese.
func TestRefusedRunsAreToldInChinese(t *testing.T) {
	s := openRuns(t, "")
	leave, err := s.manager.Occupy(message.Newf("a search for a schedule of %s", "none"))
	must(t, err)
	refused := func(method, path, body string) {
		t.Helper()
		var p problem.Problem
		res := s.ask(t, method, path, body, &p)
		if p.Message.IsZero() {
			p.Message = message.Text(p.Detail)
		}
		chinese := texts.Listen(texts.In)
		said := p.Message.Translate(chinese.Say)
		if res.StatusCode < 400 || p.Message.String() != p.Detail || len(chinese.Untold) > 0 {
			t.Errorf("%s %s: %s %+v, told as %q; not translated: %q", path, body, res.Status, p, said, chinese.Untold)
		}
	}
	for _, body := range []string{
		brief, `{"strategies":["nobody's"]}`, `{"strategies":["none","none"]}`, `{"strategies":[]}`,
		`{"conditions":["storm"]}`, `{"conditions":["calm","calm"]}`, `{"backend":"moon"}`, `{"keeper":"moon"}`,
		`{"keeper":"database","strategies":["lua_atomic"]}`, `{"requests":0}`, `{"instances":4,"requests":3}`,
		`{"instances":4,"requests":1}`, `{"conditions":["crash"],"instances":1}`, `{"moon":1}`, `{"stock":"many"}`,
	} {
		refused("POST", "/api/runs", body)
	}
	refused("GET", "/api/runs/nobody", "")
	leave()
	id := s.begin(t, lasting)
	refused("POST", "/api/runs", brief)
	refused("GET", "/api/runs/"+id+"/report.html", "")
}

// One address cannot use up all streams, and clients without the token cannot use up the streams
// reserved for clients with the token.
func TestStreamsAreBounded(t *testing.T) {
	s := openRuns(t, "sesame")
	open := func(from string, headers ...string) (status int, code string, leave func()) {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		t.Cleanup(cancel)
		req := httptest.NewRequestWithContext(ctx, "GET", "/api/runs/events", nil)
		req.RemoteAddr = from
		for i := 0; i < len(headers); i += 2 {
			req.Header.Set(headers[i], headers[i+1])
		}
		w := &streamed{ResponseRecorder: httptest.NewRecorder(), begun: make(chan struct{})}
		done := make(chan struct{})
		go func() { defer close(done); s.Config.Handler.ServeHTTP(w, req) }()
		select {
		case <-w.begun:
			return http.StatusOK, "", func() { cancel(); <-done }
		case <-done:
		}
		var told struct{ Code string }
		if err := json.Unmarshal(w.Body.Bytes(), &told); err != nil {
			t.Fatalf("%d %s: %v", w.Code, w.Body, err)
		}
		if w.Header().Get("Retry-After") == "" {
			t.Errorf("%d without Retry-After", w.Code)
		}
		return w.Code, told.Code, func() {}
	}
	want := func(status int, from string, headers ...string) (leave func()) {
		t.Helper()
		got, code, leave := open(from, headers...)
		if got != status || status == http.StatusServiceUnavailable && code != "too_many" {
			t.Errorf("from %s with %v: %d %s, want %d", from, headers, got, code, status)
		}
		return leave
	}
	var first func()
	for i := range 16 {
		if leave := want(200, fmt.Sprintf("10.0.0.1:%d", 1000+i)); i == 0 {
			first = leave
		}
	}
	want(503, "10.0.0.1:2000")
	want(503, "[::ffff:10.0.0.1]:2000")
	want(503, "10.0.0.1:2000", "Authorization", "Bearer open")
	want(503, "10.0.0.1:2000", "X-Forwarded-For", "10.9.9.9")
	for i := range 16 {
		want(200, fmt.Sprintf("[2001:db8::%x]:1000", i+1))
	}
	want(503, "[2001:db8::ff:1]:1000") // an address of the same network
	for i := range 32 {
		want(200, fmt.Sprintf("10.0.1.%d:1000", i))
	}
	want(503, "10.0.2.1:1000")
	var last func()
	for i := range 16 {
		last = want(200, fmt.Sprintf("10.0.0.1:%d", 3000+i), "Authorization", "Bearer sesame")
	}
	want(503, "10.0.0.2:1000", "Authorization", "Bearer sesame")
	last()
	want(200, "10.0.0.2:1000", "Authorization", "Bearer sesame")
	want(503, "10.0.2.1:1000")
	first()
	want(200, "10.0.2.1:1000")
}

// streamed is a recorder that closes begun at the first Flush.
type streamed struct {
	*httptest.ResponseRecorder
	once  sync.Once
	begun chan struct{}
}

func (s *streamed) Flush() { s.once.Do(func() { close(s.begun) }) }

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
