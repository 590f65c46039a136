package shop

import (
	"testing"
	"time"
)

// By default a shop of a test waits for whatever it waits for, so that a busy machine changes
// nothing, and a shop that waits in vain fails by the time limit of the tests.
func init() { drainTimeout, sectionTimeout, countTimeout = time.Hour, time.Hour, time.Hour }

// SetTimes has shops that close wait so long for requests, and then for sales, until the test ends.
// The test must not be parallel.
func SetTimes(t *testing.T, drain, section time.Duration) {
	drainTimeout, sectionTimeout = drain, section
	t.Cleanup(func() { drainTimeout, sectionTimeout = time.Hour, time.Hour })
}
