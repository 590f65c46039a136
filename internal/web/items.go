package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"oversell/internal/cache"
	"oversell/internal/figures"
	"oversell/internal/guard"
	"oversell/internal/stock"
)

// HeldHeader has the times that the request was inside the critical section, as FROM-TO in
// Unix nanoseconds, separated by commas. The bench finds overlapping holders with it.
const HeldHeader = "Oversell-Held"

// owner returns an id for one request that is unique among all instances.
func (a *API) owner() string {
	return a.cfg.Instance + "/" + strconv.FormatUint(a.owners.Add(1), 10)
}

// deduct sells units to a buyer.
func (a *API) deduct(c *gin.Context) {
	name, ok := a.requested(c)
	if !ok {
		return
	}
	var body struct {
		Quantity *int64  `json:"quantity"`
		Buyer    *string `json:"buyer"`
	}
	if !a.parse(c, &body) {
		return
	}
	if body.Quantity == nil {
		invalid(c, `quantity is missing: {"quantity":1}`)
		return
	}
	if !a.oneEach(c, *body.Quantity) {
		return
	}
	var buyer string
	if body.Buyer != nil {
		if buyer = *body.Buyer; buyer == "" {
			invalid(c, "buyer is empty: leave it out if the item has no limit per buyer")
			return
		}
	}
	key, ok := idempotencyKey(c)
	if !ok {
		return
	}
	a.metrics.seen(name)
	buying := a.metrics.buying.WithLabelValues(name)
	buying.Inc()
	defer buying.Dec()
	req := stock.Request{
		SKU: c.Param("sku"), Quantity: *body.Quantity, Strategy: name,
		IdempotencyKey: key, Buyer: buyer, Owner: a.owner(),
	}
	traced := a.trace(c, &req)
	res, err := a.cfg.Stock.Deduct(c.Request.Context(), req)
	held(c, res.Spans)
	outcome := "sold"
	if err != nil {
		outcome = a.fail(c, err)
	} else if res.Replayed {
		outcome = "replayed"
	} else if res.Accepted {
		outcome = "accepted"
	}
	defer func() { traced(outcome, res) }()
	a.metrics.request(name, outcome)
	a.metrics.lock(name, res.Lock)
	if err == nil { // so that a name that nobody sells is never audited
		a.metrics.sales.watch(c.Param("sku"))
	}
	if res.Lock.Release != nil {
		a.cfg.Logger.Warn("a lock was not released", "strategy", name, "sku", c.Param("sku"), "error", res.Lock.Release)
	}
	switch {
	case err != nil:
	case res.State != "":
		a.behind(c, res)
	default:
		c.JSON(http.StatusOK, sold{Order: res.Order, Remaining: res.Left, Replayed: res.Replayed})
	}
}

// oneEach reports whether a buyer may take so many units, and by the strategy that the request
// names. Otherwise it replies.
func (a *API) oneEach(c *gin.Context, quantity int64) bool {
	if !a.cfg.OneEach || c.Query("strategy") == "" && quantity == 1 || Authorized(c.Request, a.cfg.Token) {
		return true
	}
	reply(c, http.StatusForbidden, "one_each", "here a buyer takes one unit, and only the token may name a strategy")
	return false
}

// idempotencyKey returns the key of a request, "" for none. If the header is empty or given
// twice it replies and returns false: the client relies on a key, but it is unclear which.
func idempotencyKey(c *gin.Context) (string, bool) {
	keys := c.Request.Header.Values("Idempotency-Key")
	switch {
	case len(keys) == 0:
		return "", true
	case len(keys) > 1:
		invalid(c, "the header Idempotency-Key is given more than once")
	case keys[0] == "":
		invalid(c, "the header Idempotency-Key is empty: leave it out, or give each purchase a key of its own")
	default:
		return keys[0], true
	}
	return "", false
}

