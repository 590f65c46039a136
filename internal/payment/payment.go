// Package payment contains a payment provider, and the interface that a shop needs. Provider is
// narrow, so that Stripe or Adyen can implement it. Client is a Provider over HTTP. Server is a
// small provider for tests and demonstrations: it moves no money, delivers signed webhooks, fails
// on request (see Faults), and keeps its state in memory or in a file (see Journal). Audit compares
// its ledger with the orders.
package payment

import (
	"context"
	"errors"
	"time"
)

// Provider authorises, captures and refunds payments. Each call that changes something has an
// idempotency key: calls with the same key and arguments do the work once and return the first
// result, even if that is a decline. The same key with other arguments returns ErrKeyReused.
type Provider interface {
	// Authorise reserves the amount on the buyer's account. If the payment is declined, it returns
	// the payment and ErrDeclined.
	Authorise(ctx context.Context, r Request) (Payment, error)

	// Capture charges the buyer for an authorised payment. It returns ErrConflict if the
	// payment was captured with another key, cancelled, declined or refunded.
	Capture(ctx context.Context, paymentID, key string) (Payment, error)

	// Refund undoes a payment: a captured one is refunded, and one that is only authorised
	// is cancelled, so that it cannot be captured any more. It returns ErrConflict if the
	// payment was refunded or cancelled with another key, or declined.
	//
	// A provider may accept a refund that is not final yet: then the payment that it returns is
	// neither Refunded nor Cancelled. Even a final refund may fail later. Then the provider sends
	// EventRefundFailed, and the payment's status goes back to Captured. The next attempt needs a new
	// key.
	Refund(ctx context.Context, paymentID, key string) (Payment, error)

	// Payment returns the payment as it is now.
	Payment(ctx context.Context, id string) (Payment, error)

	// Find returns the payments with a reference, as they are now, the oldest first. It needs no
	// idempotency key, so it can find the payment of a request whose key is always answered with an
	// error.
	Find(ctx context.Context, reference string) ([]Payment, error)
}

// The errors of a Provider.
var (
	ErrInvalid        = errors.New("payment: invalid request")
	ErrDeclined       = errors.New("payment: declined")
	ErrUnknownPayment = errors.New("payment: unknown payment")
	ErrConflict       = errors.New("payment: the status of the payment does not allow this")
	ErrKeyReused      = errors.New("payment: the idempotency key was used for another request")

	// ErrUnavailable means that the provider gave no answer, or one that makes no sense. The work
	// may have been done. To find out, repeat the call with the same key.
	ErrUnavailable = errors.New("payment: no answer from the provider")
)

// Request is a payment to authorise.
type Request struct {
	Key string `json:"-"` // idempotency key: 1 to 255 printable ASCII characters
	// Reference is the shop's name for what is paid for, such as a hold's id: 1 to 200 printable
	// ASCII characters.
	Reference string `json:"reference"`
	Amount    int64  `json:"amount"`   // in minor units, such as cents
	Currency  string `json:"currency"` // three capital letters, as in ISO 4217

	// Group is the shop's name for payments that belong together, such as a sale's id. It may be
	// empty; otherwise it has the form of a Reference.
	Group string `json:"group,omitempty"`
}

// MaxAmount is the largest amount of one payment, in minor units. It is Stripe's limit.
const MaxAmount = 99_999_999

// Payment is one payment and its status.
type Payment struct {
	ID        string    `json:"id"`
	Reference string    `json:"reference"`
	Amount    int64     `json:"amount"`
	Currency  string    `json:"currency"`
	Status    Status    `json:"status"`
	Group     string    `json:"group,omitempty"`
	CreatedAt time.Time `json:"created_at"`
}

// Money is an amount in minor units of a currency.
type Money struct {
	Amount   int64
	Currency string
}

// Money returns the payment's amount and currency.
func (p Payment) Money() Money { return Money{p.Amount, p.Currency} }

// Status is the state of a payment.
type Status string

// The statuses. A payment begins as authorised or declined; an authorised one is captured or
// cancelled, and a captured one may be refunded. If the refund fails, the status goes back to
// captured.
const (
	Authorised Status = "authorised"
	Declined   Status = "declined"
	Captured   Status = "captured"
	Cancelled  Status = "cancelled" // refunded before it was captured: no money moved
	Refunding  Status = "refunding" // the refund was accepted, but is not final
	Refunded   Status = "refunded"
)

// refundFailed is a status that only an Entry has. The payment's own status goes back to Captured.
const refundFailed Status = "refund_failed"
