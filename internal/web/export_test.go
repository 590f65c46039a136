package web

import (
	"context"
	"net/http"

	"github.com/gin-gonic/gin"

	"oversell/internal/stock"
)

// HandlerWith is Handler with more routes.
func (a *API) HandlerWith(add func(*gin.Engine)) http.Handler {
	r := a.routes()
	add(r)
	return a.wrap(r)
}

// Constant is the handler of a deduct that sells nothing: it parses the request as a deduct
// does, and writes the reply to one that got res.
func (a *API) Constant(res stock.Result) gin.HandlerFunc {
	return func(c *gin.Context) {
		a.deductBy(c, func(context.Context, stock.Request) (stock.Result, error) { return res, nil })
	}
}
