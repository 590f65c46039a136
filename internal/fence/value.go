package fence

import (
	"context"
	_ "embed"
	"errors"

	"github.com/redis/go-redis/v9"
)

var (
	//go:embed get.lua
	getSource string
	getScript = redis.NewScript(getSource)

	//go:embed set.lua
	setSource string
	setScript = redis.NewScript(setSource)
)

// Value is a string in Redis that is read and written with fencing tokens. The token is checked
// in the same step. It is safe for concurrent use.
type Value struct {
	Client redis.Scripter
	Key    string // of the value; on a cluster it and Fence need the same hash tag
	Fence  string // the key of the largest token seen, a hash; it expires with the value

	// Lock names the lock. Tokens of different locks cannot be compared: if two locks are in use at
	// the same time, the holder that read last may write. With one lock it may be "".
	Lock string
}

// Get reads the value for the holder with this token, and refuses all holders with a smaller one
// from now on. It returns a StaleError if a larger token has been seen, ErrMissing if there is no
// value, and the client's errors unwrapped: the caller should add what was being read.
func (v Value) Get(ctx context.Context, token int64) (string, error) {
	cmd := getScript.Run(ctx, v.Client, v.keys(), v.Lock, token)
	if errors.Is(cmd.Err(), redis.Nil) {
		return "", ErrMissing
	}
	if seen, err := cmd.Int64Slice(); err == nil {
		return "", StaleError{seen[0]}
	}
	return cmd.Text()
}

// Set writes the value for the holder with this token, which must have called Get before. It keeps
// the value's expiry. It returns ErrStaleToken if a larger token or a token of another lock has
// been seen, and ErrMissing if there is no value. After any other error, which is the client's, it
// is unknown whether the value was written.
func (v Value) Set(ctx context.Context, token int64, value any) error {
	written, err := setScript.Run(ctx, v.Client, v.keys(), v.Lock, token, value).Int()
	switch {
	case err != nil:
		return err
	case written < 0:
		return ErrMissing
	case written == 0:
		return ErrStaleToken
	}
	return nil
}

func (v Value) keys() []string { return []string{v.Key, v.Fence} }
