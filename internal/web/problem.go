package web

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"

	"oversell/internal/cache"
	"oversell/internal/holds"
	"oversell/internal/holds/payfault"
	"oversell/internal/message"
	"oversell/internal/payment"
	"oversell/internal/stock"
	"oversell/internal/web/problem"
)

// outcome says how the API replies to an error.
type outcome struct {
	err    error
	status int
	code   string

	// withCause marks an error that wraps a backend's error. Its text may name hosts and users, and is
	// only for the log.
	withCause bool
}

// outcomesWith returns the replies to the errors of the domain and of the given locks. Any other
// error means that a backend failed.
func outcomesWith(locks []error) []outcome {
	all := slices.Clone(outcomes)
	for _, err := range locks {
		all = append(all, outcome{err, http.StatusServiceUnavailable, "busy", true})
	}
	// Last, because a cancelled request may cause other errors.
	return append(all, outcome{context.Canceled, http.StatusServiceUnavailable, "cancelled", true})
}

var outcomes = []outcome{
	{stock.ErrInvalid, http.StatusBadRequest, "invalid", false},
	{stock.ErrUnknownItem, http.StatusNotFound, "unknown_item", false},
	{stock.ErrUnknownStrategy, http.StatusNotFound, "unknown_strategy", false},
	{cache.ErrUnknownStrategy, http.StatusBadRequest, "unknown_strategy", false},
	{stock.ErrLocation, http.StatusBadRequest, "wrong_keeper", false},
	{stock.ErrNoRepair, http.StatusBadRequest, "wrong_keeper", false},
	{stock.ErrUnknownOrder, http.StatusNotFound, "unknown_order", false},
	{stock.ErrNotAccepted, http.StatusConflict, "not_accepted", false},
	{stock.ErrBacklog, http.StatusServiceUnavailable, "backlog", false},
	{stock.ErrNotDurable, http.StatusServiceUnavailable, "not_durable", false},
	{stock.ErrLimit, http.StatusConflict, "limit_reached", false}, // also holds.ErrLimit, which is the same
	{stock.ErrKeyReused, http.StatusUnprocessableEntity, "key_reused", false},
	{stock.ErrHoldsOpen, http.StatusConflict, "holds_open", false},
	{stock.ErrUnlimited, http.StatusBadRequest, "limit_unchecked", false},
	{stock.ErrSoldOut, http.StatusConflict, "sold_out", false},
	{stock.ErrOtherStrategy, http.StatusConflict, "other_strategy", false},
	{stock.ErrBusy, http.StatusServiceUnavailable, "busy", false},
	{cache.ErrBusy, http.StatusServiceUnavailable, "busy", false},
	{stock.ErrLost, http.StatusServiceUnavailable, "lock_lost", true},
	{stock.ErrFenced, http.StatusServiceUnavailable, "fenced", true},
	{stock.ErrClosing, http.StatusServiceUnavailable, "closing", false},
	{cache.ErrClosing, http.StatusServiceUnavailable, "closing", false},

	// The outcome of a payment must come before its cause, because the error wraps both.
	{holds.ErrPending, http.StatusServiceUnavailable, "payment_pending", false},
	{holds.ErrRefunded, http.StatusConflict, "refunded", false},
	{holds.ErrUnknownHold, http.StatusNotFound, "unknown_hold", false},
	{holds.ErrUnknownStage, http.StatusNotFound, "unknown_strategy", false},
	{holds.ErrOtherStage, http.StatusConflict, "other_strategy", false},
	{holds.ErrSaleOver, http.StatusConflict, "sale_over", false},
	{holds.ErrNotHeld, http.StatusConflict, "hold_ended", false},
	{holds.ErrToken, http.StatusConflict, "wrong_token", false},
	{holds.ErrExtended, http.StatusConflict, "hold_max", false},
	{payfault.ErrTooMany, http.StatusServiceUnavailable, "too_many_faults", false},
	{holds.ErrNoPayments, http.StatusServiceUnavailable, "no_payments", false},
	{payment.ErrSignature, http.StatusBadRequest, "wrong_signature", false},
	{payment.ErrStale, http.StatusBadRequest, "stale_signature", false},
	{payment.ErrEvent, http.StatusBadRequest, "invalid", true},
	{payment.ErrDeclined, http.StatusPaymentRequired, "declined", false},
	{payment.ErrKeyReused, http.StatusUnprocessableEntity, "key_reused", false},
	{payment.ErrConflict, http.StatusConflict, "payment_ended", false},
	{payment.ErrUnavailable, http.StatusServiceUnavailable, "payment_unavailable", false},
}

const codeBackend = "backend"

// answer replies with v, or with the error.
func (a *API) answer(w http.ResponseWriter, r *http.Request, v any, err error) {
	if err != nil {
		a.fail(w, r, err)
		return
	}
	reply(w, http.StatusOK, v)
}

// fail replies to a request that ended with err, and returns the code.
func (a *API) fail(w http.ResponseWriter, r *http.Request, err error) string {
	return a.failBy(w, r, "", err)
}

// failBy is like fail, for a request with a strategy: the servers of the strategy may be the ones
// that failed.
func (a *API) failBy(w http.ResponseWriter, r *http.Request, strategy string, err error) string {
	for _, o := range a.outcomes {
		if errors.Is(err, o.err) {
			problem.Reply(w, o.status, o.code, a.detail(r, err, o.err))
			return o.code
		}
	}
	// A backend's error may name hosts and users, and is only for the log.
	a.failures.Log(a.cfg.Logger, slog.LevelError, "a backend failed",
		"method", r.Method, "path", r.URL.Path, "error", err)
	problem.Reply(w, http.StatusServiceUnavailable, codeBackend, a.whatFailed(strategy))
	return codeBackend
}

// whatFailed names the backends that may be down, without their addresses.
func (a *API) whatFailed(strategy string) message.Message {
	i := slices.IndexFunc(a.cfg.Strategies, func(s Strategy) bool { return s.Name == strategy && s.Servers != "" })
	if i < 0 {
		return message.Text("Redis or the database is unavailable")
	}
	return message.Newf("Redis, the database or %s is unavailable", a.cfg.Strategies[i].Servers)
}

// detail returns the text of err for the client. If err contains a backend's error, the client gets
// only the text of known, and err is logged.
func (a *API) detail(r *http.Request, err, known error) message.Message {
	if a.allOurs(err) {
		return message.Of(err)
	}
	a.withheld.Log(a.cfg.Logger, slog.LevelWarn, "a request was not served",
		"method", r.Method, "path", r.URL.Path, "error", err)
	return message.Of(known)
}

// allOurs reports whether err contains no error of a backend. It checks the innermost errors,
// because the error of a lost lock wraps its cause, and that of a cancelled request the error of
// the interrupted command.
func (a *API) allOurs(err error) bool {
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		return a.allOurs(e.Unwrap())
	case interface{ Unwrap() []error }:
		return !slices.ContainsFunc(e.Unwrap(), func(err error) bool { return !a.allOurs(err) })
	}
	for _, o := range a.outcomes {
		if err == o.err {
			return !o.withCause
		}
	}
	return false
}

// invalid replies that the request is invalid, and why.
func invalid(w http.ResponseWriter, detail string) {
	problem.Reply(w, http.StatusBadRequest, problem.CodeInvalid, message.Text(detail))
}
