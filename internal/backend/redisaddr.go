package backend

import (
	"errors"
	"fmt"
	"strings"
)

// ErrNotSingle is returned for the URL of a Redis that is not one server
// without TLS: nothing could be put between it and its clients.
var ErrNotSingle = errors.New("not a single Redis without TLS")

// SingleAddr returns the host:port in the URL of a single Redis without TLS. The
// errors wrap ErrSpec for a wrong URL, ErrNotSingle for one of another Redis, and
// repeat nothing of a password.
func SingleAddr(url string) (string, error) {
	target, err := parseRedisURL(url)
	if err != nil {
		return "", err
	}
	if target.cluster || target.master != "" || target.options.TLSConfig != nil {
		return "", ErrNotSingle
	}
	return target.addrs[0], nil
}

// WithAddr returns the URL of a single Redis, see SingleAddr for the errors, with
// another host:port in it.
func WithAddr(url, addr string) (string, error) {
	if _, err := SingleAddr(url); err != nil {
		return "", err
	}
	if _, err := checkAddr(addr); err != nil {
		return "", fmt.Errorf("%w for -redis: the address to lead to %w", ErrSpec, err)
	}
	scheme, rest, _ := strings.Cut(url, "://")
	authority, tail := cutAuthority(rest)
	user := authority[:strings.LastIndex(authority, "@")+1]
	return scheme + "://" + user + addr + tail, nil
}
