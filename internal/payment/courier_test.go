package payment

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// shop receives webhooks, and verifies each before it parses it.
type shop struct {
	t     *testing.T
	begin time.Time

	mu     sync.Mutex
	got    []delivery
	answer func(n int, e Event) int // returns the status for the nth webhook; if nil, all get 200
	hang   map[Status]bool          // the payment statuses whose webhooks are never answered
}

// delivery is a webhook that arrived.
type delivery struct {
	event Event
	after time.Duration // the time since the test began
}

func (s *shop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		s.t.Errorf("reading a webhook: %v", err)
	}
	if err := Verify(secret, r.Header.Get(SignatureHeader), body, time.Now()); err != nil {
		s.t.Errorf("a webhook: %v", err)
	}
	e, err := ParseEvent(body)
	if err != nil {
		s.t.Errorf("a webhook: %v", err)
	}
	s.mu.Lock()
	s.got = append(s.got, delivery{e, time.Since(s.begin)})
	n, hang := len(s.got), s.hang[e.Payment.Status]
	s.mu.Unlock()
	if hang {
		<-r.Context().Done()
		return
	}
	if s.answer != nil {
		w.WriteHeader(s.answer(n, e))
	}
}

// received returns the webhooks in order of arrival.
func (s *shop) received() []delivery {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.got)
}

// types returns the types of the webhooks in order of arrival.
func (s *shop) types() []EventType {
	var all []EventType
	for _, d := range s.received() {
		all = append(all, d.event.Type)
	}
	return all
}

func (s *shop) want(types ...EventType) {
	s.t.Helper()
	if got := s.types(); !slices.Equal(got, types) {
		s.t.Errorf("the webhooks are %v; want %v", got, types)
	}
}

// delivering runs f in virtual time, with a provider that sends its webhooks to a shop.
func delivering(t *testing.T, cfg Config, f func(t *testing.T, c *Client, shop *shop)) {
	synctest.Test(t, func(t *testing.T) {
		shop := &shop{t: t, begin: time.Now()}
		cfg.Webhook, cfg.Client = "http://shop/api/payments/webhook", &http.Client{Transport: inMemory{shop}}
		s := newServer(cfg)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			s.Deliver(ctx)
		}()
		f(t, clientOf(t, s), shop)
		stop()
		<-ended
	})
}

func wantDeliveries(t *testing.T, c *Client, want Deliveries) {
	t.Helper()
	if got, err := c.Deliveries(t.Context()); err != nil || got != want {
		t.Errorf("the deliveries are %+v, %v; want %+v", got, err, want)
	}
}

// buy authorises and captures one payment.
func buy(t *testing.T, c *Client, key string) Payment {
	t.Helper()
	p := authorised(t, c, "a"+key)
	return expect(t, c, capture(p.ID, "c"+key), Captured, nil)
}

func TestEveryChangeHasItsWebhook(t *testing.T) {
	delivering(t, Config{}, func(t *testing.T, c *Client, shop *shop) {
		p := buy(t, c, "1")
		expect(t, c, refund(p.ID, "r"), Refunded, nil)
		synctest.Wait()
		shop.want(EventAuthorised, EventCaptured, EventRefunded)
		if e := shop.received()[1].event; e.Payment.ID != p.ID || e.Payment.Reference != p.Reference ||
			e.Payment.Status != Captured || e.ID == shop.received()[0].event.ID {
			t.Errorf("the event is %+v", e)
		}
		wantDeliveries(t, c, Deliveries{Delivered: 3, Attempts: 3})
	})
}

// A webhook is sent again, with the same id and after growing pauses, until it is accepted.
func TestWebhookIsRepeatedUntilItIsAccepted(t *testing.T) {
	cfg := Config{RetryFrom: time.Second, RetryMost: 3 * time.Second}
	delivering(t, cfg, func(t *testing.T, c *Client, shop *shop) {
		shop.answer = func(n int, _ Event) int { return map[bool]int{true: 204, false: 500}[n == 5] }
		authorised(t, c, "a")
		time.Sleep(time.Minute)
		var times []time.Duration
		for _, d := range shop.received() {
			times = append(times, d.after)
			if d.event.ID != shop.received()[0].event.ID {
				t.Errorf("another event came: %+v", d.event)
			}
		}
		if want := []time.Duration{0, 1e9, 3e9, 6e9, 9e9}; !slices.Equal(times, want) {
			t.Errorf("the webhook came after %v; want %v", times, want)
		}
		wantDeliveries(t, c, Deliveries{Delivered: 1, Attempts: 5})
	})
}

// Later webhooks of a payment do not wait for an earlier webhook that is not accepted.
func TestRefusedWebhookIsOvertaken(t *testing.T) {
	delivering(t, Config{}, func(t *testing.T, c *Client, shop *shop) {
		shop.answer = func(n int, _ Event) int { return map[bool]int{true: 500, false: 200}[n == 1] }
		p := authorised(t, c, "a")
		synctest.Wait()
		expect(t, c, capture(p.ID, "c"), Captured, nil)
		time.Sleep(time.Minute)
		shop.want(EventAuthorised, EventCaptured, EventAuthorised)
	})
}

