package web_test

import (
	"fmt"
	"strings"
	"testing"
)

// An item with a limit per buyer is sold only to named buyers, and only by a strategy that checks the
// limit.
func TestALimitPerBuyer(t *testing.T) {
	s := embeddedSite(t, nil)
	sku := s.put(t, 1)
	item := "/api/items/" + sku
	for _, try := range []struct {
		method, path, body string
		status             int
		contains           string
	}{
		{"PUT", item, `{"stock":5,"limit":2,"keeper":"database"}`, 400, "is for an item with the keeper redis"},
		{"PUT", item, `{"stock":5,"limit":2}`, 200, `"limit":2`},
		{"GET", item, "", 200, `"limit":2`},
		{"POST", item + acceptPath, `{"quantity":1}`, 400, "buyer is missing"},
		{"POST", item + acceptPath, `{"quantity":1,"buyer":""}`, 400, "buyer is empty"},
		{"POST", item + acceptPath, `{"quantity":1,"buyer":7}`, 400, `"code":"invalid"`},
		{"POST", item + "/deduct?strategy=v4_lua", `{"quantity":1,"buyer":"ann"}`, 400, `"code":"limit_unchecked"`},
		{"POST", item + "/deduct?strategy=lua_batch", `{"quantity":1,"buyer":"ann"}`, 400, "with lua_stream"},
		{"POST", item + acceptPath, `{"quantity":2,"buyer":"ann"}`, 202, `"state":"accepted"`},
		{"POST", item + acceptPath, `{"quantity":1,"buyer":"ann"}`, 409, `"code":"limit_reached"`},
		{"POST", item + acceptPath, `{"quantity":3,"buyer":"bob"}`, 409, `"code":"limit_reached"`},
		{"POST", item + acceptPath, `{"quantity":1,"buyer":"bob"}`, 202, `"remaining":2`},
		{"PUT", item, `{"stock":5}`, 200, `"keeper":"redis"}`},
		{"POST", item + acceptPath, `{"quantity":5,"buyer":"ann"}`, 202, `"remaining":0`},
	} {
		res := s.admin(try.method, try.path, try.body)
		if res.Code != try.status || !strings.Contains(res.Body.String(), try.contains) {
			t.Errorf("%+v: got %d, %s", try, res.Code, res.Body)
		}
	}
	metrics := s.ask("GET", "/metrics", "").Body.String()
	for outcome, n := range map[string]int{"limit_reached": 2, "accepted": 3} {
		want := fmt.Sprintf(`oversell_requests_total{outcome=%q,strategy="lua_stream"} %d`, outcome, n)
		if !strings.Contains(metrics, want) {
			t.Errorf("the metrics lack %s", want)
		}
	}
}
