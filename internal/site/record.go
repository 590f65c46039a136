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

// record writes the replies of a shop's page to files.
func (w *writer) record(ctx context.Context, page http.Handler) error {
	for _, path := range []string{"/api/schedule/levels", "/api/schedule/record", "/api/runs/options", "/api/stages"} {
		if _, err := w.reply(ctx, page, path); err != nil {
			return err
		}
	}
	if err := w.cells(ctx, page); err != nil {
		return err
	}
	return w.runs(ctx, page)
}

// cells writes the matrix of the lab, and each cell of it.
func (w *writer) cells(ctx context.Context, page http.Handler) error {
	var matrix struct {
		Cells []struct{ Anomaly, Strategy string }
	}
	if err := w.list(ctx, page, "/api/lab", &matrix); err != nil {
		return err
	}
	for _, c := range matrix.Cells {
		if _, err := w.reply(ctx, page, "/api/lab/"+c.Anomaly+"/"+c.Strategy); err != nil {
			return err
		}
	}
	return nil
}

// runs writes the runs of the bench, and the report of each, which can be downloaded.
func (w *writer) runs(ctx context.Context, page http.Handler) error {
	var list struct {
		Runs []struct{ ID string }
	}
	if err := w.list(ctx, page, "/api/runs", &list); err != nil {
		return err
	}
	for _, r := range list.Runs {
		if _, err := w.reply(ctx, page, "/api/runs/"+r.ID); err != nil {
			return err
		}
		for _, language := range texts.Languages() {
			if err := w.report(ctx, page, r.ID, language); err != nil {
				return err
			}
		}
	}
	return nil
}

// report writes the report of a run in a language. A file has no query, so its name has the
// language, if that is not English.
func (w *writer) report(ctx context.Context, page http.Handler, id, language string) error {
	folder := "/api/runs/" + id
	text, err := ask(ctx, page, folder+"/report.html?lang="+language)
	if err != nil {
		return err
	}
	name := "/report.html"
	if language != texts.English {
		name = "/report." + language + ".html"
	}
	return w.file((folder + name)[1:], text)
}

// list writes a reply, and reads it.
func (w *writer) list(ctx context.Context, page http.Handler, path string, into any) error {
	text, err := w.reply(ctx, page, path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("reading the reply to %s: %w", path, err)
	}
	return nil
}

// reply writes the reply to a GET, and returns it.
func (w *writer) reply(ctx context.Context, page http.Handler, path string) ([]byte, error) {
	text, err := ask(ctx, page, path)
	if err != nil {
		return nil, err
	}
	return text, w.file(recordingOf(path), text)
}

// again is the pause before a reply is asked for that is not ready yet.
const again = 20 * time.Millisecond

// ask returns the reply to a GET, once it is ready.
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
