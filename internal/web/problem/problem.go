// Package problem refuses requests that a route cannot serve, and writes error replies in the
// format of RFC 9457, with a code for the outcome.
package problem

import (
	"encoding/json"
	"net/http"

	"oversell/internal/message"
)

// Problem is the body of an error reply.
type Problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	Code   string `json:"code"` // the outcome in one word, as in the metrics

	// Message is the Detail with its format and arguments, for a translation.
	Message message.Message `json:"message,omitzero"`
}

// retryAfter is how many seconds a client should wait after a 503.
const retryAfter = "1"

// Reply replies with a problem.
func Reply(w http.ResponseWriter, status int, code string, detail message.Message) {
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Set("X-Content-Type-Options", "nosniff")
	if status == http.StatusServiceUnavailable {
		h.Set("Retry-After", retryAfter)
	}
	w.WriteHeader(status)
	body := Problem{
		Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: detail.String(), Code: code,
		Message: detail,
	}
	_ = json.NewEncoder(w).Encode(body) // an error means that the client has left
}
