package backend

import (
	"fmt"
	"strings"
	"time"
)

// WithReadTimeout returns the URL of a Redis with the time to wait for a reply
// added, unless the URL says it already. It returns ErrSpec for a wrong URL.
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
		// What has parameters must have the same ones as the first.
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
