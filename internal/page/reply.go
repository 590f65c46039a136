package page

import (
	"encoding/json"
	"log/slog"
	"net/http"

	"oversell/internal/web/problem"
)

// replyJSON replies with v as JSON, which must not be cached.
func replyJSON(w http.ResponseWriter, logger *slog.Logger, status int, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		logger.Error("writing a reply", "error", err)
		problem.Reply(w, http.StatusInternalServerError, "internal", "the reply could not be written")
		return
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(text) // an error means that the client is gone
}
