package shop

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync"

	"github.com/google/uuid"

	"oversell/internal/holds"
	"oversell/internal/payment"
)

// webhookPath is the path of the provider's webhooks.
const webhookPath = "/api/payments/webhook"

// OwnProvider, as Config.Provider, makes the shop start an embedded payment provider on a loopback
// port. It forgets all payments when the shop ends, so it is only for trying things out.
const OwnProvider = "embedded"

// openPayments creates a client of the provider and adds it to the config. If the provider is
// embedded, openPayments starts it, and returns it as own. The caller must call end.
func openPayments(ctx context.Context, cfg *Config) (own *payment.Server, end func(), err error) {
	address, stop := cfg.Provider, func() {}
	switch address {
	case "":
		return nil, stop, nil
	case OwnProvider:
		cfg.Holds.Ledger = holds.OwnLedger + uuid.NewString()
		cfg.Web.WebhookSecret = []byte(rand.Text())
		own = payment.NewServer(payment.Config{Secret: cfg.Web.WebhookSecret, Logger: cfg.Logger})
		cfg.Holds.Entries = own.Group
		address, stop, err = start(ctx, own, cfg.Logger)
	default:
		cfg.Holds.Ledger, err = ledgerNameOf(cmp.Or(cfg.Holds.Ledger, address))
	}
	if err != nil {
		return nil, nil, err
	}
	client, err := payment.NewClient(payment.ClientConfig{URL: address})
	if err != nil {
		stop()
		return nil, nil, err
	}
	cfg.Holds.Payments = client
	if u, err := url.Parse(address); err == nil {
		cfg.Logger.Info("payments", "provider", u.Redacted()) // without the password
	}
	return own, func() { stop(); client.Close() }, nil
}

// maxLedgerName is the maximum length of holds.Config.Ledger, in bytes.
const maxLedgerName = 255

// ledgerNameOf returns the name or URL of a provider in the form that is stored with each payment.
// A URL is stored without user and password, and normalized, so that different spellings match.
func ledgerNameOf(provider string) (string, error) {
	name := provider
	if u, err := url.Parse(provider); err == nil && u.Host != "" {
		u.User = nil
		u.Host = strings.ToLower(u.Host)
		name = strings.TrimSuffix(u.String(), "/")
	}
	switch {
	case len(name) > maxLedgerName:
		return "", fmt.Errorf("the name of the payment provider has %d bytes; at most %d are allowed",
			len(name), maxLedgerName)
	case strings.TrimSpace(name) == "":
		return "", errors.New("the name of the payment provider is empty")
	case strings.HasPrefix(strings.ToLower(name), holds.OwnLedger):
		return "", fmt.Errorf("the name of the payment provider begins with %s, as do those of providers inside a shop",
			holds.OwnLedger)
	}
	return name, nil
}

// start serves a provider on a free loopback port until end. It does not end with ctx, because
// purchases in progress still need it.
func start(ctx context.Context, own *payment.Server, log *slog.Logger) (address string, end func(), err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, fmt.Errorf("starting the payment provider: %w", err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := own.Serve(ctx, l); err != nil {
			log.Error("the payment provider ended", "error", err)
		}
	})
	return "http://" + l.Addr().String(), func() { stop(); serving.Wait() }, nil
}

// webhooksTo tells the embedded provider, if there is one, the address at which the shop listens.
// Any other provider gets the address when it is started.
func webhooksTo(own *payment.Server, asked string, addr net.Addr) error {
	tcp, ok := addr.(*net.TCPAddr)
	if own == nil || !ok {
		return nil
	}
	return own.SetWebhook("http://" + hostPort(asked, tcp) + webhookPath)
}

// hostPort returns where a shop that was asked to listen at one address, and listens at another, can
// be reached from this machine. A name stays: the shop answers to it, and not to its IP address.
func hostPort(asked string, addr *net.TCPAddr) string {
	host, _, err := net.SplitHostPort(asked)
	if _, notIP := netip.ParseAddr(host); err != nil || host == "" || notIP == nil {
		host = addr.IP.String()
		if addr.IP.IsUnspecified() {
			host = "127.0.0.1"
		}
	}
	return net.JoinHostPort(host, strconv.Itoa(addr.Port))
}
