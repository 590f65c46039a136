package payment

import (
	"encoding/json"
	"errors"
	"net/http"
)

// The bodies of the protocol between Client and Server. A failed request is answered with
//
//	{"error":{"code":"declined","message":"…"},"payment":{…}}
//
// with a payment only if the request concerns one.
type (
	problemBody struct {
		Error   problemText `json:"error"`
		Payment *Payment    `json:"payment,omitempty"`
	}
	problemText struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	}
	webhookBody struct {
		URL string `json:"url"`
	}
	foundBody struct {
		Payments []Payment `json:"payments"`
	}
	ledgerBody struct {
		Entries []Entry `json:"entries"`
		Next    int64   `json:"next"` // the value of after for the next page; 0 on the last one
	}
)

// problems lists the errors that have a code.
var problems = []struct {
	err    error
	status int
	code   string
}{
	{ErrInvalid, http.StatusBadRequest, "invalid"},
	{ErrDeclined, http.StatusPaymentRequired, "declined"},
	{ErrUnknownPayment, http.StatusNotFound, "unknown_payment"},
	{ErrConflict, http.StatusConflict, "conflict"},
	{ErrKeyReused, http.StatusUnprocessableEntity, "key_reused"},
	{ErrUnavailable, http.StatusServiceUnavailable, "unavailable"},
}

// problemOf converts an error for a reply. It returns nil for nil.
func problemOf(err error) *problemText {
	if err == nil {
		return nil
	}
	text := problemText{"internal", err.Error()}
	for _, known := range problems {
		if errors.Is(err, known.err) {
			text.Code = known.code
			break
		}
	}
	return &text
}

// err converts a reply back to an error. It returns nil for nil, and for an unknown code.
func (t *problemText) err() error {
	for _, known := range problems {
		if t != nil && t.Code == known.code {
			return told{known.err, t.Message}
		}
	}
	return nil
}

// replyError answers with an error and the payment that it concerns, if any.
func replyError(w http.ResponseWriter, err error, p Payment) {
	status, body := http.StatusInternalServerError, problemBody{Error: *problemOf(err)}
	for _, known := range problems {
		if body.Error.Code == known.code {
			status = known.status
		}
	}
	if p.ID != "" {
		body.Payment = &p
	}
	replyJSON(w, status, body)
}

func replyJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // it fails only if the client has left
}
