package web

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"oversell/internal/cache"
	"oversell/internal/figures"
	"oversell/internal/message"
	"oversell/internal/naming"
	"oversell/internal/stock"
	"oversell/internal/web/problem"
)

// HeldHeader lists the times that the request spent inside the critical section, as FROM-TO in Unix
// nanoseconds, separated by commas. The bench finds overlapping holders with it.
const HeldHeader = "Oversell-Held"

// owner returns an id for one request that is unique among all instances.
func (a *API) owner() string {
	return a.cfg.Instance + "/" + strconv.FormatUint(a.owners.Add(1), 10)
}

// deduct sells units to a buyer.
func (a *API) deduct(w http.ResponseWriter, r *http.Request) {
	req, ok := a.deductRequest(w, r)
	if !ok {
		return
	}
	a.metrics.seen(req.Strategy)
	buying := a.metrics.buying.WithLabelValues(req.Strategy)
	buying.Inc()
	defer buying.Dec()
	w, traced := a.trace(w, r, &req)
	res, err := a.cfg.Stock.Deduct(r.Context(), req)
	held(w, res.Spans)
	outcome := "sold"
	if err != nil {
		outcome = a.failBy(w, r, req.Strategy, err)
	} else if res.Replayed {
		outcome = "replayed"
	} else if res.State == stock.StateAccepted {
		outcome = "accepted"
	}
	defer func() { traced(outcome, res) }()
	a.metrics.lock(req.Strategy, res.Lock)
	if err == nil { // only names of items are audited
		a.metrics.sales.watch(req.SKU)
	}
	if res.Lock.Release != nil {
		a.cfg.Logger.Warn("a lock was not released",
			"strategy", req.Strategy, "sku", req.SKU, "error", res.Lock.Release)
	}
	switch {
	case err != nil:
	case res.State != "":
		outcome = cmp.Or(a.behind(w, r, res), outcome)
	default:
		reply(w, http.StatusOK, sold{Order: res.Order, Remaining: res.Left, Replayed: res.Replayed})
	}
	a.metrics.request(req.Strategy, outcome)
}

// deductRequest reads the request of a buyer. If it is invalid, it replies and returns false.
func (a *API) deductRequest(w http.ResponseWriter, r *http.Request) (stock.Request, bool) {
	req := stock.Request{SKU: r.PathValue("sku")}
	var ok bool
	if req.Strategy, ok = a.requested(w, r); !ok {
		return req, false
	}
	var body struct {
		Quantity *int64  `json:"quantity"`
		Buyer    *string `json:"buyer"`
	}
	if !problem.ReadBody(w, r.Body, &body) {
		return req, false
	}
	if body.Quantity == nil {
		invalid(w, `quantity is missing: {"quantity":1}`)
		return req, false
	}
	if !a.oneEach(w, r, *body.Quantity) {
		return req, false
	}
	req.Quantity = *body.Quantity
	if body.Buyer != nil {
		if req.Buyer = *body.Buyer; req.Buyer == "" {
			invalid(w, "buyer is empty: leave it out if the item has no limit per buyer")
			return req, false
		}
	}
	if req.IdempotencyKey, ok = idempotencyKey(w, r); !ok {
		return req, false
	}
	req.Owner = a.owner()
	return req, true
}

// oneEach reports whether a buyer may take that many units with the strategy that the request
// names. If not, oneEach replies with an error.
func (a *API) oneEach(w http.ResponseWriter, r *http.Request, quantity int64) bool {
	if !a.cfg.OneEach || r.URL.Query().Get("strategy") == "" && quantity == 1 || problem.Authorized(r, a.cfg.Token) {
		return true
	}
	problem.Reply(w, http.StatusForbidden, "one_each",
		message.Text("in this sale a buyer takes one unit, and naming a strategy needs the token"))
	return false
}

// idempotencyKey returns the key of a request, or "" if it has none. If the header is empty or
// given twice, idempotencyKey replies with an error and returns false: the client relies on a key,
// but it is unclear which one.
func idempotencyKey(w http.ResponseWriter, r *http.Request) (string, bool) {
	keys := r.Header.Values("Idempotency-Key")
	switch {
	case len(keys) == 0:
		return "", true
	case len(keys) > 1:
		invalid(w, "the header Idempotency-Key is given more than once")
	case keys[0] == "":
		invalid(w, "the header Idempotency-Key is empty: leave it out, or give each purchase a key of its own")
	default:
		return keys[0], true
	}
	return "", false
}

// sold is the reply to a purchase.
type sold struct {
	stock.Order
	Remaining int64 `json:"remaining"` // units left, as this buyer last saw the stock
	Replayed  bool  `json:"replayed"`  // an earlier request with the same key made the order

	// State is the last known state of the order, if it is written through a stream.
	State  string `json:"state,omitempty"`
	Reason string `json:"reason,omitempty"` // why the order is waiting for a retry of the dead letters
}

