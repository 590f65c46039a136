package web_test

import (
	"net/url"
	"testing"

	"oversell/internal/stock"
)

func TestOrdersOfASaleAreListed(t *testing.T) {
	s := embeddedSite(t, nil)
	sku := s.put(t, 10)
	var first, second sold
	read(t, s.ask("POST", "/api/items/"+sku+"/deduct", `{"quantity":3}`, "Idempotency-Key", "my-secret"), &first)
	read(t, s.ask("POST", "/api/items/"+sku+"/deduct?strategy=lua_atomic", `{"quantity":1}`), &second)
	path := "/api/audit/" + sku + "/orders"
	var page stock.Orders
	read(t, s.admin("GET", path+"?limit=1", ""), &page)
	if len(page.Orders) != 1 || page.SKU != sku || page.SaleID == "" || page.Next != first.OrderID {
		t.Fatalf("the first page is %+v", page)
	}
	o := page.Orders[0]
	if o.ID != first.OrderID || o.Quantity != 3 || o.Strategy != "v6_watchdog" || o.CreatedAt.IsZero() ||
		o.KeyHash != stock.KeyHash("my-secret") {
		t.Errorf("the first order is %+v", o)
	}
	after := url.QueryEscape(page.Next)
	page = stock.Orders{}
	read(t, s.admin("GET", path+"?after="+after, ""), &page)
	if len(page.Orders) != 1 || page.Orders[0].ID != second.OrderID || page.Orders[0].KeyHash != "" ||
		page.Next != "" {
		t.Errorf("the second page is %+v", page)
	}
	wantProblem(t, s.admin("GET", path+"?limit=many", ""), 400, "invalid")
	wantProblem(t, s.admin("GET", path+"?limit=5001", ""), 400, "invalid")
	wantProblem(t, s.admin("GET", path+"?after=a%20b", ""), 400, "invalid")
}
