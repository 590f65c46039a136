package web

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"oversell/internal/stock"
)

// maxPreferredWait bounds how long a request may wait for its order to be written.
const maxPreferredWait = 10 * time.Second

// behind answers a deduct whose order is written behind the sale: 200 if it is written, as that
// of an earlier request with the same key may be, and otherwise 202. With the header
// Prefer: wait=SECONDS it waits first.
func (a *API) behind(c *gin.Context, res stock.Result) {
	reply := sold{Order: res.Order, Remaining: res.Left, Replayed: res.Replayed, State: res.State, Reason: res.Reason}
	c.Header("Location", "/api/orders/"+res.Order.ID+"?sku="+url.QueryEscape(res.Order.SKU))
	limit := preferredWait(c.Request.Header.Values("Prefer"))
	if limit > 0 {
		c.Header("Preference-Applied", "wait="+strconv.Itoa(int(limit/time.Second)))
	}
	if limit > 0 && res.Accepted {
		state, err := a.cfg.Stock.AwaitOrder(c.Request.Context(), res.Order.SKU, res.Order.ID, limit)
		if err != nil {
			// The order is accepted all the same, and can be looked up later.
			a.cfg.Logger.Warn("the state of an accepted order could not be read", "order", res.Order.ID, "error", err)
		} else if err := state.Err(); err != nil {
			a.fail(c, err)
			return
		} else {
			reply.State, reply.Reason = state.State, state.Reason
		}
	}
	status := http.StatusAccepted
	if reply.State == stock.StateWritten {
		status = http.StatusOK
	}
	c.JSON(status, reply)
}

// preferredWait returns the wait of the headers Prefer, or 0. A preference that cannot be
// understood is ignored, as RFC 7240 says.
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
func (a *API) order(c *gin.Context) {
	if a.cfg.Holds != nil && a.stageOf(c.Param("id")) != otherHolds {
		a.holdOrder(c)
		return
	}
	state, err := a.cfg.Stock.OrderState(c.Request.Context(), c.Query("sku"), c.Param("id"))
	a.answer(c, state, err)
}

// deadLetters answers with the accepted orders of an item that could not be written.
func (a *API) deadLetters(c *gin.Context) {
	sku := c.Param("sku")
	letters, err := a.cfg.Stock.DeadLetters(c.Request.Context(), sku)
	a.answer(c, gin.H{"sku": sku, "dead": letters}, err)
}

// retryDead puts the dead letters of an item back into its stream.
func (a *API) retryDead(c *gin.Context) {
	done, err := a.cfg.Stock.RetryDead(c.Request.Context(), c.Param("sku"))
	a.answer(c, done, err)
}

// defaultOrders is the limit of a page if the request has none.
const defaultOrders = "1000"

// orders answers with a page of the orders of the item's sale. It needs the token, because
// a page is more work for the database than an audit.
func (a *API) orders(c *gin.Context) {
	limit, err := strconv.Atoi(c.DefaultQuery("limit", defaultOrders))
	if err != nil {
		invalid(c, "limit must be a number")
		return
	}
	page, err := a.cfg.Stock.Orders(c.Request.Context(), c.Param("sku"), c.Query("after"), limit)
	a.answer(c, page, err)
}