func TestWebhookIsGivenUpInTheEnd(t *testing.T) {
	delivering(t, Config{Attempts: 3}, func(t *testing.T, c *Client, shop *shop) {
		shop.answer = func(int, Event) int { return http.StatusFound } // a redirect does not count as accepted
		authorised(t, c, "a")
		time.Sleep(time.Hour)
		synctest.Wait()
		shop.want(EventAuthorised, EventAuthorised, EventAuthorised)
		wantDeliveries(t, c, Deliveries{GivenUp: 1, Attempts: 3})
	})
}

// A webhook that the receiver never answers times out, and does not delay other payments.
func TestReceiverThatHangs(t *testing.T) {
	delivering(t, Config{Attempts: 1}, func(t *testing.T, c *Client, shop *shop) {
		shop.hang = map[Status]bool{Authorised: true}
		buy(t, c, "1")
		synctest.Wait()
		setFaults(t, c, Faults{DeclineEvery: 1})
		expect(t, c, authorise(request("b")), Declined, ErrDeclined)
		synctest.Wait()
		shop.want(EventAuthorised, EventDeclined)
		time.Sleep(sendTimeout)
		synctest.Wait()
		shop.want(EventAuthorised, EventDeclined, EventCaptured)
		wantDeliveries(t, c, Deliveries{Delivered: 2, GivenUp: 1, Attempts: 3})
	})
}

// Deliver ends with its context, even while a receiver hangs.
func TestDeliverEndsWithItsContext(t *testing.T) {
	delivering(t, Config{}, func(t *testing.T, c *Client, shop *shop) {
		shop.hang = map[Status]bool{Authorised: true}
		for i := range 2 * maxSending {
			authorised(t, c, fmt.Sprint(i))
		}
		synctest.Wait()
		if n := len(shop.types()); n != maxSending {
			t.Errorf("%d webhooks were sent at once; want %d", n, maxSending)
		}
	}) // the bubble fails the test if Deliver's goroutine stays
}

func TestFaultWebhooksAreHeldBack(t *testing.T) {
	delivering(t, Config{}, func(t *testing.T, c *Client, shop *shop) {
		setFaults(t, c, Faults{WebhookDelay: Duration(20 * time.Second)})
		buy(t, c, "1")
		time.Sleep(19 * time.Second)
		shop.want()
		time.Sleep(time.Second)
		synctest.Wait()
		shop.want(EventAuthorised, EventCaptured)
	})
}

func TestFaultWebhooksComeTwice(t *testing.T) {
	delivering(t, Config{}, func(t *testing.T, c *Client, shop *shop) {
		setFaults(t, c, Faults{WebhookTwice: true})
		authorised(t, c, "a")
		synctest.Wait()
		shop.want(EventAuthorised, EventAuthorised)
		if got := shop.received(); got[0].event != got[1].event {
			t.Errorf("they differ: %+v", got)
		}
		wantDeliveries(t, c, Deliveries{Delivered: 1, Attempts: 2})
	})
}

func TestFaultWebhooksComeNewestFirst(t *testing.T) {
	delivering(t, Config{}, func(t *testing.T, c *Client, shop *shop) {
		setFaults(t, c, Faults{WebhookReverse: Duration(time.Second)})
		p := buy(t, c, "1")
		time.Sleep(500 * time.Millisecond)
		expect(t, c, refund(p.ID, "r"), Refunded, nil)
		time.Sleep(499 * time.Millisecond)
		shop.want()
		time.Sleep(time.Millisecond)
		synctest.Wait()
		shop.want(EventRefunded, EventCaptured, EventAuthorised)
	})
}

func TestFaultWebhooksAreDropped(t *testing.T) {
	delivering(t, Config{}, func(t *testing.T, c *Client, shop *shop) {
		setFaults(t, c, Faults{WebhookDropEvery: 2})
		buy(t, c, "1")
		buy(t, c, "2")
		time.Sleep(time.Hour)
		shop.want(EventAuthorised, EventAuthorised)
		wantDeliveries(t, c, Deliveries{Delivered: 2, Dropped: 2, Attempts: 2})
	})
}

// Without an address events are dropped. When a new address is set, later webhooks go there.
func TestAddressOfWebhooksCanChange(t *testing.T) {
	delivering(t, Config{}, func(t *testing.T, c *Client, shop *shop) {
		for _, address := range []string{"", "http://shop/webhook"} {
			must(t, c.do(t.Context(), http.MethodPut, "/webhook", "", webhookBody{address}, nil))
			authorised(t, c, "at"+address)
		}
		synctest.Wait()
		shop.want(EventAuthorised)
		wantDeliveries(t, c, Deliveries{Delivered: 1, Dropped: 1, Attempts: 1})
	})
}
