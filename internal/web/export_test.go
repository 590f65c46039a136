package web

import (
	"net/http"

	"github.com/gin-gonic/gin"
)

// HandlerWith is Handler with more routes.
func (a *API) HandlerWith(add func(*gin.Engine)) http.Handler {
	r := a.routes()
	add(r)
	return a.wrap(r)
}
