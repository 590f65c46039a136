package web

import (
	"strconv"

	"github.com/gin-gonic/gin"
)

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
