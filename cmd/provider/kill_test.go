package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"oversell/internal/payment"
)

// answers records a provider's answers by idempotency key: the operation and its result.
type answers struct {
	mu   sync.Mutex
	all  map[string]answer
	many chan struct{} // closed when there are enough for this round
	left int
}

// call is one request to the provider.
type call func(context.Context, *payment.Client) (payment.Payment, error)

type answer struct {
	ask call
	got payment.Payment
}

// ask calls the provider, and records its answer. It returns the payment and whether there was an
// answer.
func (a *answers) ask(ctx context.Context, c *payment.Client, key string, f call) (payment.Payment, error) {
	p, err := f(ctx, c)
	if err != nil {
		return p, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.all[key] = answer{f, p}
	if a.left--; a.left == 0 {
		close(a.many)
	}
	return p, nil
}

// buy authorises and captures payments, and refunds every other one, until the provider stops
// answering.
func (a *answers) buy(ctx context.Context, c *payment.Client, name string) error {
	for i := 0; ; i++ {
		id := fmt.Sprintf("%s-%d", name, i)
		r := payment.Request{Key: "a/" + id, Reference: "hold-" + id, Amount: 1250, Currency: "EUR"}
		p, err := a.ask(ctx, c, r.Key, func(ctx context.Context, c *payment.Client) (payment.Payment, error) {
			return c.Authorise(ctx, r)
		})
		if err == nil {
			_, err = a.ask(ctx, c, "c/"+id, func(ctx context.Context, c *payment.Client) (payment.Payment, error) {
				return c.Capture(ctx, p.ID, "c/"+id)
			})
		}
		if err == nil && i%2 == 1 {
			_, err = a.ask(ctx, c, "r/"+id, func(ctx context.Context, c *payment.Client) (payment.Payment, error) {
				return c.Refund(ctx, p.ID, "r/"+id)
			})
		}
		if err != nil {
			return err
		}
	}
}

// check repeats all requests that an earlier provider has answered. The answers must be the same,
// and each must be in the ledger once.
func (a *answers) check(t *testing.T, c *payment.Client) {
	t.Helper()
	ledger, err := c.Ledger(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	reached := make(map[string]int)
	for i, e := range ledger {
		reached[e.PaymentID+" "+string(e.Status)]++
		if e.Number != int64(i)+1 {
			t.Errorf("entry %d of the ledger has the number %d", i+1, e.Number)
		}
	}
	for key, first := range a.all {
		if again, err := first.ask(t.Context(), c); err != nil || again != first.got {
			t.Errorf("%s: got %+v, %v; the first answer was %+v", key, again, err, first.got)
		}
		if n := reached[first.got.ID+" "+string(first.got.Status)]; n != 1 {
			t.Errorf("%s: the payment is in the ledger %d times as %s", key, n, first.got.Status)
		}
	}
	if again, err := c.Ledger(t.Context()); err != nil || len(again) != len(ledger) {
		t.Errorf("repeated requests made %d entries of %d, %v", len(again), len(ledger), err)
	}
}

// A provider that is killed in the middle of its work forgets none of its answers and does nothing
// twice: it keeps both payments and idempotency keys.
func TestKilledProviderForgetsNothing(t *testing.T) {
	const rounds, shops, perRound = 6, 4, 60
	ledger := filepath.Join(t.TempDir(), "ledger")
	a := &answers{all: make(map[string]answer)}
	for round := range rounds {
		p, c := start(t, "-ledger", ledger)
		a.check(t, c)
		a.many, a.left = make(chan struct{}), perRound
		var working sync.WaitGroup
		for shop := range shops {
			working.Go(func() {
				err := a.buy(t.Context(), c, fmt.Sprintf("%d-%d", round, shop))
				if !errors.Is(err, payment.ErrUnavailable) {
					t.Errorf("a payment failed: %v", err)
				}
			})
		}
		<-a.many
		p.Kill()
		working.Wait()
	}
	_, c := start(t, "-ledger", ledger)
	a.check(t, c)
	if len(a.all) < rounds*perRound {
		t.Errorf("only %d answers were compared", len(a.all))
	}
}
