//go:build !js

// Command browser is the lab compiled to WebAssembly. In a browser it plays schedules and runs
// cells as a shop does. Redis is miniredis in the same memory, and time is virtual. The page's
// labworker.js starts it.
package main

import (
	"fmt"
	"os"
)

// main prints how to use the program, when it is not run in a browser.
func main() {
	fmt.Fprintln(os.Stderr,
		"browser: this program runs in a browser; go run ./cmd/lab -site FOLDER compiles it for one")
	os.Exit(2)
}
