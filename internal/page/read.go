package page

import (
	"fmt"
	"net/http"
	"strings"

	"oversell/internal/stages"
	"oversell/internal/web/problem"
)

// Read returns the handler of the part Read, which shows the stages beside each
// other:
//
//	GET /api/stages         what each stage is, without its texts
//	GET /api/stages/{name}  all of one stage
//
// The replies are made once, and have their ETag: a client that comes again is
// told that it has them already. The handler is safe for concurrent use.
func Read(all []stages.Stage) (http.Handler, error) {
	var list struct {
		Stages []stages.About `json:"stages"`
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
		text, ok := texts[name]
		if !ok {
			problem.Reply(w, http.StatusNotFound, "unknown_stage", "there is no stage "+problem.Quoted(name)+"; there are "+strings.Join(names, ", "))
			return
		}
		text.ServeHTTP(w, r)
	}))
	mux.HandleFunc("/api/stages", readOnly)
	mux.HandleFunc("/api/stages/{name}", readOnly)
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		problem.Reply(w, http.StatusNotFound, "no_such_path", "no such path")
	})
	return mux, nil
}

func readOnly(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Allow", "GET, HEAD")
	problem.Reply(w, http.StatusMethodNotAllowed, "wrong_method", "allowed here: GET, HEAD")
}
