package payment

import (
	"fmt"
	"regexp"
)

// The limits of the fields of a request, in bytes.
const (
	maxKey       = 255
	maxReference = 200
	maxID        = 100
)

// check returns ErrInvalid if the request is not valid. It does not check the key; checkKey does.
func (r Request) check() error {
	switch {
	case !printable(r.Reference, maxReference):
		return fmt.Errorf("%w: the reference must be 1 to %d printable ASCII characters", ErrInvalid, maxReference)
	case r.Group != "" && !printable(r.Group, maxReference):
		return fmt.Errorf("%w: the group must be at most %d printable ASCII characters", ErrInvalid, maxReference)
	case r.Amount < 1 || r.Amount > MaxAmount:
		return fmt.Errorf("%w: the amount must be 1 to %d", ErrInvalid, MaxAmount)
	case !currency.MatchString(r.Currency):
		return fmt.Errorf("%w: the currency must be three capital letters", ErrInvalid)
	}
	return nil
}

func checkKey(key string) error {
	if !printable(key, maxKey) {
		return fmt.Errorf("%w: the idempotency key must be 1 to %d printable ASCII characters", ErrInvalid, maxKey)
	}
	return nil
}

var (
	visible   = regexp.MustCompile(`^[!-~]+$`)
	currency  = regexp.MustCompile(`^[A-Z]{3}$`)
	paymentID = regexp.MustCompile(`^[0-9A-Za-z_-]{1,100}$`) // ids are used in paths
)

// printable reports whether s consists of visible ASCII characters: at least one, and at most the
// given number.
func printable(s string, most int) bool { return len(s) <= most && visible.MatchString(s) }
