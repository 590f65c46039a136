package page

import (
	"fmt"
	"net/http"
	"strings"

	"oversell/internal/page/diff"
	"oversell/internal/shortname"
	"oversell/internal/web/problem"
)

// Read returns the handler of the part Read, which compares the stages:
//
//	GET /api/stages         the stages, without their sources
//	GET /api/stages/{name}  one stage with its sources; the name may be short
//
// The replies are made once and have an ETag. The handler is safe for concurrent use.
func Read(all []diff.Stage) (http.Handler, error) {
	var list struct {
		Stages []diff.About `json:"stages"`
	}
	var names []string
	texts := make(map[string]file)
	for _, s := range all {
		list.Stages = append(list.Stages, s.About)
		names = append(names, s.Name)
		text, err := packJSON(s)
		if err != nil {
			return nil, fmt.Errorf("writing the stage %s: %w", s.Name, err)
		}
		texts[s.Name] = text
	}
	index, err := packJSON(list)
	if err != nil {
		return nil, fmt.Errorf("writing the list of stages: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/stages", plain(index.ServeHTTP))
	mux.HandleFunc("GET /api/stages/{name}", plain(func(w http.ResponseWriter, r *http.Request) {
		name := r.PathValue("name")
		text, ok := texts[shortname.Expand(name, names)]
		if !ok {
			problem.Reply(w, http.StatusNotFound, "unknown_stage", "there is no stage "+problem.Quoted(name)+"; there are "+strings.Join(names, ", "))
			return
		}
		text.ServeHTTP(w, r)
	}))
	mux.HandleFunc("/api/stages", readOnly)
	mux.HandleFunc("/api/stages/{name}", readOnly)
	mux.HandleFunc("/", noSuchPath)
	return mux, nil
}
