package payment

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
)

// book has the payments of a Server, the answers to its idempotency keys and its ledger. Each
// change of a payment is one step under the mutex.
type book struct {
	happened func(Event) // told of every change, with the mutex held

	mu       sync.Mutex
	payments map[string]*Payment
	answers  map[string]answer // by idempotency key
	ledger   []Entry
}

// answer is the result of the first request with an idempotency key.
type answer struct {
	request string // what was asked
	payment Payment
	err     error
}

func newBook(happened func(Event)) *book {
	return &book{happened: happened, payments: make(map[string]*Payment), answers: make(map[string]answer)}
}

// once does the work for the first request with the key, and returns its result to the others.
// The caller holds the mutex.
func (b *book) once(key string, work func() (Payment, error), request ...string) (Payment, error) {
	asked := strings.Join(request, " ") // no part has a space in it
	if first, ok := b.answers[key]; ok {
		if first.request != asked {
			return Payment{}, ErrKeyReused
		}
		return first.payment, first.err
	}
	p, err := work()
	b.answers[key] = answer{asked, p, err}
	return p, err
}

// authorise makes a payment. It asks declined only for the first request with the key.
func (b *book) authorise(r Request, declined func() bool) (Payment, error) {
	if err := checkKey(r.Key); err != nil {
		return Payment{}, err
	}
	if err := r.check(); err != nil {
		return Payment{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.once(r.Key, func() (Payment, error) {
		p := &Payment{
			ID: "pay_" + newID(), Reference: r.Reference, Amount: r.Amount, Currency: r.Currency, CreatedAt: time.Now().UTC(),
		}
		b.payments[p.ID] = p
		if declined() {
			b.move(p, Declined)
			return *p, ErrDeclined
		}
		b.move(p, Authorised)
		return *p, nil
	}, "authorise", r.Reference, strconv.FormatInt(r.Amount, 10), r.Currency)
}

// capture charges for an authorised payment.
func (b *book) capture(id, key string) (Payment, error) {
	return b.change("capture", id, key, map[Status]Status{Authorised: Captured})
}

// refund gives back what was captured, or gives up what was only authorised.
func (b *book) refund(id, key string) (Payment, error) {
	return b.change("refund", id, key, map[Status]Status{Authorised: Cancelled, Captured: Refunded})
}

// change moves a payment from its status to the one that moves names for it.
func (b *book) change(operation, id, key string, moves map[Status]Status) (Payment, error) {
	if err := checkKey(key); err != nil {
		return Payment{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	p, ok := b.payments[id]
	if !ok {
		return Payment{}, ErrUnknownPayment
	}
	return b.once(key, func() (Payment, error) {
		to, ok := moves[p.Status]
		if !ok {
			return *p, fmt.Errorf("%w: it is %s", ErrConflict, p.Status)
		}
		b.move(p, to)
		return *p, nil
	}, operation, id)
}

// move changes the status of a payment, writes it to the ledger and tells of it.
func (b *book) move(p *Payment, to Status) {
	p.Status = to
	now := time.Now().UTC()
	b.ledger = append(b.ledger, Entry{
		Number: int64(len(b.ledger)) + 1, Time: now,
		PaymentID: p.ID, Reference: p.Reference, Amount: p.Amount, Currency: p.Currency, Status: to,
	})
	b.happened(Event{ID: "evt_" + newID(), Type: EventType("payment." + to), Time: now, Payment: *p})
}

func newID() string { return strings.ReplaceAll(uuid.NewString(), "-", "") }

// payment returns the payment as it is now.
func (b *book) payment(id string) (Payment, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p, ok := b.payments[id]
	if !ok {
		return Payment{}, ErrUnknownPayment
	}
	return *p, nil
}

// entries returns up to limit entries of the ledger after the one with the given number.
func (b *book) entries(after int64, limit int) []Entry {
	b.mu.Lock()
	defer b.mu.Unlock()
	from := int(min(after, int64(len(b.ledger))))
	return slices.Clone(b.ledger[from:min(from+limit, len(b.ledger))])
}
