// Package problem writes error replies as RFC 9457 has them, with a word that names
// the outcome.
package problem

import (
	"encoding/json"
	"net/http"
)

// Problem is the body of an error reply.
type Problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	Code   string `json:"code"` // names the outcome in one word, the same as in the metrics
}

// retryAfter is when a client that got a 503 may try again, in seconds.
const retryAfter = "1"

// Reply replies with a problem.
func Reply(w http.ResponseWriter, status int, code, detail string) {
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Set("X-Content-Type-Options", "nosniff")
	if status == http.StatusServiceUnavailable {
		h.Set("Retry-After", retryAfter)
	}
	w.WriteHeader(status)
	// There is nobody to be told that the client has gone.
	_ = json.NewEncoder(w).Encode(Problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: detail, Code: code})
}
