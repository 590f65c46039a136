package lock

import "context"

// ownerKey is the type of the context key, so that no other package can set it.
type ownerKey struct{}

// WithOwner returns a copy of ctx that acquires and releases locks as owner: one unit
// of work, by a name that is unique among all processes. A lock that does not count
// its holds does not need it.
func WithOwner(ctx context.Context, owner string) context.Context {
	return context.WithValue(ctx, ownerKey{}, owner)
}
