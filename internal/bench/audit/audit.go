// Package audit checks the sale of a running shop from outside, after any load tool has bought from
// it: whether stock and orders agree, and whether the number of orders equals the number that
// buyers were told of. It compares only numbers, because a load tool does not report which orders
// its buyers were told of.
package audit

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"oversell/internal/bench/client"
	"oversell/internal/guard"
	"oversell/internal/stock"
	"oversell/internal/web"
)

// ErrConfig is wrapped by the errors about an invalid Config or report.
var ErrConfig = errors.New("invalid config")

// Config says which sale to check.
type Config struct {
	URL  string        // of the shop, such as http://127.0.0.1:8080
	SKU  string        // of the item
	Wait time.Duration // how long accepted orders, units in flight and a busy shop may take to settle
	Told *Told         // what the buyers were told; nil: not known
}

// every is the time between two audits of a shop.
const every = 200 * time.Millisecond

// Result is what Check found.
type Result struct {
	Audit    web.Audit `json:"audit"`
	Told     *Told     `json:"told,omitempty"`
	Problems []string  `json:"problems"` // one sentence each; empty if all figures agree
}

// Check waits until the sale has settled and returns what it found. An error, such as ErrConfig,
// means that the check could not be made.
func Check(ctx context.Context, cfg Config) (Result, error) {
	base, err := shopURL(cfg.URL, cfg.SKU)
	if err != nil {
		return Result{}, err
	}
	shop := client.Shops{Client: client.New("", 30*time.Second), Patience: client.Patience{First: every, Last: every}}
	defer shop.CloseIdleConnections()
	found := Result{Told: cfg.Told, Problems: []string{}}
	var settled bool
	found.Audit, settled, err = settle(ctx, shop.At(base), cfg)
	if err != nil {
		return found, err
	}
	if !settled {
		found.add("the sale has not settled after %v: %d units are in flight, %d of them in accepted orders that "+
			"are not written",
			cfg.Wait, found.Audit.InFlight, found.Audit.Unwritten)
	}
	found.judgeStock()
	if cfg.Told != nil {
		found.judgeTold()
	}
	return found, nil
}

func shopURL(base, sku string) (string, error) {
	if err := stock.CheckSKU(sku); err != nil {
		return "", fmt.Errorf("%w: %w", ErrConfig, err)
	}
	if !strings.Contains(base, "://") {
		return "", fmt.Errorf("%w: the URL %q does not begin with http:// or https://", ErrConfig, base)
	}
	u, err := url.Parse(base)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrConfig, err)
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" ||
		u.Fragment != "" {
		return "", fmt.Errorf("%w: %q is not the URL of a shop, such as http://127.0.0.1:8080", ErrConfig, base)
	}
	if path := strings.Trim(u.Path, "/"); path != "" {
		return "", fmt.Errorf("%w: the URL of a shop has no path, and this one has /%s; -sku names the item", ErrConfig,
			path)
	}
	return u.Scheme + "://" + u.Host, nil
}

// settle repeats the audit until no unit of the sale is in flight, for at most cfg.Wait. It also
// asks again if the shop is too busy for an audit after the load.
func settle(ctx context.Context, shop client.Shops, cfg Config) (a web.Audit, settled bool, err error) {
	for deadline := time.Now().Add(cfg.Wait); ; {
		shop.For = time.Until(deadline)
		a, err = shop.Audit(ctx, cfg.SKU)
		switch {
		case err != nil:
			return a, false, fmt.Errorf("auditing: %w", err)
		case a.SaleID == "":
			return a, false, fmt.Errorf("auditing: %s does not answer like a shop: its reply names no sale",
				shop.Base())
		case a.InFlight == 0: // the units of accepted orders are in flight, too
			return a, true, nil
		case time.Until(deadline) <= 0:
			return a, false, nil
		}
		if err := guard.Sleep(ctx, every); err != nil {
			return a, false, fmt.Errorf("waiting for the sale to settle: %w", err)
		}
	}
}

func (r *Result) add(format string, args ...any) {
	r.Problems = append(r.Problems, fmt.Sprintf(format, args...))
}

// judgeStock compares the stock with the orders.
func (r *Result) judgeStock() {
	a := r.Audit
	for _, figure := range []struct {
		n    int64
		says string
	}{
		{a.Oversold, "oversold: %d units were sold that were not there"},
		{a.LostUpdates, "lost updates: the counter does not show %d units that were sold"},
		{a.Stranded, "stranded: %d units are neither sold nor for sale"},
		{a.Duplicates, "duplicates: %d orders repeat the idempotency key of another"},
		{a.Foreign, "foreign: %d units are in orders of sales that the database does not know"},
		{a.AcceptedLost, "accepted and lost: %d orders were refused after they were accepted"},
	} {
		if figure.n > 0 {
			r.add(figure.says, figure.n)
		}
	}
	// Every unit is in one of these figures. Units of unwritten orders are in flight. The units of
	// a lost update are in two figures: they are counted as sold and as remaining.
	if sum := a.Remaining + a.Held + a.Sold + a.InFlight + a.Stranded - max(0, a.LostUpdates); sum != a.Initial {
		r.add("the figures add up to %d units, and the sale began with %d", sum, a.Initial)
	}
}
