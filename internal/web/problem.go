package web

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/gin-gonic/gin"

	"oversell/internal/cache"
	"oversell/internal/locks/thirdparty"
	"oversell/internal/locks/waitlock"
	"oversell/internal/stock"
	"oversell/internal/web/problem"
)

// outcomes maps the errors to replies. What is not in it means that a backend
// did not do its part.
var outcomes = []struct {
	err    error
	status int
	code   string

	// withCause marks an error around which there are words of a backend:
	// they may name hosts and users, and are for the log.
	withCause bool
}{
	{stock.ErrInvalid, http.StatusBadRequest, "invalid", false},
	{stock.ErrUnknownItem, http.StatusNotFound, "unknown_item", false},
	{stock.ErrUnknownStrategy, http.StatusNotFound, "unknown_strategy", false},
	{cache.ErrUnknownStrategy, http.StatusBadRequest, "unknown_strategy", false},
	{stock.ErrPlace, http.StatusBadRequest, "wrong_keeper", false},
	{stock.ErrSoldOut, http.StatusConflict, "sold_out", false},
	{stock.ErrOtherStrategy, http.StatusConflict, "other_strategy", false},
	{stock.ErrBusy, http.StatusServiceUnavailable, "busy", false},
	{thirdparty.ErrGaveUp, http.StatusServiceUnavailable, "busy", true},
	{waitlock.ErrNotReplicated, http.StatusServiceUnavailable, "not_replicated", false},
	{cache.ErrBusy, http.StatusServiceUnavailable, "busy", false},
	{stock.ErrLost, http.StatusServiceUnavailable, "lock_lost", true},
	{stock.ErrFenced, http.StatusServiceUnavailable, "fenced", true},
	{stock.ErrClosing, http.StatusServiceUnavailable, "closing", false},
	{cache.ErrClosing, http.StatusServiceUnavailable, "closing", false},
	{context.Canceled, http.StatusServiceUnavailable, "cancelled", true},
}

const codeBackend = "backend"

// fail replies to a request that ended with err, and returns the code.
func (a *API) fail(c *gin.Context, err error) string {
	for _, o := range outcomes {
		if errors.Is(err, o.err) {
			reply(c, o.status, o.code, a.detail(c, err, o.err))
			return o.code
		}
	}
	// What the backends say is for the log: it may name hosts and users.
	if skipped, ok := a.failures.line(); ok {
		a.cfg.Logger.Error("a backend failed", "method", c.Request.Method, "path", c.Request.URL.Path, "error", err, "not_logged_before", skipped)
	}
	reply(c, http.StatusServiceUnavailable, codeBackend, a.away(c))
	return codeBackend
}

// away says what may be away, by kind and not by address.
func (a *API) away(c *gin.Context) string {
	name := c.GetString(askedKey)
	i := slices.IndexFunc(a.cfg.Strategies, func(s Strategy) bool { return s.Name == name && s.Servers != "" })
	if i < 0 {
		return "Redis or the database is away"
	}
	return "Redis, the database or " + a.cfg.Strategies[i].Servers + " is away"
}

// detail returns what a client is told of err, which is a known one: all of
// it, or the known one's own words while the log gets the rest.
func (a *API) detail(c *gin.Context, err, known error) string {
	if allOurs(err) {
		return err.Error()
	}
	if skipped, ok := a.untold.line(); ok {
		a.cfg.Logger.Warn("a request was not served", "method", c.Request.Method, "path", c.Request.URL.Path, "error", err, "not_logged_before", skipped)
	}
	return known.Error()
}

// allOurs reports whether every word of err is the shop's own, and none of a
// backend. It looks for what is at the bottom of err, since a lost lock brings
// its cause along, and a cancelled request the command that it cut off.
func allOurs(err error) bool {
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		return allOurs(e.Unwrap())
	case interface{ Unwrap() []error }:
		return !slices.ContainsFunc(e.Unwrap(), func(err error) bool { return !allOurs(err) })
	}
	for _, o := range outcomes {
		if err == o.err {
			return !o.withCause
		}
	}
	return false
}

// invalid replies that the request is wrong, and how.
func invalid(c *gin.Context, detail string) {
	reply(c, http.StatusBadRequest, problem.CodeInvalid, detail)
}

// reply sends a problem and ends the handling of the request. The code is the same
// as in the metrics.
func reply(c *gin.Context, status int, code, detail string) {
	c.Abort()
	problem.Reply(c.Writer, status, code, detail)
}

// parse reads a JSON body into v. It replies and returns false when the body
// is anything but one JSON object of the right form.
func (a *API) parse(c *gin.Context, v any) bool {
	ok := problem.ReadBody(c.Writer, c.Request.Body, v)
	if !ok {
		c.Abort()
	}
	return ok
}
