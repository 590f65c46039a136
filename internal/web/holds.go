package web

import (
	"cmp"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"oversell/internal/holds"
	"oversell/internal/message"
	"oversell/internal/naming"
	"oversell/internal/payment"
	"oversell/internal/stock"
	"oversell/internal/web/problem"
)

// holdRoutes returns the routes of a sale by holds.
func (a *API) holdRoutes() problem.Routes {
	token := a.cfg.Token
	return problem.Routes{
		"POST /api/items/{sku}/holds":  problem.Parameters(a.hold, "strategy"),
		"GET /api/holds/{id}":          problem.Parameters(a.getHold),
		"DELETE /api/holds/{id}":       problem.Parameters(problem.Bodiless(a.release), "token"),
		"POST /api/holds/{id}/pay":     problem.Parameters(a.pay),
		"POST /api/holds/{id}/extend":  problem.Parameters(a.extend),
		"PUT /api/holds/{id}/fault":    problem.Guarded(token, problem.Parameters(a.putFault)),
		"POST /api/orders/{id}/cancel": problem.Parameters(a.cancel),
		"GET /api/audit/{sku}/holds":   problem.Guarded(token, problem.Parameters(a.listHolds)),
		"POST /api/payments/webhook":   problem.Parameters(a.webhook),
	}
}

// hold takes units for a buyer.
func (a *API) hold(w http.ResponseWriter, r *http.Request) {
	stages := names(a.cfg.HoldStages)
	stage := naming.Expand(cmp.Or(r.URL.Query().Get("strategy"), a.cfg.HoldStage), stages)
	if !slices.Contains(stages, stage) {
		problem.Reply(w, http.StatusNotFound, "unknown_strategy",
			message.Newf("there is no strategy %s for holds; the shop has: %s", problem.Quoted(stage),
				strings.Join(stages, ", ")))
		return
	}
	var body struct {
		Buyer    *string `json:"buyer"`
		Quantity *int64  `json:"quantity"`
	}
	if !problem.ReadBody(w, r.Body, &body) {
		return
	}
	if body.Buyer == nil || body.Quantity == nil {
		invalid(w, `buyer or quantity is missing: {"buyer":"ann","quantity":1}`)
		return
	}
	if !a.oneEach(w, r, *body.Quantity) {
		return
	}
	key, ok := idempotencyKey(w, r)
	if !ok {
		return
	}
	h, err := a.cfg.Holds.Hold(r.Context(), stage, holds.Request{
		SKU: r.PathValue("sku"), Buyer: *body.Buyer, Quantity: *body.Quantity, Key: key,
	})
	if err != nil {
		a.metrics.request(stage, a.fail(w, r, err))
		return
	}
	a.metrics.request(stage, "held")
	a.metrics.sales.watch(r.PathValue("sku"))
	w.Header().Set("Location", "/api/holds/"+h.ID)
	reply(w, http.StatusCreated, h)
}

// getHold answers with a hold as it is now.
func (a *API) getHold(w http.ResponseWriter, r *http.Request) {
	h, err := a.cfg.Holds.Get(r.Context(), r.PathValue("id"))
	a.answer(w, r, h, err)
}

// release returns the units of a hold to the stock. Releasing a hold twice is not an error: the
// reply to the first request may have been lost.
func (a *API) release(w http.ResponseWriter, r *http.Request) {
	token, err := strconv.ParseInt(r.URL.Query().Get("token"), 10, 64)
	if err != nil {
		invalid(w, "the parameter token must be the hold's token, as in ?token=7")
		return
	}
	err = a.cfg.Holds.Release(r.Context(), r.PathValue("id"), token)
	var ended holds.NotHeldError
	if errors.As(err, &ended) && ended.Status == holds.Released {
		err = nil
	}
	a.answerHold(w, r, "released", nil, err)
}

// answerHold counts a request for a hold by its outcome. It replies with v, with an empty body if v
// is nil, or with the error.
func (a *API) answerHold(w http.ResponseWriter, r *http.Request, outcome string, v any, err error) {
	switch {
	case err != nil:
		outcome = a.fail(w, r, err)
	case v == nil:
		w.WriteHeader(http.StatusNoContent)
	default:
		reply(w, http.StatusOK, v)
	}
	a.metrics.request(a.stageOf(r.PathValue("id")), outcome)
}

// bodyToken reads the token of a hold from the body of a request. If the body has no token, it is
// nil. If the body is malformed, bodyToken replies with an error and returns false.
func bodyToken(w http.ResponseWriter, r *http.Request) (token *int64, ok bool) {
	var body struct {
		Token *int64 `json:"token"`
	}
	ok = problem.ReadBody(w, r.Body, &body)
	return body.Token, ok
}

// holdToken is like bodyToken, for a request that needs the token.
func holdToken(w http.ResponseWriter, r *http.Request) (int64, bool) {
	token, ok := bodyToken(w, r)
	if !ok {
		return 0, false
	}
	if token == nil {
		invalid(w, `token is missing: {"token":7}, from the reply to the hold`)
		return 0, false
	}
	return *token, true
}

