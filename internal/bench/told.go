package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// Told is a load tool's report on its requests, which were all purchases from one sale. A JSON
// report of vegeta has the fields requests and status_codes; the scripts in load/ write all of
// them.
type Told struct {
	Requests int64 `json:"requests"` // sent or planned
	// Statuses counts the replies by their status. "0" counts requests without a reply.
	Statuses map[string]int64 `json:"status_codes"`
	// Dropped counts requests, besides those in Statuses, that were not sent or not answered.
	Dropped int64 `json:"dropped,omitempty"`
	// CutOff counts requests whose buyer deliberately did not wait for the reply: they were
	// cancelled, or under way when the load ended. They may have bought.
	CutOff int64 `json:"cut_off,omitempty"`
	// Sold is the number of different orders that the replies confirmed. If it is missing, each
	// reply with a status of 200 to 299 counts as one order, which is right if no request was
	// repeated.
	Sold *int64 `json:"sold,omitempty"`
}

// maxTold is the maximum size of a report in bytes.
const maxTold = 16 << 20

// ReadTold reads the JSON of a load tool. Fields that it does not know are ignored. A report that
// contradicts itself is refused.
func ReadTold(r io.Reader) (*Told, error) {
	var t Told
	in := json.NewDecoder(io.LimitReader(r, maxTold))
	if err := in.Decode(&t); err != nil {
		return nil, fmt.Errorf("reading what buyers were told: %w", err)
	}
	if _, err := in.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("invalid config: something follows the JSON of what buyers were told")
	}
	if t.Statuses == nil {
		return nil, errors.New("invalid config: what buyers were told has no status_codes")
	}
	if err := t.check(); err != nil {
		return nil, fmt.Errorf("invalid config: what buyers were told cannot be: %w", err)
	}
	return &t, nil
}

// maxFigure is the maximum of each figure. It is so low that sums of a few figures do not
// overflow.
const maxFigure = 1 << 50

func (t *Told) check() error {
	if t.Requests <= 0 || t.Dropped < 0 || t.CutOff < 0 || max(t.Requests, t.Dropped, t.CutOff) > maxFigure {
		return fmt.Errorf("requests %d, dropped %d, cut_off %d", t.Requests, t.Dropped, t.CutOff)
	}
	counted := t.Dropped
	for status, n := range t.Statuses {
		code, err := strconv.Atoi(status)
		if err != nil || strconv.Itoa(code) != status || code < 0 || code > 999 || n < 0 || n > t.Requests {
			return fmt.Errorf("%d times the status %q in %d requests", n, status, t.Requests)
		}
		counted += n
	}
	if counted > t.Requests {
		return fmt.Errorf("%d requests have a status or were dropped, of %d in all", counted, t.Requests)
	}
	if replies := t.count(200, 299); t.Sold != nil && (*t.Sold < 0 || *t.Sold > replies) {
		return fmt.Errorf("%d orders were confirmed by %d replies with a status of 200 to 299", *t.Sold, replies)
	}
	return nil
}

// Confirmed returns the number of orders that buyers were told of.
func (t *Told) Confirmed() int64 {
	if t.Sold != nil {
		return *t.Sold
	}
	return t.count(200, 299)
}

// Unanswered returns the number of requests that were not sent or got no reply, except those that
// were cut off.
func (t *Told) Unanswered() int64 { return t.Dropped + t.Statuses["0"] }

// unaccounted returns the number of requests whose outcome the report does not mention.
func (t *Told) unaccounted() int64 {
	return max(0, t.Requests-t.count(0, 999)-t.Dropped-t.CutOff)
}

// Failed returns the number of replies that do not say whether the buyer has an order.
func (t *Told) Failed() int64 { return t.count(1, 199) + t.count(500, 999) }

// Unknown returns the number of requests that may have bought although no reply says so.
func (t *Told) Unknown() int64 {
	return t.Unanswered() + t.unaccounted() + t.Failed() + t.CutOff
}

// Refused returns the number of replies that say that the buyer has no order.
func (t *Told) Refused() int64 { return t.count(300, 499) }

// count counts the replies with a status in a range.
func (t *Told) count(from, to int) (n int64) {
	for status, replies := range t.Statuses {
		if code, err := strconv.Atoi(status); err == nil && from <= code && code <= to {
			n += replies
		}
	}
	return n
}

// judgeTold compares the number of orders with what buyers were told.
func (r *AuditResult) judgeTold() {
	t, orders := r.Told, r.Audit.Orders
	if n := t.Unanswered(); n > 0 {
		r.add("dropped: %d of %d requests were not sent, or got no reply", n, t.Requests)
	}
	if n := t.unaccounted(); n > 0 {
		r.add("unaccounted: %d of %d requests have no status, and were neither dropped nor cut off", n, t.Requests)
	}
	if t.count(1, 999) == 0 {
		r.add("no request got a reply: nothing was tested")
	}
	confirmed := t.Confirmed()
	if missing := confirmed - orders; missing > 0 {
		r.add("missing: buyers were told of %d orders, and there are %d", confirmed, orders)
	}
	unknown := t.Unknown()
	if unreported := orders - confirmed - unknown; unreported > 0 {
		r.add("unreported: there are %d orders; buyers were told of %d, and %d more requests may have bought", orders,
			confirmed, unknown)
	}
}