// held writes the spans into the reply's header.
func held(w http.ResponseWriter, spans []figures.Span) {
	if len(spans) == 0 {
		return
	}
	texts := make([]string, len(spans))
	for i, s := range spans {
		texts[i] = fmt.Sprintf("%d-%d", s.From.UnixNano(), s.To.UnixNano())
	}
	w.Header().Set(HeldHeader, strings.Join(texts, ","))
}

// ParseHeld reads the value of a HeldHeader.
func ParseHeld(value string) ([]figures.Span, error) {
	if value == "" {
		return nil, nil
	}
	var spans []figures.Span
	for text := range strings.SplitSeq(value, ",") {
		var from, to int64
		if _, err := fmt.Sscanf(text, "%d-%d", &from, &to); err != nil {
			return nil, fmt.Errorf("reading %s: %q: %w", HeldHeader, text, err)
		}
		spans = append(spans, figures.Span{From: time.Unix(0, from), To: time.Unix(0, to)})
	}
	return spans, nil
}

func (a *API) putItem(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Name        string        `json:"name"`
		Category    string        `json:"category"`
		Stock       *int64        `json:"stock"`
		Keeper      stock.Backend `json:"keeper"`
		HoldSeconds int64         `json:"hold_seconds"`
		Limit       int64         `json:"limit"`
		Strategy    string        `json:"strategy"`
	}
	if !problem.ReadBody(w, r.Body, &body) {
		return
	}
	if body.Stock == nil {
		invalid(w, `stock is missing: {"stock":1000}`)
		return
	}
	item := stock.Item{
		SKU: r.PathValue("sku"), Name: body.Name, Category: body.Category, Initial: *body.Stock, Keeper: body.Keeper,
		HoldSeconds: body.HoldSeconds, Limit: body.Limit,
	}
	var ok bool
	if item.Family, ok = a.firstFamily(w, r, body.Strategy, item); !ok {
		return
	}
	ctx := context.WithoutCancel(r.Context()) // a client that leaves must not interrupt a change halfway
	item, err := a.cfg.Stock.Put(ctx, item)
	if err == nil {
		err = a.forget(ctx, item.SKU)
	}
	if err != nil {
		a.fail(w, r, err)
		return
	}
	a.metrics.sales.watch(item.SKU)
	reply(w, http.StatusOK, item)
}

// restock adds units to the item's current sale.
func (a *API) restock(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Add *int64 `json:"add"`
	}
	if !problem.ReadBody(w, r.Body, &body) {
		return
	}
	if body.Add == nil {
		invalid(w, `add is missing: {"add":20}`)
		return
	}
	key, ok := idempotencyKey(w, r)
	if !ok {
		return
	}
	ctx, sku := context.WithoutCancel(r.Context()), r.PathValue("sku") // as in putItem
	done, err := a.cfg.Stock.Restock(ctx, sku, key, *body.Add)
	if err == nil {
		if err := a.forget(ctx, sku); err != nil { // not returned: a client without a key would restock again
			a.cfg.Logger.Warn("an item was restocked, but the cache still has its old number of units", "sku", sku,
				"error", err)
		}
	}
	a.answer(w, r, done, err)
}

// firstFamily returns the family of the strategy that sells an item first: the named one, or the
// default one. If the named one does not exist or cannot sell the item, firstFamily replies with an
// error and returns false. The default strategy need not be able to sell the item, because other
// strategies may.
func (a *API) firstFamily(w http.ResponseWriter, r *http.Request, named string, item stock.Item) (string, bool) {
	if named == "" {
		return a.cfg.Stock.Family(a.strategy.Load().(string)), true
	}
	name := naming.Expand(named, a.names)
	known := slices.Contains(a.names, name)
	if !known && item.Keeper == stock.InHolds {
		problem.Reply(w, http.StatusBadRequest, "wrong_keeper", message.Text("no strategy sells an item with the "+
			"keeper holds: leave strategy out; the first hold of the sale names the stage"))
		return "", false
	}
	if !known {
		a.unknownStrategy(w, name)
		return "", false
	}
	if err := a.cfg.Stock.CanSell(name, item); err != nil {
		a.fail(w, r, err)
		return "", false
	}
	return a.cfg.Stock.Family(name), true
}

func (a *API) deleteItem(w http.ResponseWriter, r *http.Request) {
	ctx, sku := context.WithoutCancel(r.Context()), r.PathValue("sku") // as in putItem
	err := a.cfg.Stock.Delete(ctx, sku)
	if err == nil {
		err = errors.Join(a.cfg.Cache.Delete(ctx, ItemKey(sku)), a.cfg.Cache.Forget(ctx, categoriesKey))
	}
	if err != nil {
		a.fail(w, r, err)
		return
	}
	a.metrics.sales.forget(sku)
	w.WriteHeader(http.StatusNoContent)
}

// categoriesKey is the name of the category map in the cache.
const categoriesKey = "categories"

// ItemKey returns the name of an item's value in the cache. The cache's guards lock the same name.
func ItemKey(sku string) string { return "item:" + sku }