// extend lets a hold expire later, and answers with it.
func (a *API) extend(w http.ResponseWriter, r *http.Request) {
	token, ok := holdToken(w, r)
	if !ok {
		return
	}
	h, err := a.cfg.Holds.Extend(r.Context(), r.PathValue("id"), token)
	a.answerHold(w, r, "extended", h, err)
}

// cancel cancels an order. It accepts the token of the hold, which the buyer has, or the token of
// the shop.
func (a *API) cancel(w http.ResponseWriter, r *http.Request) {
	sent, ok := bodyToken(w, r)
	if !ok {
		return
	}
	id := r.PathValue("id")
	var token int64
	switch {
	case sent != nil:
		token = *sent
	case !problem.Authorized(r, a.cfg.Token):
		problem.Challenge(w)
		return
	default:
		if h, err := a.cfg.Holds.Get(r.Context(), id); err == nil { // Cancel reports any other error
			token = h.Token
		}
	}
	a.answerHold(w, r, "cancelled", nil, a.cfg.Holds.Cancel(r.Context(), id, token))
}

// pay charges the buyer and answers with the order.
func (a *API) pay(w http.ResponseWriter, r *http.Request) {
	token, ok := holdToken(w, r)
	if !ok {
		return
	}
	key, ok := idempotencyKey(w, r)
	if !ok {
		return
	}
	order, err := a.cfg.Holds.Pay(r.Context(), r.PathValue("id"), token, key)
	a.answerHold(w, r, "paid", order, err)
}

// holdOrder answers with the order that a hold has become. Such an order is always written: a
// payment under way has no order yet.
func (a *API) holdOrder(w http.ResponseWriter, r *http.Request) {
	o, err := a.cfg.Holds.Order(r.Context(), r.PathValue("id"))
	a.answer(w, r, struct {
		holds.Order
		State string `json:"state"`
	}{o, stock.StateWritten}, err)
}

// otherHolds is the metrics label for ids that no stage has issued. webhooks is the label for
// webhooks.
const (
	otherHolds = "unknown_hold"
	webhooks   = "webhook"
)

// stageOf returns the stage that may have issued the id of a hold. It is used for the metrics.
func (a *API) stageOf(id string) string {
	short, _, _ := strings.Cut(id, "-")
	for _, stage := range names(a.cfg.HoldStages) {
		if begin, _, _ := strings.Cut(stage, "_"); begin == short {
			return stage
		}
	}
	return otherHolds
}

// webhook handles a webhook of the payment provider. The signature is checked before the body is
// parsed. Only the ids of the event and its payment are used: the service asks the provider for the
// payment's state, so that an outdated or false event changes nothing.
func (a *API) webhook(w http.ResponseWriter, r *http.Request) {
	event, ok := a.readWebhook(w, r)
	if !ok {
		return
	}
	var err error
	switch event.Type {
	case payment.EventCaptured:
		err = a.cfg.Holds.Captured(r.Context(), event.Payment.ID)
	case payment.EventRefunded:
		err = a.cfg.Holds.Refunded(r.Context(), event.Payment.ID)
	case payment.EventRefundFailed:
		err = a.cfg.Holds.RefundFailed(r.Context(), event.Payment.ID, event.ID)
	default: // other events are not needed
		a.answerWebhook(w, "ignored")
		return
	}
	if errors.Is(err, holds.ErrUnknownHold) || errors.Is(err, holds.ErrNotCaptured) ||
		errors.Is(err, payment.ErrUnknownPayment) {
		// Sending it again would change nothing, so the reply is not an error.
		a.withheld.Log(a.cfg.Logger, slog.LevelWarn, "a webhook was ignored", "payment", event.Payment.ID, "error", err)
		a.answerWebhook(w, "ignored")
		return
	}
	if err != nil { // the provider sends it again
		a.metrics.request(webhooks, a.fail(w, r, err))
		return
	}
	a.answerWebhook(w, "settled")
}

func (a *API) answerWebhook(w http.ResponseWriter, result string) {
	a.metrics.request(webhooks, result)
	reply(w, http.StatusOK, map[string]any{"result": result})
}

// readWebhook returns the event of a webhook. If the provider has not signed the webhook, or it
// cannot be read, readWebhook replies with an error and returns false.
func (a *API) readWebhook(w http.ResponseWriter, r *http.Request) (payment.Event, bool) {
	body, err := io.ReadAll(r.Body)
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		problem.Reply(w, http.StatusRequestEntityTooLarge, "too_large",
			message.Newf("a webhook may have at most %d bytes", maxBody))
	case err != nil:
		invalid(w, "the body ended before it was complete")
	default:
		event, err := a.verified(r.Header.Values(payment.SignatureHeader), body)
		if err == nil {
			return event, true
		}
		a.metrics.request(webhooks, a.fail(w, r, err))
		return payment.Event{}, false
	}
	a.metrics.request(webhooks, "refused")
	return payment.Event{}, false
}

// verified reads an event from the body. There must be exactly one signature, and it must be valid.
func (a *API) verified(signatures []string, body []byte) (payment.Event, error) {
	if len(signatures) != 1 {
		return payment.Event{}, payment.ErrSignature
	}
	if err := payment.Verify(a.cfg.WebhookSecret, signatures[0], body, time.Now()); err != nil {
		return payment.Event{}, err
	}
	return payment.ParseEvent(body)
}
