package backend

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// ErrNotSingle means that the Redis at a URL is not a single server without TLS, so a proxy cannot
// be put between it and its clients.
var ErrNotSingle = errors.New("not a single Redis without TLS")

// SingleAddr returns the host:port in the URL of a single Redis without TLS. Errors wrap ErrSpec
// for a wrong URL, and ErrNotSingle for any other kind of Redis, including the value
// "local:cluster" of -redis. They never contain the password.
func SingleAddr(url string) (string, error) {
	if url == privateCluster { // the cluster has not been started yet
		return "", ErrNotSingle
	}
	target, err := parseRedisURL(url)
	if err != nil {
		return "", err
	}
	if target.cluster || target.master != "" || target.options.TLSConfig != nil {
		return "", ErrNotSingle
	}
	return target.addrs[0], nil
}

// WithAddr returns the URL of a single Redis with addr in place of its host:port. Its errors are
// those of SingleAddr.
func WithAddr(url, addr string) (string, error) {
	if _, err := SingleAddr(url); err != nil {
		return "", err
	}
	if _, err := checkAddr(addr); err != nil {
		return "", fmt.Errorf("%w for -redis: the address to lead to %w", ErrSpec, err)
	}
	scheme, rest, _ := strings.Cut(withScheme(url), "://")
	authority, tail := cutAuthority(rest)
	user := authority[:strings.LastIndex(authority, "@")+1]
	return scheme + "://" + user + addr + tail, nil
}

// WithReadTimeout adds the read timeout to the URL of a Redis, unless the URL already has one, and
// returns the URL. The error wraps ErrSpec for a wrong URL.
func WithReadTimeout(url string, d time.Duration) (string, error) {
	target, err := parseRedisURL(url)
	if err != nil {
		return "", err
	}
	if target.options.ReadTimeout != 0 {
		return url, nil
	}
	url = withScheme(url)
	separator := "?"
	if strings.Contains(url, "?") {
		separator = "&"
	}
	return url + separator + "read_timeout=" + d.String(), nil
}
