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

// Value is a string in Redis that is read and written with fencing tokens. Redis checks the token
// in the same step. A Value is safe for concurrent use.
type Value struct {
	Client redis.Scripter
	Key    string // the key of the value; on a cluster, Key and Fence need the same hash tag
	Fence  string // the key of a hash that contains the largest token seen; it expires with the value

	// Lock names the lock. Tokens of different locks cannot be compared: if two locks are in use at the same
	// time, the holder that read last may write. If there is only one lock, Lock may be "".
	Lock string
}

// Get reads the value for the holder with this token. From then on, holders with a smaller token
// are refused. Get returns a StaleError if a larger token has been seen, and ErrMissing if there is
// no value. Get returns the client's errors unchanged: the caller should add what it was reading.
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
// been seen, and ErrMissing if there is no value. Any other error is the client's; it is then
// unknown whether the value was written.
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
