package shop

import (
	"testing"
	"time"
)

// In tests, closing shops wait for up to an hour, so that a busy machine changes nothing. If a shop
// hangs, the time limit of go test ends the test.
func init() { drainTimeout, sectionTimeout, countTimeout = time.Hour, time.Hour, time.Hour }

// SetTimes sets how long closing shops wait for requests, and then for purchases, until the test
// ends. The test must not be parallel.
func SetTimes(t *testing.T, drain, section time.Duration) {
	drainTimeout, sectionTimeout = drain, section
	t.Cleanup(func() { drainTimeout, sectionTimeout = time.Hour, time.Hour })
}