// forget removes an item that has changed from the cache.
func (a *API) forget(ctx context.Context, sku string) error {
	return errors.Join(a.cfg.Cache.Forget(ctx, ItemKey(sku)), a.cfg.Cache.Forget(ctx, categoriesKey))
}

// item answers with the item from the cache and the current number of units left.
func (a *API) item(w http.ResponseWriter, r *http.Request) {
	sku := r.PathValue("sku")
	if err := stock.CheckSKU(sku); err != nil {
		a.fail(w, r, err)
		return
	}
	value, ok := a.cached(w, r, ItemKey(sku), func(ctx context.Context) ([]byte, bool, error) {
		item, err := a.cfg.Stock.Item(ctx, sku)
		if errors.Is(err, stock.ErrUnknownItem) {
			return nil, false, nil
		}
		if err != nil {
			return nil, false, err
		}
		text, err := json.Marshal(item)
		return text, true, err
	})
	if !ok {
		return
	}
	if value == nil {
		a.fail(w, r, message.Errorf("%w: %s", stock.ErrUnknownItem, sku))
		return
	}
	left, saleID, err := a.cfg.Stock.Left(r.Context(), sku)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	var found struct {
		stock.Item
		Remaining int64 `json:"remaining"`
	}
	if err := json.Unmarshal(value, &found.Item); err != nil {
		a.fail(w, r, fmt.Errorf("reading the cached item %s: %w", sku, err))
		return
	}
	if found.SaleID != saleID {
		// The process that began this sale crashed before it updated the cache.
		if found.Item, err = a.cfg.Stock.Item(r.Context(), sku); err == nil {
			err = a.forget(r.Context(), sku)
		}
		if err != nil {
			a.fail(w, r, err)
			return
		}
	}
	found.Remaining = left
	reply(w, http.StatusOK, found)
}

// categories answers with the category map.
func (a *API) categories(w http.ResponseWriter, r *http.Request) {
	value, ok := a.cached(w, r, categoriesKey, func(ctx context.Context) ([]byte, bool, error) {
		all, err := a.cfg.Stock.Categories(ctx)
		if err != nil {
			return nil, false, err
		}
		text, err := json.Marshal(all)
		return text, true, err
	})
	if ok {
		w.Header().Set("Content-Type", jsonType)
		_, _ = w.Write(value) // as in reply
	}
}

// cached reads a value through the cache. The value is nil if it does not exist. After an error,
// cached replies with that error and returns false.
func (a *API) cached(w http.ResponseWriter, r *http.Request, key string, load cache.Load) ([]byte, bool) {
	name, ok := a.requested(w, r)
	if !ok {
		return nil, false
	}
	if r.URL.Query().Get("strategy") == "" && !a.guardsReads(name) {
		name = a.cfg.ForReads
	}
	second, err := strconv.ParseBool(cmp.Or(r.URL.Query().Get("second_look"), "true"))
	if err != nil {
		invalid(w, "second_look must be true or false")
		return nil, false
	}
	res, err := a.cfg.Cache.Read(r.Context(), cache.Request{
		Key: key, Strategy: name, Owner: a.owner(), NoSecondLook: !second,
	}, load)
	held(w, res.Spans)
	a.metrics.cache(name, res)
	if err != nil {
		a.metrics.request(name, a.failBy(w, r, name, err))
		return nil, false
	}
	if !res.Found {
		a.metrics.request(name, "read_nothing")
		return nil, true
	}
	a.metrics.request(name, "read")
	return res.Value, true
}

// audit answers with the audit of the item's current sale.
func (a *API) audit(w http.ResponseWriter, r *http.Request) {
	ctx, sku := r.Context(), r.PathValue("sku")
	found, err := a.cfg.Stock.Audit(ctx, sku)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	audit := Audit{Audit: found, Instance: a.cfg.Instance}
	if audit.CacheLoads, err = a.cfg.Cache.Loads(ctx, ItemKey(sku)); err == nil {
		audit.RedisCommands, err = a.cfg.Commands(ctx)
	}
	a.answer(w, r, audit, err)
}

// repair makes the stock agree with the orders.
func (a *API) repair(w http.ResponseWriter, r *http.Request) {
	done, err := a.cfg.Stock.Repair(r.Context(), r.PathValue("sku"))
	if err == nil && done.Returned != 0 {
		a.cfg.Logger.Info("the stock was repaired", "sku", done.SKU, "returned", done.Returned)
	}
	a.answer(w, r, done, err)
}

// Audit is the reply to an audit.
type Audit struct {
	stock.Audit
	Instance   string           `json:"instance"`    // the instance that answered
	CacheLoads map[string]int64 `json:"cache_loads"` // loads of the item's cached value, by instance
	// RedisCommands is the number of commands that Redis has counted since it started, or nil if
	// Redis denies INFO.
	RedisCommands *int64 `json:"redis_commands,omitempty"`
}
