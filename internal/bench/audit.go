package bench

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"oversell/internal/guard"
	"oversell/internal/stock"
	"oversell/internal/web"
)

// AuditConfig says which sale to audit.
type AuditConfig struct {
	URL  string        // of the shop, such as http://127.0.0.1:8080
	SKU  string        // of the item
	Wait time.Duration // how long accepted orders, units in flight and a busy shop may take to settle
	Told *Told         // what the buyers were told; nil: not known
}

// auditPause is the time between two audits of a shop.
const auditPause = 200 * time.Millisecond

// AuditResult is what Audit found.
type AuditResult struct {
	Audit    web.Audit `json:"audit"`
	Told     *Told     `json:"told,omitempty"`
	Problems []string  `json:"problems"` // one sentence each; empty if all figures agree
}

// Audit checks the sale of a running shop from outside, after any load tool has bought from it:
// whether stock and orders agree, and whether the number of orders equals the number that buyers
// were told of. It compares only numbers, because a load tool does not report which orders its
// buyers were told of. It waits until the sale has settled. An error means that the audit could not
// be made.
func Audit(ctx context.Context, cfg AuditConfig) (AuditResult, error) {
	base, err := shopURL(cfg.URL, cfg.SKU)
	if err != nil {
		return AuditResult{}, fmt.Errorf("invalid config: %w", err)
	}
	shop := newAdmin("")
	shop.first, shop.last = auditPause, auditPause
	defer shop.CloseIdleConnections()
	found := AuditResult{Told: cfg.Told, Problems: []string{}}
	var settled bool
	found.Audit, settled, err = settle(ctx, shop.at(base), cfg)
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
		return "", err
	}
	if !strings.Contains(base, "://") {
		return "", errors.New("the URL does not begin with http:// or https://") // it may have a password
	}
	u, err := url.Parse(base)
	if err != nil {
		return "", errors.New("the URL cannot be parsed") // err repeats it
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" ||
		u.Fragment != "" {
		return "", fmt.Errorf("%q is not the URL of a shop, such as http://127.0.0.1:8080", u.Redacted())
	}
	if path := strings.Trim(u.Path, "/"); path != "" {
		return "", fmt.Errorf("the URL of a shop has no path, and this one has /%s; -sku names the item", path)
	}
	return u.Scheme + "://" + u.Host, nil
}

// settle repeats the audit until no unit of the sale is in flight, for at most cfg.Wait. It also
// asks again if the shop is too busy for an audit after the load.
func settle(ctx context.Context, shop client, cfg AuditConfig) (a web.Audit, settled bool, err error) {
	for deadline := time.Now().Add(cfg.Wait); ; {
		shop.limit = time.Until(deadline)
		a, err = shop.audit(ctx, cfg.SKU)
		switch {
		case err != nil:
			return a, false, fmt.Errorf("auditing: %w", err)
		case a.SaleID == "":
			return a, false, fmt.Errorf("auditing: %s does not answer like a shop: its reply names no sale",
				shop.base())
		case a.InFlight == 0: // the units of accepted orders are in flight, too
			return a, true, nil
		case time.Until(deadline) <= 0:
			return a, false, nil
		}
		if err := guard.Sleep(ctx, auditPause); err != nil {
			return a, false, fmt.Errorf("waiting for the sale to settle: %w", err)
		}
	}
}

func (r *AuditResult) add(format string, args ...any) {
	r.Problems = append(r.Problems, fmt.Sprintf(format, args...))
}

// judgeStock compares the stock with the orders.
func (r *AuditResult) judgeStock() {
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
