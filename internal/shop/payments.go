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

// webhookPath is where the provider tells the shop of payments.
const webhookPath = "/api/payments/webhook"

// OwnProvider as the Provider of a Config makes the shop start a payment provider of its own,
// on a loopback port. It forgets all payments when the shop ends: it is for trying things out.
const OwnProvider = "embedded"

// payments is the shop's way to its payment provider.
type payments struct {
	client *payment.Client // nil: there is none

	own     *payment.Server // nil: the provider is a process of its own
	stop    context.CancelFunc
	serving sync.WaitGroup
}

// openPayments dials the provider of the shop, or starts it, and adds it to the parts of the config.
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
	cfg.Logger.Info("payments", "provider", withoutPassword(address))
	return p, nil
}

// withoutPassword returns the URL of a provider as it may be logged.
func withoutPassword(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Redacted()
}

// maxLedgerName is the most bytes that holds.Config.Ledger may have.
const maxLedgerName = 255

// ledgerNameOf returns the name or URL of a provider as it is stored with each payment. A URL is
// stored without its user and password, and the same for spellings of one address.
func ledgerNameOf(provider string) (string, error) {
	name := provider
	if u, err := url.Parse(provider); err == nil && u.Host != "" {
		u.User = nil
		u.Host = strings.ToLower(u.Host)
		name = strings.TrimSuffix(u.String(), "/")
	}
	switch {
	case len(name) > maxLedgerName:
		return "", fmt.Errorf("the name of the payment provider has %d bytes, and may have %d",
			len(name), maxLedgerName)
	case strings.TrimSpace(name) == "":
		return "", errors.New("the name of the payment provider is empty")
	case strings.HasPrefix(strings.ToLower(name), holds.OwnLedger):
		return "", fmt.Errorf("the name of the payment provider begins with %s, as do those of providers inside a shop",
			holds.OwnLedger)
	}
	return name, nil
}

// start serves a provider on a free loopback port until close. Purchases that are in progress
// when ctx ends still need it.
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

// webhooksTo tells the shop's own provider where the shop listens. Any other one was told when
// it was started.
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

// close ends the shop's own provider, and the connections to any other one.
func (p *payments) close() {
	p.stop()
	p.serving.Wait()
	if p.client != nil {
		p.client.Close()
	}
}