// sold is the reply to a deduct.
type sold struct {
	stock.Order
	Remaining int64 `json:"remaining"` // as this buyer saw it
	Replayed  bool  `json:"replayed"`  // an earlier request with the same key made the order

	// State is that of an order that is written behind the sale, as far as it is known.
	State  string `json:"state,omitempty"`
	Reason string `json:"reason,omitempty"` // why it waits for a retry of the dead letters
}

// held writes the spans into the reply's header.
func held(c *gin.Context, spans []figures.Span) {
	if len(spans) == 0 {
		return
	}
	texts := make([]string, len(spans))
	for i, s := range spans {
		texts[i] = fmt.Sprintf("%d-%d", s.From.UnixNano(), s.To.UnixNano())
	}
	c.Header(HeldHeader, strings.Join(texts, ","))
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

func (a *API) putItem(c *gin.Context) {
	var body struct {
		Name        string        `json:"name"`
		Category    string        `json:"category"`
		Stock       *int64        `json:"stock"`
		Keeper      stock.Backend `json:"keeper"`
		HoldSeconds int64         `json:"hold_seconds"`
		Limit       int64         `json:"limit"`
		Strategy    string        `json:"strategy"`
	}
	if !a.parse(c, &body) {
		return
	}
	if body.Stock == nil {
		invalid(c, `stock is missing: {"stock":1000}`)
		return
	}
	item := stock.Item{
		SKU: c.Param("sku"), Name: body.Name, Category: body.Category, Initial: *body.Stock, Keeper: body.Keeper,
		HoldSeconds: body.HoldSeconds, Limit: body.Limit,
	}
	var ok bool
	if item.Family, ok = a.firstFamily(c, body.Strategy, item); !ok {
		return
	}
	ctx := context.WithoutCancel(c.Request.Context()) // a client that leaves must not interrupt a change halfway
	item, err := a.cfg.Stock.Put(ctx, item)
	if err == nil {
		err = a.forget(ctx, item.SKU)
	}
	if err != nil {
		a.fail(c, err)
		return
	}
	a.metrics.sales.watch(item.SKU)
	c.JSON(http.StatusOK, item)
}

// firstFamily returns the family of the strategy that sells an item first: the named one, or
// the default one. If the named one does not exist or cannot sell the item, it replies and
// returns false. Other strategies may sell the item as well, so the default one need not be
// able to.
func (a *API) firstFamily(c *gin.Context, named string, item stock.Item) (string, bool) {
	if named == "" {
		return a.cfg.Stock.Family(a.strategy.Load().(string)), true
	}
	name := guard.Expand(named, a.names())
	if !a.known(name) && item.Keeper == stock.InHolds {
		reply(c, http.StatusBadRequest, "wrong_keeper", "no strategy sells an item with the keeper holds: leave strategy out; the first hold of the sale names the stage")
		return "", false
	}
	if !a.known(name) {
		a.unknownStrategy(c, name)
		return "", false
	}
	if err := a.cfg.Stock.CanSell(name, item); err != nil {
		a.fail(c, err)
		return "", false
	}
	return a.cfg.Stock.Family(name), true
}

func (a *API) deleteItem(c *gin.Context) {
	ctx, sku := context.WithoutCancel(c.Request.Context()), c.Param("sku") // as in putItem
	err := a.cfg.Stock.Delete(ctx, sku)
	if err == nil {
		err = errors.Join(a.cfg.Cache.Delete(ctx, itemKey(sku)), a.cfg.Cache.Forget(ctx, categoriesKey))
	}
	if err != nil {
		a.fail(c, err)
		return
	}
	a.metrics.sales.forget(sku)
	c.Status(http.StatusNoContent)
}

// The names of cached values.
const categoriesKey = "categories"

func itemKey(sku string) string { return "item:" + sku }

// forget removes an item that has changed from the cache.
func (a *API) forget(ctx context.Context, sku string) error {
	return errors.Join(a.cfg.Cache.Forget(ctx, itemKey(sku)), a.cfg.Cache.Forget(ctx, categoriesKey))
}

// item answers with the item from the cache, and the units that are left now.
func (a *API) item(c *gin.Context) {
	sku := c.Param("sku")
	if err := stock.CheckSKU(sku); err != nil {
		a.fail(c, err)
		return
	}
	value, ok := a.cached(c, itemKey(sku), func(ctx context.Context) ([]byte, bool, error) {
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
		a.fail(c, fmt.Errorf("%w: %s", stock.ErrUnknownItem, sku))
		return
	}
	left, saleID, err := a.cfg.Stock.Left(c.Request.Context(), sku)
	if err != nil {
		a.fail(c, err)
		return
	}
	var reply struct {
		stock.Item
		Remaining int64 `json:"remaining"`
	}
	if err := json.Unmarshal(value, &reply.Item); err != nil {
		a.fail(c, fmt.Errorf("reading the cached item %s: %w", sku, err))
		return
	}
	if reply.SaleID != saleID {
		// The process that began this sale crashed before it updated the cache.
		if reply.Item, err = a.cfg.Stock.Item(c.Request.Context(), sku); err == nil {
			err = a.forget(c.Request.Context(), sku)
		}
		if err != nil {
			a.fail(c, err)
			return
		}
	}
	reply.Remaining = left
	c.JSON(http.StatusOK, reply)
}

// categories answers with the category map.
func (a *API) categories(c *gin.Context) {
	value, ok := a.cached(c, categoriesKey, func(ctx context.Context) ([]byte, bool, error) {
		all, err := a.cfg.Stock.Categories(ctx)
		if err != nil {
			return nil, false, err
		}
		text, err := json.Marshal(all)
		return text, true, err
	})
	if ok {
		c.Data(http.StatusOK, "application/json; charset=utf-8", value)
	}
}

// cached reads a value through the cache; it is nil if it does not exist. After an error it
// replies and returns false.
func (a *API) cached(c *gin.Context, key string, load cache.Load) ([]byte, bool) {
	name, ok := a.requested(c)
	if !ok {
		return nil, false
	}
	if c.Query("strategy") == "" && !a.guardsReads(name) {
		name = a.cfg.ForReads
	}
	second, err := strconv.ParseBool(c.DefaultQuery("second_look", "true"))
	if err != nil {
		invalid(c, "second_look must be true or false")
		return nil, false
	}
	res, err := a.cfg.Cache.Read(c.Request.Context(), cache.Request{
		Key: key, Strategy: name, Owner: a.owner(), NoSecondLook: !second,
	}, load)
	held(c, res.Spans)
	a.metrics.cache(name, res)
	if err != nil {
		a.metrics.request(name, a.fail(c, err))
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
func (a *API) audit(c *gin.Context) {
	ctx, sku := c.Request.Context(), c.Param("sku")
	found, err := a.cfg.Stock.Audit(ctx, sku)
	if err != nil {
		a.fail(c, err)
		return
	}
	reply := Audit{Audit: found, Instance: a.cfg.Instance}
	if reply.CacheLoads, err = a.cfg.Cache.Loads(ctx, itemKey(sku)); err == nil {
		reply.RedisCommands, err = a.cfg.Commands(ctx)
	}
	a.answer(c, reply, err)
}

// repair makes the stock agree with the orders.
func (a *API) repair(c *gin.Context) {
	done, err := a.cfg.Stock.Repair(c.Request.Context(), c.Param("sku"))
	if err == nil && done.Returned != 0 {
		a.cfg.Logger.Info("the stock was repaired", "sku", done.SKU, "returned", done.Returned)
	}
	a.answer(c, done, err)
}

// Audit is the reply to an audit.
type Audit struct {
	stock.Audit
	Instance      string           `json:"instance"`                 // the instance that answered
	CacheLoads    map[string]int64 `json:"cache_loads"`              // loads of the item's cached value, by instance
	RedisCommands *int64           `json:"redis_commands,omitempty"` // commands Redis has counted since it started; nil: it does not tell
}
