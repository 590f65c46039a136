package lock

import "context"

// ownerKey is the type of the context key, so that no other package can set it.
type ownerKey struct{}

// WithOwner returns a copy of ctx that acquires and releases locks as owner. An owner
// is one unit of work. Its name must be unique among all processes. A lock that does
// not count its holds does not need owners.
func WithOwner(ctx context.Context, owner string) context.Context {
	return context.WithValue(ctx, ownerKey{}, owner)
}
