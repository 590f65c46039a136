package web_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"oversell/internal/web"
)

// changes is the number of requests that the test interrupts.
const changes = 400

// A PUT or DELETE that is cut off at any byte, or whose client disconnects at any time before the
// reply, is applied completely or not at all. The next buyer buys in the database's current sale, and
// no order belongs to an unknown sale.
func TestChangeThatIsCutOffHappensOrDoesNot(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		sku := s.put(t, changes)
		server := httptest.NewServer(s)
		defer server.Close()
		sold := make(map[string]int64) // units by sale
		for i := range changes {
			method, body := http.MethodPut, fmt.Sprintf(`{"stock":%d}`, changes)
			if i%4 == 3 {
				method, body = http.MethodDelete, ""
			}
			cutOff(t, server.Listener.Addr().String(), method, sku, body, i)
			if s.ask(http.MethodPost, "/api/items/"+sku+"/deduct", `{"quantity":1}`).Code == http.StatusOK {
				sold[s.saleOf(t, sku)]++
			}
		}
		found, ok := s.auditOf(t, sku)
		if !ok {
			return // the last change deleted the item
		}
		// A change may be applied between an order and the audit from which saleOf gets the order's sale. One
		// unit may therefore be counted for the wrong sale.
		diff := found.Sold - sold[found.SaleID]
		if found.Foreign != 0 || found.LostUpdates != 0 || found.Oversold != 0 || diff < -1 || diff > 1 {
			t.Errorf("the audit has %+v, and buyers %d units", found, sold[found.SaleID])
		}
		if len(sold) < 10 {
			t.Errorf("buyers were in %d sales; nearly nothing was changed", len(sold))
		}
	})
}

// cutOff sends a request and closes the connection without reading the reply. Every other request is
// sent only up to a byte that depends on i. The time until the connection is closed depends on i, too.
func cutOff(t *testing.T, addr, method, sku, body string, i int) {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	must(t, err)
	defer conn.Close()
	const head = "%s /api/items/%s HTTP/1.1\r\nHost: example.com\r\nAuthorization: Bearer %s\r\n" +
		"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n"
	request := fmt.Sprintf(head, method, sku, token, len(body)) + body
	if i%2 == 0 {
		request = request[:i%len(request)]
	}
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Duration(i%20) * 200 * time.Microsecond)
}

// auditOf returns the audit of an item, or false if there is no such item. It repeats the request until
// it gets one of these replies.
func (s *site) auditOf(t *testing.T, sku string) (found web.Audit, ok bool) {
	t.Helper()
	var reply *httptest.ResponseRecorder
	for ; ; time.Sleep(10 * time.Millisecond) {
		reply = s.ask(http.MethodGet, "/api/audit/"+sku, "")
		if reply.Code == http.StatusNotFound {
			return found, false
		}
		if reply.Code == http.StatusOK {
			break
		}
	}
	read(t, reply, &found)
	return found, true
}

// saleOf returns the current sale according to the audit.
func (s *site) saleOf(t *testing.T, sku string) string {
	t.Helper()
	found, _ := s.auditOf(t, sku)
	return found.SaleID
}
