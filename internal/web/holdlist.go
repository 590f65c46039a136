package web

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	"oversell/internal/holds"
	"oversell/internal/holds/payfault"
	"oversell/internal/message"
	"oversell/internal/payment"
	"oversell/internal/web/problem"
)

// HoldList is the reply to a request for the holds of an item's sale. If the stage has forgotten a
// hold that has no order either, only its payments are known.
type HoldList struct {
	holds.Listing
	Faults bool `json:"faults"` // whether the payment of a hold can be made to go wrong

	// Books is the audit of the sale's payments. It is nil if the provider is not embedded, or if
	// the sale has too many payments.
	Books *payment.Books `json:"books,omitempty"`
}

// forgotten is the status of a hold if only its payments are known.
const forgotten holds.Status = "forgotten"

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
	list := HoldList{Listing: found, Faults: a.cfg.HoldFaults != nil}
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
			l.Holds = append(l.Holds, holds.Listed{ID: id, Status: forgotten, CreatedAt: e.Time})
		}
		entered(&l.Holds[i], e)
	}
	slices.SortFunc(l.Holds, func(a, b holds.Listed) int { return cmp.Compare(b.ID, a.ID) }) // ids begin with the time
}

// entered adds an entry of the ledger to a hold: a payment, or its next status.
func entered(h *holds.Listed, e payment.Entry) {
	for i := range h.Payments {
		if h.Payments[i].ID == e.PaymentID {
			h.Payments[i].Status = e.Status
			return
		}
	}
	h.Payments = append(h.Payments,
		holds.ListedPayment{ID: e.PaymentID, Amount: e.Amount, Currency: e.Currency, Status: e.Status})
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
			message.Text("payments can be made to go wrong only with the shop's own provider: start the shop with "+
				"-provider embedded"))
		return
	}
	fault := payfault.Fault{Kind: *body.Fault, Seconds: body.Seconds}
	h, err := a.cfg.Holds.Get(r.Context(), r.PathValue("id"))
	if err == nil && h.Token != *body.Token {
		err = holds.ErrToken
	}
	if err == nil {
		err = a.cfg.HoldFaults.Set(r.Context(), h, fault)
	}
	a.answer(w, r, fault, err)
}
