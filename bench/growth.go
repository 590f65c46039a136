package main

import (
	"errors"
	"fmt"
	"io"

	"oversell/internal/bench/growth"
	"oversell/internal/bench/report"
)

// growthArg makes this program say how the cost of a sale grows.
const growthArg = "growth"

const growthUsage = `Growth says how the cost of a sale grows with the number of shops, from reports that
differ in -instances and -items alone. It prints tables in Markdown.

Usage: bench growth FILE.json...

Examples:
  for n in 1 2 4 8; do for i in 1 10; do
    go run ./bench -redis local -db local -instances $n -items $i -requests 1000 -stock 1000000 \
      -ttl 1s -conditions calm -strategies lua_batch,sql_conditional -repeat 3 -json grow-$n-$i.json
  done; done
  go run ./bench growth grow-*.json

Each buyer must have bought, so that a request is a sale: give each item enough -stock.
The last column is the factor for each doubling of the shops, from a line through the
logarithms of the medians by least squares.

Exit code: 0 if the growth was computed, 2 if it cannot be.
`

// growthOf runs the command growth.
func growthOf(args []string, stdout, stderr io.Writer) int {
	if len(args) == 1 && (args[0] == "-h" || args[0] == "-help" || args[0] == "--help") {
		fmt.Fprint(stdout, growthUsage)
		return exitExpected
	}
	if err := writeGrowth(args, stdout); err != nil {
		fmt.Fprintln(stderr, "bench: growth:", err)
		return exitFailed
	}
	return exitExpected
}

func writeGrowth(names []string, stdout io.Writer) error {
	if len(names) == 0 {
		return errors.New("no file given (-h shows how)")
	}
	reports := make([]report.Report, len(names))
	for i, name := range names {
		var err error
		if reports[i], err = read(name); err != nil {
			return err
		}
	}
	return growth.Write(stdout, reports)
}
