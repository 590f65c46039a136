// Command provider is a payment provider for tests and demonstrations. It moves no money, and fails
// on request.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"syscall"

	"oversell/internal/payment"
)

// The exit codes.
const (
	exitOK     = 0
	exitFailed = 1 // it failed while running
	exitUnable = 2 // it could not start
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program immediately
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// options holds the values of the flags.
type options struct{ addr, secretFile, webhook, ledger string }

func flags(o *options) *flag.FlagSet {
	fs := flag.NewFlagSet("provider", flag.ContinueOnError)
	fs.StringVar(&o.addr, "addr", "127.0.0.1:8090", "`address` to listen on; port 0 takes a free one")
	fs.StringVar(&o.secretFile, "secret-file", "", "`file` with the secret that signs the webhooks, 16 bytes or more")
	fs.StringVar(&o.webhook, "webhook", "", "`URL` that the webhooks go to; empty: nowhere, until PUT /webhook")
	fs.StringVar(&o.ledger, "ledger", "", "`file` that keeps all payments and idempotency keys: "+
		"what it has answered\nsurvives kill -9; empty: in memory only")
	return fs
}

const usage = `provider is a payment provider for tests: it moves no money, and fails when it is told to.

  openssl rand -hex 32 > secret
  provider -secret-file secret -webhook http://127.0.0.1:8080/api/payments/webhook
  provider -secret-file secret -ledger ledger.jsonl   it remembers all payments after kill -9
  provider -secret-file secret -addr 127.0.0.1:0      a free port, which is printed

  P=http://127.0.0.1:8090
  curl $P/payments -H 'Idempotency-Key: a1' -d '{"reference":"hold-1","amount":1250,"currency":"EUR"}'
  curl -X POST $P/payments/ID/capture -H 'Idempotency-Key: c1'
  curl -X POST $P/payments/ID/refund -H 'Idempotency-Key: r1'   cancels it if it is only authorised
  curl $P/payments/ID
  curl "$P/payments?reference=hold-1"                 all payments for it
  curl $P/ledger                                      everything that happened to the payments
  curl $P/deliveries                                  what became of the webhooks

  curl -X PUT $P/faults -d '{"lose_reply_to":["capture"]}'   charge, and close the connection
  curl -X PUT $P/faults -d '{"reply_delay":"3s"}'            do it, and reply late
  curl -X PUT $P/faults -d '{"reply_delay":"3s","delay_reply_to":["authorise"]}'
  curl -X PUT $P/faults -d '{"webhook_delay":"20s","webhook_twice":true}'
  curl -X PUT $P/faults -d '{"webhook_reverse":"2s"}'        the newest webhook first
  curl -X PUT $P/faults -d '{"webhook_drop_every":2,"decline_every":3,"fail_every":4}'
  curl -X PUT $P/faults -d '{"refund_fails":"5s"}'           accept a refund, and let it fail later
  curl -X PUT $P/faults -d '{}'                              no faults

Without -ledger everything is kept in memory. When the provider ends, undelivered webhooks and
faults are lost in any case. SIGTERM ends it.

Flags:
`

// run runs the program, and returns its exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var o options
	fs := flags(&o)
	fs.SetOutput(io.Discard) // the error is returned as well
	err := fs.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(stdout, usage)
		fs.SetOutput(stdout)
		fs.PrintDefaults()
		return exitOK
	}
	if err == nil && fs.NArg() > 0 {
		err = fmt.Errorf("%q is not a flag", fs.Arg(0))
	}
	if err != nil {
		return complain(stderr, exitUnable, fmt.Errorf("%w (provider -h shows the flags)", err))
	}
	log := slog.New(slog.NewTextHandler(stderr, nil))
	var journal *payment.Journal
	if o.ledger != "" {
		if journal, err = payment.OpenJournal(o.ledger, log); err != nil {
			return complain(stderr, exitUnable, fmt.Errorf("-ledger: %w", err))
		}
		defer journal.Close() // each record is on the disk already
	}
	server, l, err := open(o, journal, log)
	if err != nil {
		return complain(stderr, exitUnable, err)
	}
	fmt.Fprintf(stdout, "The payment provider is at http://%s\n", l.Addr())
	if err := server.Serve(ctx, l); err != nil {
		return complain(stderr, exitFailed, err)
	}
	return exitOK
}

func complain(stderr io.Writer, code int, err error) int {
	fmt.Fprintf(stderr, "provider: %v\n", err)
	return code
}

// open returns the provider, and the listener to serve it on.
func open(o options, journal *payment.Journal, log *slog.Logger) (*payment.Server, net.Listener, error) {
	if o.secretFile == "" {
		return nil, nil, errors.New("-secret-file is missing (provider -h shows an example)")
	}
	secret, err := payment.ReadSecret(o.secretFile)
	if err != nil {
		return nil, nil, fmt.Errorf("-secret-file: %w", err)
	}
	server := payment.NewServer(payment.Config{Secret: secret, Journal: journal, Logger: log})
	if err := server.SetWebhook(o.webhook); err != nil {
		return nil, nil, fmt.Errorf("-webhook: %w", err)
	}
	l, err := net.Listen("tcp", o.addr)
	if err != nil {
		return nil, nil, fmt.Errorf("-addr: %w", err)
	}
	return server, l, nil
}
