// Package backend opens the servers that the flags -redis and -db name.
//
// Opening takes two steps, because one process may start a server that other processes use.
// ServeRedis and ServeDatabase turn the value of a flag into a URL, and start a server if the value
// asks for one. DialRedis and DialDatabase connect to such a URL from any process on the machine.
package backend

import (
	"errors"
	"runtime/debug"
	"strings"
	"time"

	"oversell/internal/backend/local"
)

var (
	// ErrSpec means that a value of -redis or -db is invalid. The text of an error that wraps it
	// is one line and says what is allowed.
	ErrSpec = errors.New("invalid value")

	// ErrMissing means that "local" needs a binary that is not in the PATH. The text of an error
	// that wraps it names the binary and says how to install it.
	ErrMissing = local.ErrMissing

	// ErrUnreachable means that no server answers at a well-formed address, or that the server
	// refuses the password. Errors that wrap it also wrap the cause.
	ErrUnreachable = errors.New("unreachable")
)

// These values of -redis and -db start a server. The last value is only for -redis.
const (
	embedded       = "embedded"
	privateOnly    = "local"
	privateCluster = "local:cluster"
)

// StartsRedis reports whether a value of -redis starts a private Redis, instead of naming an
// existing one.
func StartsRedis(spec string) bool {
	return spec == embedded || spec == privateOnly || spec == privateCluster
}

// dialTimeout limits DialRedis and DialDatabase.
const dialTimeout = 3 * time.Second

// moduleVersion returns the version, without the v, of a module in this program. It returns "" if
// the build does not record it.
func moduleVersion(path string) string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, m := range info.Deps {
		if m.Path == path {
			return strings.TrimPrefix(m.Version, "v")
		}
	}
	return ""
}

// isWord reports whether s is a short word that is safe to repeat in an error. A longer string, or
// a string with other characters, may contain a password.
func isWord(s string) bool {
	if len(s) > 16 {
		return false
	}
	return !strings.ContainsFunc(s, func(r rune) bool { return r < 'a' || r > 'z' })
}
