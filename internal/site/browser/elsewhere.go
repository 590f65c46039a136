//go:build !js

package main

import (
	"fmt"
	"os"
)

// main says what the program is for, outside of a browser.
func main() {
	fmt.Fprintln(os.Stderr, "browser: this program runs in a browser; go run ./cmd/lab -site FOLDER compiles it for one")
	os.Exit(2)
}
