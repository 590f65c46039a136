package guard

import "context"

// tokenKey is the type of the context key: unexported, so that it cannot collide.
type tokenKey struct{}

// withToken returns a copy of ctx that carries the fencing token of a hold.
func withToken(ctx context.Context, token int64) context.Context {
	return context.WithValue(ctx, tokenKey{}, token)
}

// Token returns the fencing token of the hold under which a section runs, or false if its
// lock has none. The section must send the token with every read and write of the guarded
// resource.
func Token(ctx context.Context) (int64, bool) {
	token, ok := ctx.Value(tokenKey{}).(int64)
	return token, ok
}
