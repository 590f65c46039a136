package web

import (
	"cmp"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"oversell/internal/stock"
)

// maxPreferredWait is the longest time that a request may wait for its order to be written.
const maxPreferredWait = 10 * time.Second

// behind answers a purchase whose order is written through a stream. The status is 200 if the order
// is already written, as it may be if an earlier request had the same key, and otherwise 202. If
// the request has the header Prefer: wait=SECONDS, behind waits first. If the order is refused in the
// meantime, behind replies with an error and returns its code.
func (a *API) behind(w http.ResponseWriter, r *http.Request, res stock.Result) (code string) {
	answer := sold{Order: res.Order, Remaining: res.Left, Replayed: res.Replayed, State: res.State, Reason: res.Reason}
	w.Header().Set("Location", "/api/orders/"+res.Order.ID+"?sku="+url.QueryEscape(res.Order.SKU))
	limit := preferredWait(r.Header.Values("Prefer"))
	if limit > 0 {
		w.Header().Set("Preference-Applied", "wait="+strconv.Itoa(int(limit/time.Second)))
	}
	if limit > 0 && res.State == stock.StateAccepted {
		state, err := a.cfg.Stock.AwaitOrder(r.Context(), res.Order.SKU, res.Order.ID, limit)
		if err != nil {
			// The order is accepted nevertheless, and can be looked up later.
			a.cfg.Logger.Warn("the state of an accepted order could not be read", "order", res.Order.ID, "error", err)
		} else if err := state.Err(); err != nil {
			return a.fail(w, r, err)
		} else {
			answer.State, answer.Reason = state.State, state.Reason
		}
	}
	status := http.StatusAccepted
	if answer.State == stock.StateWritten {
		status = http.StatusOK
	}
	reply(w, status, answer)
	return ""
}

// preferredWait returns the wait in the Prefer headers, or 0. Unknown preferences are ignored, as
// RFC 7240 says.
func preferredWait(headers []string) time.Duration {
	for _, preference := range strings.Split(strings.Join(headers, ","), ",") {
		preference, _, _ = strings.Cut(preference, ";")
		name, value, _ := strings.Cut(preference, "=")
		if !strings.EqualFold(strings.TrimSpace(name), "wait") {
			continue
		}
		seconds, err := strconv.ParseUint(strings.Trim(strings.TrimSpace(value), `"`), 10, 31)
		if err != nil {
			continue
		}
		return min(time.Duration(seconds)*time.Second, maxPreferredWait)
	}
	return 0
}

// order answers with an order and its state. The order of a hold has the id of the hold.
func (a *API) order(w http.ResponseWriter, r *http.Request) {
	if a.cfg.Holds != nil && a.stageOf(r.PathValue("id")) != otherHolds {
		a.holdOrder(w, r)
		return
	}
	state, err := a.cfg.Stock.OrderState(r.Context(), r.URL.Query().Get("sku"), r.PathValue("id"))
	a.answer(w, r, state, err)
}

// deadLetters answers with the accepted orders of an item that could not be written.
func (a *API) deadLetters(w http.ResponseWriter, r *http.Request) {
	sku := r.PathValue("sku")
	letters, err := a.cfg.Stock.DeadLetters(r.Context(), sku)
	a.answer(w, r, map[string]any{"sku": sku, "dead": letters}, err)
}

// retryDead puts the dead letters of an item back into its stream.
func (a *API) retryDead(w http.ResponseWriter, r *http.Request) {
	done, err := a.cfg.Stock.RetryDead(r.Context(), r.PathValue("sku"))
	a.answer(w, r, done, err)
}

// defaultOrders is the number of orders on a page if the request sets no limit.
const defaultOrders = "1000"

// orders answers with a page of orders in the item's sale. It needs the token, because a page is
// more work for the database than an audit.
func (a *API) orders(w http.ResponseWriter, r *http.Request) {
	limit, err := strconv.Atoi(cmp.Or(r.URL.Query().Get("limit"), defaultOrders))
	if err != nil {
		invalid(w, "limit must be a number")
		return
	}
	page, err := a.cfg.Stock.Orders(r.Context(), r.PathValue("sku"), r.URL.Query().Get("after"), limit)
	a.answer(w, r, page, err)
}
