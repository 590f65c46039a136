package payment

import (
	"cmp"
	"slices"
	"time"
)

// Entry is one line of the provider's ledger. It records that a payment has reached a status.
// Entries are only added, never changed.
type Entry struct {
	Number    int64     `json:"number"` // 1, 2, 3 …
	Time      time.Time `json:"time"`
	PaymentID string    `json:"payment_id"`
	Reference string    `json:"reference"`
	Amount    int64     `json:"amount"`
	Currency  string    `json:"currency"`
	Status    Status    `json:"status"` // the status that the payment has reached
}

// Books says whether the provider's ledger and the shop's orders agree.
type Books struct {
	Authorised int `json:"authorised"` // the number of payments that have reached this status
	Declined   int `json:"declined"`
	Captured   int `json:"captured"`
	Cancelled  int `json:"cancelled"`
	Refunded   int `json:"refunded"`

	// ChargedWithoutOrder counts the captures that led to neither exactly one order nor exactly one
	// refund: the buyer has paid for nothing, or has both the goods and the money.
	ChargedWithoutOrder int `json:"charged_without_order"`

	// OrdersWithoutCharge counts the orders whose payment was never captured.
	OrdersWithoutCharge int `json:"orders_without_charge"`

	// OrdersWithWrongAmount counts the orders whose payment was captured with a wrong amount or
	// currency. Only AuditAmounts sets it.
	OrdersWithWrongAmount int `json:"orders_with_wrong_amount,omitempty"`

	Wrong []Account `json:"wrong,omitempty"` // the payments that cause these counts, sorted by id
}

// Account sums up one payment.
type Account struct {
	PaymentID string `json:"payment_id"`
	Reference string `json:"reference"`
	Captures  int    `json:"captures"`
	Refunds   int    `json:"refunds"`
	Orders    int    `json:"orders"`
}

// Audit compares the provider's ledger with the shop's orders. The map orders has the number of
// orders for each payment id. Payments in progress are counted in their current state, so call
// Audit when no payment is in progress.
func Audit(ledger []Entry, orders map[string]int) Books {
	return AuditAmounts(ledger, orders, nil)
}

// AuditAmounts is like Audit, but it also compares the captured amount of each payment with the
// amount in the map due, which has the ids of payments as keys. A payment that is not in the map
// may have any amount.
func AuditAmounts(ledger []Entry, orders map[string]int, due map[string]Money) Books {
	var books Books
	wrong := make(map[string]bool) // payments that were captured with a wrong amount
	accounts := make(map[string]*Account)
	account := func(id string) *Account {
		if accounts[id] == nil {
			accounts[id] = &Account{PaymentID: id, Orders: orders[id]}
		}
		return accounts[id]
	}
	for _, e := range ledger {
		a := account(e.PaymentID)
		a.Reference = e.Reference
		switch e.Status {
		case Authorised:
			books.Authorised++
		case Declined:
			books.Declined++
		case Cancelled:
			books.Cancelled++
		case Captured:
			books.Captured++
			a.Captures++
			want, known := due[e.PaymentID]
			wrong[e.PaymentID] = wrong[e.PaymentID] || known && want != Money{e.Amount, e.Currency}
		case Refunded:
			books.Refunded++
			a.Refunds++
		}
	}
	for id := range orders {
		account(id) // an order for a payment that the provider does not know
	}
	for _, a := range accounts {
		charged, uncharged := a.wrong()
		books.ChargedWithoutOrder += charged
		books.OrdersWithoutCharge += uncharged
		if wrong[a.PaymentID] {
			books.OrdersWithWrongAmount += a.Orders
		}
		if charged+uncharged > 0 || wrong[a.PaymentID] && a.Orders > 0 {
			books.Wrong = append(books.Wrong, *a)
		}
	}
	slices.SortFunc(books.Wrong, func(a, b Account) int { return cmp.Compare(a.PaymentID, b.PaymentID) })
	return books
}

// wrong returns how many captures of the payment did not lead to exactly one order or refund, and
// how many of its orders were never charged.
func (a Account) wrong() (charged, uncharged int) {
	if a.Captures == 0 {
		return 0, a.Orders
	}
	ends := a.Orders + a.Refunds
	return min(a.Captures, max(a.Captures-ends, ends-a.Captures)), 0
}
