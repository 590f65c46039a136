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

// ConstantDeduct adds a route for a deduct that sells nothing: its requests are checked and parsed
// as those of a deduct are, and get the reply to one that got res.
func (a *API) ConstantDeduct(r gin.IRoutes, path string, res stock.Result) {
	r.POST(path, parameters("strategy"), func(c *gin.Context) {
		a.deductBy(c, func(context.Context, stock.Request) (stock.Result, error) { return res, nil })
	})
}
