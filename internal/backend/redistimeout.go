package backend

import (
	"fmt"
	"strings"
	"time"
)

// WithReadTimeout returns the URL of a Redis with the given read timeout added,
// unless the URL already has one. The error wraps ErrSpec for a wrong URL.
func WithReadTimeout(url string, d time.Duration) (string, error) {
	target, err := parseRedisURL(url)
	if err != nil {
		return "", err
	}
	if target.options.ReadTimeout != 0 {
		return url, nil
	}
	first, others, err := cutURLs(url)
	if err != nil {
		return "", fmt.Errorf("%w for -redis: %w", ErrSpec, err)
	}
	urls := []string{withParameter(first, "read_timeout", d.String())}
	for _, other := range others {
		// If another URL of the list has parameters, they must equal the first
		// one's.
		if strings.Contains(other, "?") {
			other = withParameter(other, "read_timeout", d.String())
		}
		urls = append(urls, other)
	}
	return strings.Join(urls, ","), nil
}

func withParameter(url, name, value string) string {
	separator := "?"
	if strings.Contains(url, "?") {
		separator = "&"
	}
	return url + separator + name + "=" + value
}
