package web

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"time"

	"oversell/internal/holds"
	"oversell/internal/holds/payfault"
	"oversell/internal/payment"
	"oversell/internal/web/problem"
)

// HoldList is the reply to a request for the holds of an item's sale.
type HoldList struct {
	SKU    string       `json:"sku"`
	SaleID string       `json:"sale_id"`
	Stage  string       `json:"strategy"` // "": no hold was requested yet
	Now    time.Time    `json:"now"`      // by the database's clock, like expires_at
	Faults bool         `json:"faults"`   // whether the payment of a hold can be made to go wrong
	Holds  []ListedHold `json:"holds"`

	// Books is the audit of the sale's payments. It is nil if the provider is not embedded, or if
	// the sale has too many payments.
	Books *payment.Books `json:"books,omitempty"`
}

// ListedHold is a hold with its order and its payments. If the stage has forgotten the hold, only
// the order and the payments are known. The fencing token is left out, because only the buyer may
// know it.
type ListedHold struct {
	ID        string          `json:"id"`
	Buyer     string          `json:"buyer,omitempty"`
	Quantity  int64           `json:"quantity,omitempty"`
	Status    holds.Status    `json:"status"`
	ExpiresAt *time.Time      `json:"expires_at,omitempty"`
	CreatedAt time.Time       `json:"created_at"`
	Order     *holds.Order    `json:"order,omitempty"`
	Payments  []listedPayment `json:"payments,omitempty"`
}

// forgotten is the status of a hold if only its payments are known.
const forgotten holds.Status = "forgotten"

// listedPayment is a payment in a ListedHold.
type listedPayment struct {
	ID       string         `json:"id"`
	Amount   int64          `json:"amount"`
	Currency string         `json:"currency"`
	Status   payment.Status `json:"status"`
}

// maxAudited is the maximum number of ledger entries that one request audits.
const maxAudited = 5_000

// listHolds answers with the newest holds of the item's sale. It needs the token, because it lists
// ids, and anyone who knows a hold's id can read the hold and its buyer.
func (a *API) listHolds(w http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	found, err := a.cfg.Holds.List(ctx, r.PathValue("sku"))
	if err != nil {
		a.fail(w, r, err)
		return
	}
	list := HoldList{
		SKU: found.SKU, SaleID: found.SaleID, Stage: found.Stage, Now: found.Now,
		Faults: a.cfg.HoldFaults != nil, Holds: make([]ListedHold, 0, len(found.Holds)),
	}
	for _, h := range found.Holds {
		list.Holds = append(list.Holds, listedHold(h))
	}
	if a.cfg.Ledger == nil {
		reply(w, http.StatusOK, list)
		return
	}
	entries, number := a.cfg.Ledger(found.SaleID, maxAudited)
	if number <= maxAudited {
		orders, due, err := a.cfg.Holds.Payments(ctx, found.SKU, found.SaleID)
		if err != nil {
			a.fail(w, r, err)
			return
		}
		books := payment.AuditAmounts(entries, orders, due)
		list.Books = &books
	}
	list.pay(entries)
	reply(w, http.StatusOK, list)
}

func listedHold(h holds.Listed) ListedHold {
	l := ListedHold{
		ID: h.ID, Buyer: h.Buyer, Quantity: h.Quantity, Status: h.Status, CreatedAt: h.CreatedAt, Order: h.Order,
	}
	if !h.ExpiresAt.IsZero() {
		l.ExpiresAt = &h.ExpiresAt
	}
	return l
}

// pay adds payments to their holds. It also adds holds that are missing from the list, unless there
// are too many.
func (l *HoldList) pay(entries []payment.Entry) {
	at := make(map[string]int) // the index of a hold, by its id
	for i, h := range l.Holds {
		at[h.ID] = i
	}
	for _, e := range entries {
		id, _, _ := strings.Cut(e.Reference, "/")
		i, known := at[id]
		if !known && len(l.Holds) >= holds.MaxListed {
			continue
		}
		if !known {
			i = len(l.Holds)
			at[id] = i
			l.Holds = append(l.Holds, ListedHold{ID: id, Status: forgotten, CreatedAt: e.Time})
		}
		l.Holds[i].entered(e)
	}
	slices.SortFunc(l.Holds, func(a, b ListedHold) int { return cmp.Compare(b.ID, a.ID) }) // ids begin with the time
}

// entered adds an entry of the ledger: a payment, or its next status.
func (h *ListedHold) entered(e payment.Entry) {
	for i := range h.Payments {
		if h.Payments[i].ID == e.PaymentID {
			h.Payments[i].Status = e.Status
			return
		}
	}
	h.Payments = append(h.Payments, listedPayment{e.PaymentID, e.Amount, e.Currency, e.Status})
}

// putFault sets the fault of a hold's payment. It needs both the shop's token and the hold's token.
func (a *API) putFault(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Token   *int64         `json:"token"`
		Fault   *payfault.Kind `json:"fault"`
		Seconds int            `json:"seconds"`
	}
	if !problem.ReadBody(w, r.Body, &body) {
		return
	}
	if body.Token == nil || body.Fault == nil {
		invalid(w, `token or fault is missing: {"token":7,"fault":"slow_bank","seconds":8}`)
		return
	}
	if a.cfg.HoldFaults == nil {
		problem.Reply(w, http.StatusNotFound, "no_faults",
			"payments go wrong on request only with the shop's own provider: start it with -provider embedded")
		return
	}
	fault := payfault.Fault{Kind: *body.Fault, Seconds: body.Seconds}
	a.answer(w, r, fault, a.setFault(r, *body.Token, fault))
}

func (a *API) setFault(r *http.Request, token int64, fault payfault.Fault) error {
	h, err := a.cfg.Holds.Get(r.Context(), r.PathValue("id"))
	if err == nil && h.Token != token {
		err = holds.ErrToken
	}
	if err == nil {
		err = a.cfg.HoldFaults.Set(r.Context(), h, fault)
	}
	return err
}
