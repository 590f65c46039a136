package payment

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// eachWay runs f with a client that calls the provider over a network, one that calls it in memory,
// and one whose provider is restarted before each request.
func eachWay(t *testing.T, f func(t *testing.T, c *Client)) {
	t.Run("http", func(t *testing.T) { f(t, overHTTP(t, newServer(Config{}))) })
	t.Run("memory", func(t *testing.T) { f(t, clientOf(t, newServer(Config{}))) })
	t.Run("restarted", func(t *testing.T) { f(t, clientOf(t, &reborn{file: filepath.Join(t.TempDir(), "ledger")})) })
}

// call is one call to a provider in a test.
type call func(Provider, context.Context) (Payment, error)

func authorise(r Request) call {
	return func(p Provider, ctx context.Context) (Payment, error) { return p.Authorise(ctx, r) }
}

func capture(id, key string) call {
	return func(p Provider, ctx context.Context) (Payment, error) { return p.Capture(ctx, id, key) }
}

func refund(id, key string) call {
	return func(p Provider, ctx context.Context) (Payment, error) { return p.Refund(ctx, id, key) }
}

// expect calls the provider and compares the status of the payment and the error.
func expect(t *testing.T, p Provider, do call, status Status, want error) Payment {
	t.Helper()
	got, err := do(p, t.Context())
	if got.Status != status || !errors.Is(err, want) {
		t.Errorf("got %+v, %v; want a payment that is %q, and %v", got, err, status, want)
	}
	return got
}

func TestPaymentIsAuthorisedCapturedAndRefunded(t *testing.T) {
	eachWay(t, func(t *testing.T, c *Client) {
		p := authorised(t, c, "a")
		expect(t, c, capture(p.ID, "c"), Captured, nil)
		got := expect(t, c, refund(p.ID, "r"), Refunded, nil)
		if got.Reference != "hold-a" || got.Amount != 1250 || got.Currency != "EUR" || got.CreatedAt.IsZero() {
			t.Errorf("the payment is %+v", got)
		}
		if now, err := c.Payment(t.Context(), p.ID); err != nil || now != got {
			t.Errorf("reading it: %+v, %v; want %+v", now, err, got)
		}
		wantLedger(t, c, Authorised, Captured, Refunded)
	})
}

// Find returns the payments with a reference in their current state, including declined ones.
func TestFindsPaymentsByTheirReference(t *testing.T) {
	eachWay(t, func(t *testing.T, c *Client) {
		first := authorised(t, c, "a")
		authorised(t, c, "b")
		again := request("again")
		again.Reference = first.Reference
		second := expect(t, c, authorise(again), Authorised, nil)
		first = expect(t, c, capture(first.ID, "c"), Captured, nil)
		if got, err := c.Find(t.Context(), first.Reference); err != nil ||
			!slices.Equal(got, []Payment{first, second}) {
			t.Errorf("got %+v, %v; want %+v and %+v", got, err, first, second)
		}
		if got, err := c.Find(t.Context(), "none"); err != nil || got == nil || len(got) > 0 {
			t.Errorf("got %+v, %v; want no payment", got, err)
		}
		if _, err := c.Find(t.Context(), ""); !errors.Is(err, ErrInvalid) {
			t.Errorf("got %v, want %v", err, ErrInvalid)
		}
	})
}

// An empty ledger is sent as an empty list and not as null, because programs in other languages
// concatenate the pages.
func TestEmptyLedgerIsAList(t *testing.T) {
	w := httptest.NewRecorder()
	newServer(Config{}).ServeHTTP(w, httptest.NewRequest("GET", "http://127.0.0.1/ledger", nil))
	if !strings.Contains(w.Body.String(), `"entries":[]`) {
		t.Errorf("it is %s", w.Body)
	}
}

