package shop

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
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

// payments connects the shop to its payment provider.
type payments struct {
	client *payment.Client // nil: there is none

	own     *payment.Server // nil: the provider is another process
	stop    context.CancelFunc
	serving sync.WaitGroup
}

// openPayments creates a client of the provider and adds it to the config. If the provider is
// embedded, openPayments starts it.
func openPayments(ctx context.Context, cfg *Config) (p *payments, err error) {
	p = &payments{stop: func() {}}
	address := cfg.Provider
	switch address {
	case "":
		return p, nil
	case OwnProvider:
		cfg.Holds.Ledger = holds.OwnLedger + uuid.NewString()
		address, err = p.start(ctx, cfg)
	default:
		cfg.Holds.Ledger, err = ledgerNameOf(cmp.Or(cfg.Holds.Ledger, address))
	}
	if err != nil {
		return nil, err
	}
	if p.client, err = payment.NewClient(payment.ClientConfig{URL: address}); err != nil {
		p.close()
		return nil, err
	}
	cfg.Holds.Payments = p.client
	if u, err := url.Parse(address); err == nil {
		cfg.Logger.Info("payments", "provider", u.Redacted()) // without the password
	}
	return p, nil
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

// start serves a provider on a free loopback port until close. It does not end with ctx, because
// purchases in progress still need it.
func (p *payments) start(ctx context.Context, cfg *Config) (address string, err error) {
	cfg.Web.WebhookSecret = []byte(rand.Text())
	p.own = payment.NewServer(payment.Config{Secret: cfg.Web.WebhookSecret, Logger: cfg.Logger})
	cfg.Web.Ledger = p.own.Group
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("starting the payment provider: %w", err)
	}
	ctx, p.stop = context.WithCancel(context.WithoutCancel(ctx))
	p.serving.Go(func() {
		if err := p.own.Serve(ctx, l); err != nil {
			cfg.Logger.Error("the payment provider ended", "error", err)
		}
	})
	return "http://" + l.Addr().String(), nil
}

// webhooksTo tells the embedded provider the address at which the shop listens. Any other provider
// gets the address when it is started.
func (p *payments) webhooksTo(addr net.Addr) error {
	tcp, ok := addr.(*net.TCPAddr)
	if p.own == nil || !ok {
		return nil
	}
	host := tcp.IP.String()
	if tcp.IP.IsUnspecified() {
		host = "127.0.0.1"
	}
	return p.own.SetWebhook("http://" + net.JoinHostPort(host, strconv.Itoa(tcp.Port)) + webhookPath)
}

// close ends the embedded provider, and closes the client's connections.
func (p *payments) close() {
	p.stop()
	p.serving.Wait()
	if p.client != nil {
		p.client.Close()
	}
}
