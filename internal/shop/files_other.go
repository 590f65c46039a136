//go:build !unix

package shop

import "math"

// OpenFiles returns a very large number, because this system has no such limit.
func OpenFiles() int { return math.MaxInt32 }
