package shop

import (
	"testing"
	"time"
)

// By default the waits of a shop in a test are unlimited, so that a busy machine changes nothing. A
// shop that waits forever fails by the time limit of the tests.
func init() { drainTimeout, sectionTimeout, countTimeout = time.Hour, time.Hour, time.Hour }

// SetTimes sets how long closing shops wait for requests, and then for purchases, until the test
// ends. The test must not be parallel.
func SetTimes(t *testing.T, drain, section time.Duration) {
	drainTimeout, sectionTimeout = drain, section
	t.Cleanup(func() { drainTimeout, sectionTimeout = time.Hour, time.Hour })
}
