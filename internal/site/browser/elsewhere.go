//go:build !js

// Command browser is the lab in a browser: what a shop runs for the page's scheduler, and for
// a cell of the lab, compiled to WebAssembly. Redis is miniredis in the same memory, and time
// is virtual. It is for the page's labworker.js.
package main

import (
	"fmt"
	"os"
)

// main says what the program is for, outside of a browser.
func main() {
	fmt.Fprintln(os.Stderr,
		"browser: this program runs in a browser; go run ./cmd/lab -site FOLDER compiles it for one")
	os.Exit(2)
}
