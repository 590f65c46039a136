package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"oversell/internal/bench"
	"oversell/internal/bench/report"
	"oversell/internal/present"
)

const auditUsage = `Audit checks the sale of an item in a running shop, after any load tool has bought
from it: whether the stock and the orders agree, and whether there are as many orders as
buyers were told of. It compares numbers, and not each order with its buyer's reply.

Usage: bench audit [-sku NAME] [-told FILE] [-wait TIME] [-json] URL

Examples:
  go run ./bench audit http://127.0.0.1:8080                     the books of the item hot
  vegeta report -type=json results.bin >told.json
  go run ./bench audit -told told.json http://127.0.0.1:8080     and how many were told "sold"
  load/run wrk http://127.0.0.1:8080                             a sale, wrk's load, and this

FILE is JSON with requests and status_codes, as vegeta reports them; the status 0 means
no reply. It may have dropped, cut_off and sold, which docs/bench.md explains. All its
requests must have bought from the sale that is on now.

Exit code: 0 if the books agree, 1 if they do not or requests were dropped or are
unaccounted for, 2 if the books could not be checked.

`

// auditSale runs the audit command, and reports whether the books agree.
func auditSale(ctx context.Context, args []string, stdout io.Writer) (agree bool, err error) {
	var cfg bench.AuditConfig
	fs := flag.NewFlagSet("audit", flag.ContinueOnError)
	fs.SetOutput(io.Discard) // an error is reported once, by the caller
	fs.StringVar(&cfg.SKU, "sku", "hot", "`NAME` of the item")
	fs.DurationVar(&cfg.Wait, "wait", 10*time.Second,
		"`TIME` within which units in flight and accepted orders must settle")
	file := fs.String("told", "", "`FILE` with what the load tool's buyers were told; - for standard input")
	asJSON := fs.Bool("json", false, "write JSON instead of a table")
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			fmt.Fprint(stdout, auditUsage)
			fs.SetOutput(stdout)
			fs.PrintDefaults()
		}
		return false, err
	}
	if err := oneURL(fs.Args()); err != nil {
		return false, err
	}
	if cfg.Wait < 0 || cfg.Wait > time.Hour {
		return false, fmt.Errorf("-wait is %v; it must be 0s to 1h", cfg.Wait)
	}
	cfg.URL = fs.Arg(0)
	if *file != "" {
		if cfg.Told, err = toldBy(*file); err != nil {
			return false, err
		}
	}
	found, err := bench.Audit(ctx, cfg)
	if err != nil {
		return false, err
	}
	write := writeAudit
	if *asJSON {
		write = func(w io.Writer, r bench.AuditResult) error { return json.NewEncoder(w).Encode(r) }
	}
	return len(found.Problems) == 0, write(stdout, found)
}

// oneURL returns an error unless the arguments after the flags are one URL.
func oneURL(args []string) error {
	if len(args) == 1 {
		return nil
	}
	if slices.ContainsFunc(args, func(arg string) bool { return strings.HasPrefix(arg, "-") }) {
		return errors.New("flags come before the URL (-h shows how)")
	}
	return fmt.Errorf("%d URLs given; it takes one (-h shows how)", len(args))
}

// toldBy reads a load tool's report from the named file, or from standard input for "-". Its errors
// name the file.
func toldBy(name string) (told *bench.Told, err error) {
	f := os.Stdin
	if name != "-" {
		if f, err = os.Open(name); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, f.Close()) }()
	}
	if told, err = bench.ReadTold(f); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return told, nil
}

// writeAudit writes a table of the figures, and below it the problems that were found.
func writeAudit(out io.Writer, r bench.AuditResult) error {
	var b strings.Builder
	a := r.Audit
	line(&b, "initial", a.Initial, "remaining", a.Remaining, "sold", a.Sold, "orders", a.Orders, "in flight",
		a.InFlight,
		"oversold", a.Oversold, "lost updates", a.LostUpdates, "stranded", a.Stranded, "duplicates", a.Duplicates)
	if t := r.Told; t != nil {
		b.WriteString("\n")
		line(&b, "requests", t.Requests, "told sold", t.Confirmed(), "refused", t.Refused(), "failed", t.Failed(),
			"cut off", t.CutOff, "dropped", t.Unanswered())
	}
	if len(r.Problems) == 0 {
		b.WriteString("\nthe books agree: " + agreement(r) + "\n")
	} else {
		b.WriteString("\nthe books do not agree:\n")
	}
	for _, problem := range r.Problems {
		b.WriteString("  " + report.Printable(problem) + "\n")
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// line writes a one-row table. The arguments alternate between the name of a column and its figure.
func line(b *strings.Builder, figures ...any) {
	t := present.Table[[]any]{Rows: [][]any{figures}}
	for i := 0; i < len(figures); i += 2 {
		t.Number(fmt.Sprint(figures[i]), func(row []any) string { return fmt.Sprint(row[i+1]) })
	}
	b.WriteString(t.Text(present.Style{}))
}

// agreement says in one sentence what agrees in a sale without problems.
func agreement(r bench.AuditResult) string {
	const stock = "the stock and the orders add up"
	if r.Told == nil {
		return stock
	}
	if n := r.Told.Unknown(); n > 0 {
		return fmt.Sprintf("%s; there are %d orders, buyers were told of %d, and %d more requests may have bought",
			stock, r.Audit.Orders, r.Told.Confirmed(), n)
	}
	return stock + ", and there are as many orders as buyers were told of"
}
