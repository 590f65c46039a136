package payment

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Deliveries counts events by the outcome of their webhooks.
type Deliveries struct {
	Waiting   int `json:"waiting"`   // not sent yet, or to be sent again
	Delivered int `json:"delivered"` // answered with 2xx
	Dropped   int `json:"dropped"`   // never sent, because of Faults.WebhookDropEvery or because no address was set
	GivenUp   int `json:"given_up"`  // not answered with 2xx in the allowed number of attempts
	Attempts  int `json:"attempts"`
}

// courier delivers events to one address. It tries to deliver each event until the event is
// accepted or the attempts are used up. Webhooks of one payment are sent one after the other, and
// those of different payments concurrently.
type courier struct {
	cfg     Config
	faulty  *faulty
	changed chan struct{} // receives a value when run should check the parcels again

	mu      sync.Mutex
	address string
	waiting []*parcel
	sending map[string]bool // ids of the payments whose webhook is being sent
	counts  Deliveries
}

// parcel is an event to be delivered.
type parcel struct {
	event  Event
	due    time.Time
	tried  int
	twice  bool // to be sent once more after it is accepted
	newest bool // newer events of the payment are sent first
}

// maxSending is the maximum number of webhooks that are sent at the same time.
const maxSending = 16

func newCourier(cfg Config, f *faulty) *courier {
	return &courier{cfg: cfg, faulty: f, changed: make(chan struct{}, 1), address: cfg.Webhook,
		sending: make(map[string]bool)}
}

// setAddress sets the address for later webhooks. If it is "", events are dropped.
func (c *courier) setAddress(address string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.address = address
}

func (c *courier) add(e Event) {
	faults, drop := c.faulty.event(e.Payment.Reference)
	c.mu.Lock()
	defer c.mu.Unlock()
	if drop || c.address == "" {
		c.counts.Dropped++
		return
	}
	hold := faults.WebhookDelay + faults.WebhookReverse
	c.waiting = append(c.waiting, &parcel{
		event: e, due: time.Now().Add(time.Duration(hold)),
		twice: faults.WebhookTwice, newest: faults.WebhookReverse > 0,
	})
	c.counts.Waiting++
	c.wake()
}

// wake makes run look for parcels again.
func (c *courier) wake() {
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

func (c *courier) deliveries() Deliveries {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.counts
}

// run delivers webhooks until ctx ends. It returns after the deliveries under way have ended.
func (c *courier) run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	slots := make(chan struct{}, maxSending)
	for ctx.Err() == nil {
		p, address, wait := c.next(time.Now())
		if p == nil {
			select {
			case <-ctx.Done():
			case <-c.changed:
			case <-time.After(wait):
			}
			continue
		}
		slots <- struct{}{} // a slot becomes free within sendTimeout
		running.Go(func() {
			defer func() { <-slots }()
			c.sent(p, c.send(ctx, address, p.event))
		})
	}
}

// idle is how long run sleeps when there is nothing to send.
const idle = time.Minute

// next takes the parcel that is to be sent now. If there is none, it returns how long to wait.
func (c *courier) next(now time.Time) (p *parcel, address string, wait time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	wait = idle
	for _, w := range c.waiting {
		switch until := w.due.Sub(now); {
		case c.sending[w.event.Payment.ID]:
		case until > 0:
			wait = min(wait, until)
		case p == nil || w.due.Before(p.due):
			p = w
		}
	}
	if p == nil {
		return nil, "", wait
	}
	if p.newest {
		p = c.newestOf(p)
	}
	c.waiting = slices.DeleteFunc(c.waiting, func(w *parcel) bool { return w == p })
	c.sending[p.event.Payment.ID] = true
	c.counts.Attempts++
	return p, c.address, 0
}

// newestOf returns the newest parcel of the same payment that has not been tried yet, or p.
func (c *courier) newestOf(p *parcel) *parcel {
	for _, w := range slices.Backward(c.waiting) { // the newest is the last
		if w.event.Payment.ID == p.event.Payment.ID && w.tried == 0 {
			return w
		}
	}
	return p
}

// sent records the outcome of a delivery.
func (c *courier) sent(p *parcel, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.sending, p.event.Payment.ID)
	defer c.wake() // the payment's next webhook may be sent
	p.tried++
	switch {
	case err == nil && p.twice:
		p.twice = false
		c.waiting = append(c.waiting, p)
	case err == nil:
		c.counts.Waiting--
		c.counts.Delivered++
	case p.tried >= c.cfg.Attempts:
		c.counts.Waiting--
		c.counts.GivenUp++
		c.cfg.Logger.Warn("gave up a webhook",
			"event", p.event.ID, "type", p.event.Type, "payment", p.event.Payment.ID, "attempts", p.tried, "error", err)
	default:
		p.due = time.Now().Add(c.pause(p.tried))
		c.waiting = append(c.waiting, p)
	}
}

// pause returns the time before the next attempt. It doubles with each attempt.
func (c *courier) pause(tried int) time.Duration {
	pause := c.cfg.RetryFrom
	for range tried - 1 {
		if pause *= 2; pause >= c.cfg.RetryMost {
			return c.cfg.RetryMost
		}
	}
	return pause
}

// sendTimeout limits one attempt. maxAnswer limits how much of a reply is read. The reply is read
// so that the connection can be reused.
const (
	sendTimeout = 5 * time.Second
	maxAnswer   = 64 << 10
)

// send delivers an event once. Any reply other than a 2xx is an error.
func (c *courier) send(ctx context.Context, address string, e Event) error {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	body, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("writing the event %s: %w", e.ID, err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("sending the event %s: %w", e.ID, err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set(SignatureHeader, Sign(c.cfg.Secret, body, time.Now())) // each attempt is signed with its own time
	res, err := c.cfg.Client.Do(req)
	if err != nil {
		return fmt.Errorf("sending the event %s: %w", e.ID, err)
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, maxAnswer)) // only the status matters
	if res.StatusCode < 200 || res.StatusCode > 299 {
		return fmt.Errorf("sending the event %s: the receiver answered %s", e.ID, res.Status)
	}
	return nil
}
