package payment

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// SignatureHeader is the header with the signature of a webhook, in Stripe's form:
// t=1795371889,v1=5257a869e7ec…… The time is in Unix seconds. A header has several v1 while the
// provider is replacing a secret: it then signs with the old one and the new one.
const SignatureHeader = "Payment-Signature"

// Tolerance is the maximum difference between the time of a signature and the receiver's clock. An
// older webhook may be a replay by an attacker.
const Tolerance = 5 * time.Minute

// MaxEvent is the maximum length of a webhook's body, in bytes.
const MaxEvent = 4 << 10

// The errors of Verify and ParseEvent.
var (
	ErrSignature = errors.New("payment: the signature of the webhook is wrong")
	ErrStale     = errors.New("payment: the webhook was signed too long ago, or in the future")
	ErrEvent     = errors.New("payment: the webhook is not an event")
)

// EventType says what happened to a payment.
type EventType string

// The types of events. A receiver must ignore unknown types, because providers add new ones.
const (
	EventAuthorised EventType = "payment.authorised"
	EventDeclined   EventType = "payment.declined"
	EventCaptured   EventType = "payment.captured"
	EventCancelled  EventType = "payment.cancelled"
	EventRefunding  EventType = "payment.refunding"
	EventRefunded   EventType = "payment.refunded"

	EventRefundFailed EventType = "refund.failed" // see Provider.Refund
)

// Event is the body of a webhook. The same event may arrive several times, late, and after newer
// events. The payment has the status that it had when the event happened.
type Event struct {
	ID      string    `json:"id"` // the same in every delivery
	Type    EventType `json:"type"`
	Time    time.Time `json:"time"`
	Payment Payment   `json:"payment"`
}

// Sign returns the value of SignatureHeader for a body that is sent now.
func Sign(secret, body []byte, now time.Time) string {
	t := strconv.FormatInt(now.Unix(), 10)
	return "t=" + t + ",v1=" + hex.EncodeToString(mac(secret, t, body))
}

// mac signs the time together with the body, so that neither can be replaced alone.
func mac(secret []byte, t string, body []byte) []byte {
	h := hmac.New(sha256.New, secret)
	h.Write([]byte(t))
	h.Write([]byte{'.'})
	h.Write(body)
	return h.Sum(nil)
}

const (
	maxHeader     = 1 << 10 // the length of a SignatureHeader in bytes
	maxSignatures = 4       // the number of v1 in a SignatureHeader
)

// Verify checks that body was signed with secret, at most Tolerance ago. Call it with the bytes
// that arrived, before they are parsed. It returns ErrSignature or ErrStale if the check fails.
func Verify(secret []byte, header string, body []byte, now time.Time) error {
	if len(secret) == 0 {
		return fmt.Errorf("%w: there is no secret to check it with", ErrSignature)
	}
	t, signatures, err := parseSignature(header)
	if err != nil {
		return err
	}
	want, valid := mac(secret, t, body), false
	for _, s := range signatures {
		valid = hmac.Equal(s, want) || valid
	}
	if !valid {
		return ErrSignature
	}
	// The time is checked last, so that only correctly signed webhooks get ErrStale.
	sec, err := strconv.ParseInt(t, 10, 64)
	if err != nil {
		return fmt.Errorf("%w: its time is not a number", ErrSignature)
	}
	if age := now.Unix() - sec; age > int64(Tolerance/time.Second) || age < -int64(Tolerance/time.Second) {
		return ErrStale
	}
	return nil
}

// parseSignature returns the time, as the text that was signed, and the signatures. Schemes other
// than v1 are ignored, as Stripe asks receivers to do.
func parseSignature(header string) (t string, signatures [][]byte, err error) {
	if len(header) > maxHeader {
		return "", nil, fmt.Errorf("%w: the header has more than %d bytes", ErrSignature, maxHeader)
	}
	for part := range strings.SplitSeq(header, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		switch name {
		case "t":
			if t != "" {
				return "", nil, fmt.Errorf("%w: the header has two times", ErrSignature)
			}
			t = value
		case "v1":
			if s, err := hex.DecodeString(value); err == nil && len(signatures) < maxSignatures {
				signatures = append(signatures, s)
			}
		}
	}
	if t == "" || len(signatures) == 0 {
		return "", nil, fmt.Errorf("%w: the header %s must be t=TIME,v1=SIGNATURE", ErrSignature, SignatureHeader)
	}
	return t, signatures, nil
}

// ParseEvent reads the body of a webhook. It returns ErrEvent unless the body is one JSON object
// with an id and a type and, if the type begins with "payment." or is "refund.failed", the id of a payment.
// The payment's other fields may be missing: ask the provider for them. Unknown fields are ignored,
// because providers add new ones.
func ParseEvent(body []byte) (Event, error) {
	var e Event
	if len(body) > MaxEvent {
		return Event{}, fmt.Errorf("%w: it has more than %d bytes", ErrEvent, MaxEvent)
	}
	if !utf8.Valid(body) {
		return Event{}, fmt.Errorf("%w: it is not UTF-8", ErrEvent)
	}
	if err := json.Unmarshal(body, &e); err != nil {
		return Event{}, fmt.Errorf("%w: %w", ErrEvent, err)
	}
	switch {
	case !printable(e.ID, maxID), !printable(string(e.Type), maxID):
		return Event{}, fmt.Errorf("%w: it needs an id and a type", ErrEvent)
	case (strings.HasPrefix(string(e.Type), "payment.") || e.Type == EventRefundFailed) &&
		!printable(e.Payment.ID, maxID):
		return Event{}, fmt.Errorf("%w: its payment needs an id", ErrEvent)
	}
	return e, nil
}
