package web

import (
	"net/http"

	"oversell/internal/holds"
	"oversell/internal/holds/payfault"
	"oversell/internal/message"
	"oversell/internal/web/problem"
)

// HoldList is the reply to a request for the holds of an item's sale.
type HoldList struct {
	holds.Listing
	Faults bool `json:"faults"` // whether the payment of a hold can be made to go wrong
}

// listHolds answers with the newest holds of the item's sale. It needs the token, because it lists
// ids, and anyone who knows a hold's id can read the hold and its buyer.
func (a *API) listHolds(w http.ResponseWriter, r *http.Request) {
	found, err := a.cfg.Holds.List(r.Context(), r.PathValue("sku"))
	a.answer(w, r, HoldList{found, a.cfg.HoldFaults != nil}, err)
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
		err = a.cfg.HoldFaults.Set(h, fault)
	}
	a.answer(w, r, fault, err)
}
