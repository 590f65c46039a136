package lock

import (
	"context"
	"errors"
)

// errNoOwner is a bug in the calling program, so nobody needs to match it.
var errNoOwner = errors.New("lock: no owner in the context: see WithOwner")

// ownerKey is the type of the context key, so that no other package can set it.
type ownerKey struct{}

// WithOwner returns a copy of ctx that acquires and releases locks as owner.
//
// An owner is one unit of work, such as a request: everything called with its
// context re-enters the locks it holds. The name must be unique among all
// processes, for example a UUID made at start-up plus a request number. Two
// goroutines with one owner do not keep each other out.
func WithOwner(ctx context.Context, owner string) context.Context {
	return context.WithValue(ctx, ownerKey{}, owner)
}

// ownerFrom returns the owner that WithOwner put into ctx.
func ownerFrom(ctx context.Context) (string, error) {
	if owner, _ := ctx.Value(ownerKey{}).(string); owner != "" {
		return owner, nil
	}
	return "", errNoOwner
}
