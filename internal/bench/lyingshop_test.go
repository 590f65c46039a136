package bench_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"oversell/internal/catalog"
	"oversell/internal/stock"
	"oversell/internal/web"
)

// lyingShop is a fake shop without backends, for tests of how the bench compares replies with
// orders. It sells its stock and tells the truth, unless tell returns a lie.
type lyingShop struct {
	// tell is called for each order before it is written, numbered from 1; nil: the shop
	// never lies.
	tell func(n int) lie

	mu     sync.Mutex
	item   stock.Item
	left   int64
	orders []stock.ListedOrder
	last   stock.ListedOrder
	sold   int
}

// lie is what a lyingShop does with an order.
type lie int

// The lies.
const (
	noLie         lie = iota
	noOrder           // replies with an order that it does not write
	noID              // writes an order and replies without its id
	noReply           // writes an order and replies "busy"
	orderOfOther      // replies with the last buyer's order and writes none
	otherQuantity     // writes an order of two units and says one
	moreThanAsked     // writes an order of two units and says so
	otherKey          // writes the order with another idempotency key
	keyTwice          // writes a second order with the key and replies with the first
)

// start runs the shop until the end of the test, and returns its address.
func (s *lyingShop) start(t *testing.T) string {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/strategies", s.strategies)
	mux.HandleFunc("PUT /api/items/{sku}", s.put)
	mux.HandleFunc("DELETE /api/items/{sku}", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("POST /api/items/{sku}/deduct", s.deduct)
	mux.HandleFunc("GET /api/audit/{sku}", s.audit)
	mux.HandleFunc("GET /api/audit/{sku}/orders", s.list)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL
}

func (s *lyingShop) strategies(w http.ResponseWriter, _ *http.Request) {
	type named struct {
		Name string `json:"name"`
	}
	var all []named
	for _, strategy := range catalog.Strategies() {
		all = append(all, named{strategy.Name})
	}
	reply(w, http.StatusOK, map[string]any{"strategies": all})
}

func (s *lyingShop) put(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Stock int64 `json:"stock"`
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.item = stock.Item{SKU: r.PathValue("sku"), Initial: body.Stock, SaleID: uuid.NewString()}
	s.left, s.orders, s.last, s.sold = body.Stock, nil, stock.ListedOrder{}, 0
	reply(w, http.StatusOK, s.item)
}

func (s *lyingShop) deduct(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := stock.KeyHash(r.Header.Get("Idempotency-Key"))
	if i := slices.IndexFunc(s.orders, func(o stock.ListedOrder) bool {
		return key != "" &&
			o.KeyHash == key
	}); i >= 0 {
		reply(w, http.StatusOK, s.orders[i])
		return
	}
	if s.left == 0 {
		s.refuse(w, http.StatusConflict, "sold_out")
		return
	}
	s.sold++
	how := noLie
	if s.tell != nil {
		how = s.tell(s.sold)
	}
	order := stock.ListedOrder{ID: uuid.NewString(), Quantity: 1, Strategy: r.URL.Query().Get("strategy"), KeyHash: key}
	told := order
	switch how {
	case noOrder:
		reply(w, http.StatusOK, told)
		return
	case orderOfOther:
		reply(w, http.StatusOK, s.last)
		return
	case otherQuantity:
		order.Quantity = 2
	case moreThanAsked:
		order.Quantity, told.Quantity = 2, 2
	case otherKey:
		order.KeyHash = stock.KeyHash("somebody else's")
	case keyTwice:
		again := order
		again.ID = uuid.NewString()
		s.write(again)
	}
	s.write(order)
	s.last = order
	switch how {
	case noReply:
		s.refuse(w, http.StatusServiceUnavailable, "busy")
	case noID:
		reply(w, http.StatusOK, map[string]any{"quantity": 1})
	default:
		reply(w, http.StatusOK, told)
	}
}

// write writes an order and takes its units. The caller has locked mu.
func (s *lyingShop) write(order stock.ListedOrder) {
	s.orders = append(s.orders, order)
	s.left -= order.Quantity
}

func (s *lyingShop) audit(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := web.Audit{Audit: stock.Audit{SKU: s.item.SKU, SaleID: s.item.SaleID}}
	found.Initial, found.Remaining, found.Orders = s.item.Initial, s.left, int64(len(s.orders))
	for _, o := range s.orders {
		found.Sold += o.Quantity
	}
	reply(w, http.StatusOK, found)
}

// list returns at most seven orders per page, so that there are several pages.
func (s *lyingShop) list(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	from := 0
	if after := r.URL.Query().Get("after"); after != "" {
		from = 1 + slices.IndexFunc(s.orders, func(o stock.ListedOrder) bool { return o.ID == after })
	}
	limit, err := strconv.Atoi(r.URL.Query().Get("limit"))
	if err != nil || limit < 1 {
		http.Error(w, fmt.Sprintf("limit: %v", err), http.StatusBadRequest)
		return
	}
	page := stock.Orders{SKU: s.item.SKU, SaleID: s.item.SaleID, Orders: s.orders[from:]}
	if limit = min(limit, 7); len(page.Orders) > limit {
		page.Orders = page.Orders[:limit]
		page.Next = page.Orders[limit-1].ID
	}
	reply(w, http.StatusOK, page)
}

func (s *lyingShop) refuse(w http.ResponseWriter, status int, code string) {
	reply(w, status, map[string]any{"code": code, "detail": strings.ReplaceAll(code, "_", " ")})
}

func reply(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the test sees what is missing
}
