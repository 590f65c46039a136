package page

import (
	"log/slog"
	"net/http"

	"oversell/internal/page/class"
	"oversell/internal/web/problem"
)

// maxClass bounds the body with a change of a class, in bytes.
const maxClass = 1 << 10

// Class returns the handler of a class that buys at this shop; c is nil if there is none:
//
//	GET /api/class         the class as it is now
//	PUT /api/class         {"work_ms"}: how long a holder works from now on; counts the most holders anew
//	GET /api/class/qr.svg  the address as a QR code
//
// The token is needed for a change; "" if none is. The handler is safe for concurrent use.
func Class(c *class.Class, token string, logger *slog.Logger) http.Handler {
	h := &classHandler{class: c, token: token, logger: logger}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/class", plain(h.get))
	mux.HandleFunc("/", noSuchPath)
	if c == nil {
		mux.HandleFunc("/api/class", readOnly)
		return mux
	}
	mux.HandleFunc("PUT /api/class", guarded(token, plain(h.put)))
	mux.HandleFunc("GET /api/class/qr.svg", plain(h.code))
	mux.HandleFunc("/api/class", only("GET, HEAD, PUT"))
	mux.HandleFunc("/api/class/qr.svg", readOnly)
	return mux
}

type classHandler struct {
	class  *class.Class
	token  string
	logger *slog.Logger
}

func (h *classHandler) get(w http.ResponseWriter, _ *http.Request) {
	if h.class == nil {
		replyJSON(w, h.logger, http.StatusOK, map[string]bool{"open": false})
		return
	}
	replyJSON(w, h.logger, http.StatusOK, struct {
		class.State
		Token bool `json:"token"` // a token is needed to change something
	}{h.class.State(), h.token != ""})
}

func (h *classHandler) put(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Work *int64 `json:"work_ms"`
	}
	if !problem.ReadBody(w, http.MaxBytesReader(w, r.Body, maxClass), &body) {
		return
	}
	if body.Work == nil || h.class.SetWork(*body.Work) != nil {
		problem.Reply(w, http.StatusBadRequest, problem.CodeInvalid, class.ErrWork.Error())
		return
	}
	h.get(w, r)
}

func (h *classHandler) code(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "image/svg+xml")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(h.class.Code()) // an error means that the client has gone
}
