package lock

import "context"

// ownerKey is the type of the context key, so that no other package has it.
type ownerKey struct{}

// WithOwner returns a copy of ctx that takes and gives back locks as owner: one
// line of work, by a name that is unique among all processes. A lock that does
// not count its holds has no use for it.
func WithOwner(ctx context.Context, owner string) context.Context {
	return context.WithValue(ctx, ownerKey{}, owner)
}
