package payment

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
)

// book keeps the payments of a Server, the answers to its idempotency keys and its ledger. Each
// change of a payment is one step under the mutex.
type book struct {
	journal  *Journal    // nil: the book is kept in memory only
	happened func(Event) // called for every change, with the mutex held

	mu       sync.Mutex
	payments map[string]Payment
	answers  map[string]record // by idempotency key
	ledger   []Entry
	lines    map[string][]int    // by group: the indexes of its entries in the ledger
	found    map[string][]string // by reference: the ids of its payments
}

func newBook(j *Journal, happened func(Event)) *book {
	b := &book{
		journal: j, happened: happened,
		payments: make(map[string]Payment), answers: make(map[string]record), lines: make(map[string][]int),
		found: make(map[string][]string),
	}
	if j != nil {
		for _, r := range j.records {
			b.enter(r)
		}
		j.records = nil
	}
	return b
}

// once does the work for the first request with the key, and returns its result to every later one.
// The function work must not change anything itself: it returns the changed payment, and the status
// for the ledger if there is a change. The caller must hold the mutex.
func (b *book) once(key string, work func() (p Payment, became Status, err error), request ...string) (Payment, error) {
	asked := strings.Join(request, " ") // no part contains a space
	if first, ok := b.answers[key]; ok {
		if first.Request != asked {
			return Payment{}, ErrKeyReused
		}
		return first.Payment, first.Error.err()
	}
	p, became, err := work()
	r := record{Key: key, Request: asked, Payment: p, Error: problemOf(err)}
	now := time.Now().UTC()
	if became != "" {
		r.Entry = &Entry{
			Number: int64(len(b.ledger)) + 1, Time: now,
			PaymentID: p.ID, Reference: p.Reference, Amount: p.Amount, Currency: p.Currency, Status: became,
		}
	}
	if b.journal != nil {
		if err := b.journal.write(r); err != nil {
			return Payment{}, fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
	}
	b.enter(r)
	if became != "" {
		kind := EventType("payment." + became)
		if became == refundFailed {
			kind = EventRefundFailed
		}
		b.happened(Event{ID: "evt_" + newID(), Type: kind, Time: now, Payment: p})
	}
	return p, err
}

// enter applies a record to the book.
func (b *book) enter(r record) {
	b.answers[r.Key] = r
	if _, known := b.payments[r.Payment.ID]; !known {
		b.found[r.Payment.Reference] = append(b.found[r.Payment.Reference], r.Payment.ID)
	}
	b.payments[r.Payment.ID] = r.Payment
	if r.Entry == nil {
		return
	}
	if group := r.Payment.Group; group != "" {
		b.lines[group] = append(b.lines[group], len(b.ledger))
	}
	b.ledger = append(b.ledger, *r.Entry)
}

// authorise creates a payment. It calls declined only for the first request with the key.
func (b *book) authorise(r Request, declined func(reference string) bool) (Payment, error) {
	if err := checkKey(r.Key); err != nil {
		return Payment{}, err
	}
	if err := r.check(); err != nil {
		return Payment{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.once(r.Key, func() (Payment, Status, error) {
		p := Payment{
			ID: "pay_" + newID(), Reference: r.Reference, Amount: r.Amount, Currency: r.Currency,
			Status: Authorised, Group: r.Group, CreatedAt: time.Now().UTC(),
		}
		if declined(r.Reference) {
			p.Status = Declined
			return p, Declined, ErrDeclined
		}
		return p, p.Status, nil
	}, "authorise", r.Reference, strconv.FormatInt(r.Amount, 10), r.Currency, r.Group)
}

func (b *book) capture(id, key string) (Payment, error) {
	return b.change("capture", id, key, func(p Payment) Status {
		if p.Status == Authorised {
			return Captured
		}
		return ""
	})
}

// refund refunds a captured payment, or cancels one that was only authorised. The function failing
// returns how long after its acceptance the refund of a captured payment fails, or 0 if it does not
// fail. It is called only for the first request with the key.
func (b *book) refund(id, key string, failing func(reference string) time.Duration) (Payment, error) {
	var after time.Duration // stays 0 for a repeated request
	p, err := b.change("refund", id, key, func(p Payment) Status {
		switch p.Status {
		case Authorised:
			return Cancelled
		case Captured:
			if after = failing(p.Reference); after > 0 {
				return Refunding
			}
			return Refunded
		default:
			return ""
		}
	})
	if err == nil && after > 0 {
		time.AfterFunc(after, func() { b.failRefund(id, "provider/"+key) })
	}
	return p, err
}

// failRefund makes an accepted refund fail. It records the failure under the given idempotency key.
func (b *book) failRefund(id, key string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, _ = b.once(key, func() (Payment, Status, error) { // if the journal cannot be written, it keeps the error
		p := b.payments[id]
		if p.Status != Refunding {
			return p, "", nil
		}
		p.Status = Captured
		return p, refundFailed, nil
	}, "fail", id)
}

// change sets a payment's status to the one that next returns. If next returns "", change returns
// ErrConflict. It calls next only for the first request with the key.
func (b *book) change(operation, id, key string, next func(Payment) Status) (Payment, error) {
	if err := checkKey(key); err != nil {
		return Payment{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	p, ok := b.payments[id]
	if !ok {
		return Payment{}, ErrUnknownPayment
	}
	return b.once(key, func() (Payment, Status, error) {
		to := next(p)
		if to == "" {
			return p, "", fmt.Errorf("%w: it is %s", ErrConflict, p.Status)
		}
		p.Status = to
		return p, to, nil
	}, operation, id)
}

func newID() string { return strings.ReplaceAll(uuid.NewString(), "-", "") }

func (b *book) payment(id string) (Payment, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p, ok := b.payments[id]
	if !ok {
		return Payment{}, ErrUnknownPayment
	}
	return p, nil
}

// find returns the newest payments with a reference, oldest first, but no more than limit.
func (b *book) find(reference string, limit int) []Payment {
	b.mu.Lock()
	defer b.mu.Unlock()
	ids := b.found[reference]
	found := make([]Payment, 0, len(ids))
	for _, id := range ids[max(0, len(ids)-limit):] {
		found = append(found, b.payments[id])
	}
	return found
}

// entries returns up to limit entries of the ledger after the one with the given number.
func (b *book) entries(after int64, limit int) []Entry {
	b.mu.Lock()
	defer b.mu.Unlock()
	from := int(min(after, int64(len(b.ledger))))
	return append([]Entry{}, b.ledger[from:min(from+limit, len(b.ledger))]...) // an empty page is [] in JSON
}

// group returns the ledger entries of a group, and their number. If there are more than the given
// maximum, it returns only the number.
func (b *book) group(name string, most int) (entries []Entry, number int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	lines := b.lines[name]
	if len(lines) > most {
		return nil, len(lines)
	}
	for _, i := range lines {
		entries = append(entries, b.ledger[i])
	}
	return entries, len(lines)
}
