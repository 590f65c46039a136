package lock

import (
	"context"
	"errors"
)

// errNoOwner reports a bug in the calling program, so callers need not match it.
var errNoOwner = errors.New("lock: no owner in the context: see WithOwner")

// ownerKey is the type of the context key, so that no other package can set it.
type ownerKey struct{}

// WithOwner returns a copy of ctx that acquires and releases locks as owner.
//
// An owner is one unit of work, such as a request: every function called with its
// context re-enters the locks that the owner holds. The name must be unique among all
// processes, for example a UUID made at start-up plus a request number. Two
// goroutines with the same owner do not exclude each other.
func WithOwner(ctx context.Context, owner string) context.Context {
	return context.WithValue(ctx, ownerKey{}, owner)
}

// ownerFrom returns the owner that WithOwner has put into ctx.
func ownerFrom(ctx context.Context) (string, error) {
	if owner, _ := ctx.Value(ownerKey{}).(string); owner != "" {
		return owner, nil
	}
	return "", errNoOwner
}