// wantLedger checks the statuses in the ledger, in order.
func wantLedger(t *testing.T, c *Client, want ...Status) {
	t.Helper()
	entries, err := c.Ledger(t.Context())
	must(t, err)
	var got []Status
	for i, e := range entries {
		got = append(got, e.Status)
		if e.Number != int64(i)+1 || e.PaymentID == "" || e.Time.IsZero() {
			t.Errorf("entry %d is %+v", i, e)
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the ledger has %v; want %v", got, want)
	}
}

// A payment that is refunded before its capture is cancelled, and cannot be captured any more. A hold
// that has ended can therefore not be charged later.
func TestRefundOfAnUncapturedPaymentForbidsItsCapture(t *testing.T) {
	eachWay(t, func(t *testing.T, c *Client) {
		p := authorised(t, c, "a")
		expect(t, c, refund(p.ID, "r"), Cancelled, nil)
		expect(t, c, capture(p.ID, "c"), Cancelled, ErrConflict)
		wantLedger(t, c, Authorised, Cancelled)
	})
}

// A call that is repeated with its key does nothing, and returns the first result even if the payment
// has changed since.
func TestRepeatedCallsDoTheirWorkOnce(t *testing.T) {
	eachWay(t, func(t *testing.T, c *Client) {
		p := authorised(t, c, "a")
		expect(t, c, capture(p.ID, "c"), Captured, nil)
		expect(t, c, refund(p.ID, "r"), Refunded, nil)
		if again := expect(t, c, authorise(request("a")), Authorised, nil); again.ID != p.ID {
			t.Errorf("the second payment is %s; want %s", again.ID, p.ID)
		}
		expect(t, c, capture(p.ID, "c"), Captured, nil)
		expect(t, c, refund(p.ID, "r"), Refunded, nil)
		wantLedger(t, c, Authorised, Captured, Refunded)
	})
}

func TestKeyBelongsToOneRequest(t *testing.T) {
	eachWay(t, func(t *testing.T, c *Client) {
		p, other := authorised(t, c, "a"), authorised(t, c, "b")
		dearer, cheap, foreign := request("a"), request("a"), request("a")
		dearer.Amount++
		cheap.Currency = "JPY"
		foreign.Reference = "hold-z"
		for _, r := range []Request{dearer, cheap, foreign} {
			expect(t, c, authorise(r), "", ErrKeyReused)
		}
		expect(t, c, capture(p.ID, "c"), Captured, nil)
		expect(t, c, capture(other.ID, "c"), "", ErrKeyReused)
		expect(t, c, refund(p.ID, "c"), "", ErrKeyReused)
		expect(t, c, capture(other.ID, "a"), "", ErrKeyReused)
		wantLedger(t, c, Authorised, Authorised, Captured)
	})
}

func TestStatusMustAllowTheOperation(t *testing.T) {
	eachWay(t, func(t *testing.T, c *Client) {
		p := authorised(t, c, "a")
		expect(t, c, capture(p.ID, "c"), Captured, nil)
		expect(t, c, capture(p.ID, "c2"), Captured, ErrConflict)
		expect(t, c, refund(p.ID, "r"), Refunded, nil)
		expect(t, c, refund(p.ID, "r2"), Refunded, ErrConflict)
		expect(t, c, capture(p.ID, "c3"), Refunded, ErrConflict)
		expect(t, c, capture("pay_0", "c4"), "", ErrUnknownPayment)
		for _, id := range []string{"pay_0", "", ".", "..", "../faults", "a/b", "a?b", strings.Repeat("a", 101)} {
			expect(t, c, refund(id, "r4"), "", ErrUnknownPayment)
			if _, err := c.Payment(t.Context(), id); !errors.Is(err, ErrUnknownPayment) {
				t.Errorf("reading the payment %q: %v", id, err)
			}
		}
		wantLedger(t, c, Authorised, Captured, Refunded)
	})
}

// A declined payment is returned together with ErrDeclined, also when the request is repeated with its
// key. It cannot be captured.
func TestDeclinedPayment(t *testing.T) {
	eachWay(t, func(t *testing.T, c *Client) {
		must(t, c.SetFaults(t.Context(), Faults{DeclineEvery: 2}))
		authorised(t, c, "a")
		p := expect(t, c, authorise(request("b")), Declined, ErrDeclined)
		expect(t, c, authorise(request("b")), Declined, ErrDeclined)
		authorised(t, c, "c") // the repeated call did not count towards DeclineEvery
		expect(t, c, capture(p.ID, "k"), Declined, ErrConflict)
		expect(t, c, refund(p.ID, "l"), Declined, ErrConflict)
		wantLedger(t, c, Authorised, Declined, Authorised)
	})
}

func TestInvalidRequestsAreRefused(t *testing.T) {
	eachWay(t, func(t *testing.T, c *Client) {
		p := authorised(t, c, "a")
		for name, change := range map[string]func(*Request){
			"no key":             func(r *Request) { r.Key = "" },
			"a key with a space": func(r *Request) { r.Key = "a b" },
			"a key with a break": func(r *Request) { r.Key = "a\r\nX-Evil: 1" },
			"a long key":         func(r *Request) { r.Key = strings.Repeat("k", maxKey+1) },
			"no reference":       func(r *Request) { r.Reference = "" },
			"a long reference":   func(r *Request) { r.Reference = strings.Repeat("r", maxReference+1) },
			"no amount":          func(r *Request) { r.Amount = 0 },
			"a negative amount":  func(r *Request) { r.Amount = -1 },
			"a huge amount":      func(r *Request) { r.Amount = MaxAmount + 1 },
			"no currency":        func(r *Request) { r.Currency = "" },
			"half a currency":    func(r *Request) { r.Currency = "eu" },
		} {
			r := request("new")
			change(&r)
			if _, err := c.Authorise(t.Context(), r); !errors.Is(err, ErrInvalid) {
				t.Errorf("%s: %v; want ErrInvalid", name, err)
			}
		}
		expect(t, c, capture(p.ID, ""), "", ErrInvalid)
		expect(t, c, refund(p.ID, ""), "", ErrInvalid)
		wantLedger(t, c, Authorised)
	})
}

// The server refuses bodies that are not valid requests, and does nothing.
func TestServerRefusesBodiesItDoesNotUnderstand(t *testing.T) {
	s := newServer(Config{})
	ask := func(method, path, body string) int {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, "http://provider"+path, strings.NewReader(body))
		must(t, err)
		req.Header.Set("Idempotency-Key", "a")
		res, err := inMemory{s}.RoundTrip(req)
		must(t, err)
		return res.StatusCode
	}
	good := `{"reference":"hold-1","amount":1,"currency":"EUR"}`
	for _, body := range []string{
		"", "null", "[]", "{", good + good, `{"reference":"hold-1","amount":"1","currency":"EUR"}`,
		strings.Replace(good, "amount", "sum", 1), strings.Replace(good, "1,", "1e99,", 1),
		good + strings.Repeat(" ", maxRequest),
	} {
		if status := ask("POST", "/payments", body); status != http.StatusBadRequest {
			t.Errorf("%.60s got %d; want 400", body, status)
		}
	}
	for path, bodies := range map[string][]string{
		"/faults": {"", "{}x", `{"decline_every":-1}`, `{"reply_delay":"-1s"}`, `{"reply_delay":"2h"}`,
			`{"reply_delay":1}`, `{"lose_reply_to":["all"]}`, `{"delay_reply_to":["payment"]}`, `{"crash":true}`},
		"/webhook": {"", `{"url":1}`, `{"url":"localhost:8080"}`, `{"url":"file:///etc/passwd"}`, `{"url":"http://"}`},
	} {
		for _, body := range bodies {
			if status := ask("PUT", path, body); status != http.StatusBadRequest {
				t.Errorf("%s %s got %d; want 400", path, body, status)
			}
		}
	}
	for path, want := range map[string]int{"/ledger?after=-1": 400, "/ledger?after=x": 400, "/ledger?after=99": 200,
		"/": 404, "/payments/x": 404} {
		if status := ask("GET", path, ""); status != want {
			t.Errorf("GET %s got %d; want %d", path, status, want)
		}
	}
	if status := ask("POST", "/payments", good); status != http.StatusOK {
		t.Errorf("a good body got %d", status)
	}
}

