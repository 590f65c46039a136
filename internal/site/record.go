package site

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"oversell/internal/guard"
	"oversell/internal/page/texts"
)

// record writes the replies of a shop's page to files: those at fixed paths, each cell of the lab's
// matrix, and each run of the bench with its downloadable report. A file cannot have a query, so
// the language of a report is in its name, except for English.
func (w *writer) record(ctx context.Context, page http.Handler) error {
	files := make(map[string]string) // by the requested path
	for _, path := range []string{"/api/schedule/levels", "/api/schedule/record", "/api/runs/options", "/api/stages",
		"/api/lab", "/api/runs"} {
		files[path] = recordingOf(path)
	}
	var there struct {
		Cells []struct{ Anomaly, Strategy string }
		Runs  []struct{ ID string }
	}
	for _, list := range []string{"/api/lab", "/api/runs"} {
		text, err := ask(ctx, page, list)
		if err != nil {
			return err
		}
		if err := json.Unmarshal(text, &there); err != nil {
			return fmt.Errorf("reading the reply to %s: %w", list, err)
		}
	}
	for _, c := range there.Cells {
		path := "/api/lab/" + c.Anomaly + "/" + c.Strategy
		files[path] = recordingOf(path)
	}
	for _, r := range there.Runs {
		path := "/api/runs/" + r.ID
		files[path] = recordingOf(path)
		for _, language := range texts.Languages() {
			name := "/report." + language + ".html"
			if language == texts.English {
				name = "/report.html"
			}
			files[path+"/report.html?lang="+language] = (path + name)[1:]
		}
	}
	for path, file := range files {
		text, err := ask(ctx, page, path)
		if err == nil {
			err = w.file(file, text)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// again is the pause before ask repeats a request whose reply was not ready.
const again = 20 * time.Millisecond

// ask returns the reply to a GET of path, and waits until it is ready.
func ask(ctx context.Context, page http.Handler, path string) ([]byte, error) {
	for {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, path, http.NoBody)
		if err != nil {
			return nil, err
		}
		to := httptest.NewRecorder()
		page.ServeHTTP(to, r)
		switch to.Code {
		case http.StatusOK:
			return to.Body.Bytes(), nil
		case http.StatusAccepted:
		default:
			return nil, fmt.Errorf("the page replied to %s with %d: %s", path, to.Code, to.Body)
		}
		if err := guard.Sleep(ctx, again); err != nil {
			return nil, err
		}
	}
}
