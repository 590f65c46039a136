package page

import (
	"encoding/json"
	"log/slog"
	"net/http"
)

// problem is an error reply in the form of the shop's API: RFC 9457, and a word
// that names the outcome.
type problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	Code   string `json:"code"`
}

// fail replies with a problem.
func fail(w http.ResponseWriter, status int, code, detail string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	// There is nobody to be told that the client has gone.
	_ = json.NewEncoder(w).Encode(problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: detail, Code: code})
}

// replyJSON replies with what is not to be kept.
func replyJSON(w http.ResponseWriter, logger *slog.Logger, status int, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		logger.Error("writing a reply", "error", err)
		fail(w, http.StatusInternalServerError, "internal", "the reply could not be written")
		return
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(text) // there is nobody to be told that the client has gone
}
