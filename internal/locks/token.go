package locks

import "context"

// tokenKey is the type of the context key, so that no other package has it.
type tokenKey struct{}

// withToken returns a copy of ctx that carries the fencing token of a hold.
func withToken(ctx context.Context, token int64) context.Context {
	return context.WithValue(ctx, tokenKey{}, token)
}

// Token returns the fencing token of the hold under which a section runs, and
// false where its lock has none. Who guards a resource by such a lock sends the
// token along with everything that is read and written there.
func Token(ctx context.Context) (int64, bool) {
	token, ok := ctx.Value(tokenKey{}).(int64)
	return token, ok
}