// The server refuses requests for unknown host names, so that no web site can reach it by pointing its
// own name at this machine.
func TestServerKnowsItsNames(t *testing.T) {
	s := newServer(Config{})
	for host, want := range map[string]int{
		"localhost:8090": 200, "127.0.0.1:8090": 200, "[::1]:8090": 200, "10.0.0.7": 200, "provider:80": 200,
		"evil.example": 403, "evil.example:8090": 403, "127.0.0.1.evil.example": 403,
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+host+"/ledger", nil)
		must(t, err)
		if res, err := (inMemory{s}).RoundTrip(req); err != nil || res.StatusCode != want {
			t.Errorf("%s got %v, %v; want %d", host, res, err, want)
		}
	}
}

// With many concurrent callers, the work for each key is done once. A payment that one caller captures
// and another refunds is charged at most once, and is never both charged and cancelled.
func TestManyCallersAtOnce(t *testing.T) {
	c := overHTTP(t, newServer(Config{}))
	const payments, callers = 20, 4
	var wg sync.WaitGroup
	for i := range payments {
		for j := range callers {
			wg.Go(func() {
				p, err := c.Authorise(t.Context(), request(fmt.Sprintf("a%d", i)))
				if err != nil {
					t.Errorf("authorising: %v", err)
					return
				}
				if j%2 == 0 {
					_, err = c.Capture(t.Context(), p.ID, fmt.Sprintf("c%d", i))
				} else {
					_, err = c.Refund(t.Context(), p.ID, fmt.Sprintf("r%d", i))
				}
				if err != nil && !errors.Is(err, ErrConflict) {
					t.Errorf("payment %d: %v", i, err)
				}
			})
		}
	}
	wg.Wait()
	entries, err := c.Ledger(t.Context())
	must(t, err)
	books := Audit(entries, nil)
	if books.Authorised != payments || books.Captured != books.Refunded ||
		books.Captured+books.Cancelled != payments || books.ChargedWithoutOrder != 0 {
		t.Errorf("the books are %+v", books)
	}
}

// The client reads all pages of the ledger.
func TestLedgerHasPages(t *testing.T) {
	s := newServer(Config{})
	c := clientOf(t, s)
	for i := range ledgerPage + 1 {
		if _, err := s.book.authorise(request(fmt.Sprint(i)), s.faulty.decline); err != nil {
			t.Fatal(err)
		}
	}
	entries, err := c.Ledger(t.Context())
	if err != nil || len(entries) != ledgerPage+1 || entries[ledgerPage].Number != ledgerPage+1 {
		t.Errorf("%d entries, %v", len(entries), err)
	}
}
