package web_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

// knock sends a request that may be nonsense. It returns an error if the reply is a 5xx, or an error
// reply that is not a problem document.
func knock(s *site, method, path, query, body, key string) error {
	req, err := http.NewRequest(method, "http://shop.test/", strings.NewReader(body))
	if err != nil {
		return nil // no client can send this request
	}
	req.URL = &url.URL{Scheme: "http", Host: "shop.test", Path: path, RawQuery: query}
	req.RequestURI = req.URL.RequestURI()
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	w := httptest.NewRecorder()
	s.ServeHTTP(w, req)
	switch {
	case w.Header().Get("X-Content-Type-Options") != "nosniff":
		return fmt.Errorf("%d without nosniff", w.Code)
	case method == http.MethodHead && w.Body.Len() > 0:
		return fmt.Errorf("%d with a body: %s", w.Code, w.Body)
	case method == http.MethodHead && w.Code < 500:
		return nil
	case w.Code >= 500:
		return fmt.Errorf("%d %s", w.Code, w.Body)
	case w.Code >= 400:
		return checkProblem(w)
	}
	return nil
}

// nonsense makes texts of random pieces that are hard to parse.
type nonsense struct{ *rand.Rand }

func (n nonsense) pick(pieces ...string) string { return pieces[n.IntN(len(pieces))] }

func (n nonsense) bytes(most int) string {
	b := make([]byte, n.IntN(most))
	for i := range b {
		b[i] = byte(n.Uint32())
	}
	return string(b)
}

func (n nonsense) path() string {
	sku := n.pick("hot", "nothing", "", ".", "..", "a b", "{a}", "%", "a/b", "é", n.bytes(80))
	switch n.IntN(8) {
	case 0, 1, 2:
		return "/api/items/" + sku + "/deduct"
	case 3:
		return "/api/items/" + sku
	case 4:
		return "/api/audit/" + sku
	case 5:
		return n.pick("/api/strategy", "/api/strategies", "/api/categories", "/healthz", "/metrics")
	case 6:
		return "/api/" + n.bytes(30)
	}
	return n.bytes(200)
}

func (n nonsense) body() string {
	value := n.pick("1", "0", "-1", "1e400", "1e3", "99999999999999999999", "null", "true", `"1"`, "[]", "{}",
		`"\ud800"`, `"`+n.bytes(20)+`"`)
	field := n.pick("quantity", "stock", "name", "category", "QUANTITY", "", n.bytes(10))
	switch n.IntN(5) {
	case 0:
		return n.bytes(300)
	case 1:
		return fmt.Sprintf(`{"%s":%s,"%s":%s}`, field, value, n.pick("name", "category", "quantity"), value)
	case 2:
		return fmt.Sprintf(`{"%s":%s}%s`, field, value, n.bytes(5))
	case 3:
		return strings.Repeat(n.pick("[", "{", " ", `{"a":`, "9"), n.IntN(6000))
	}
	return fmt.Sprintf(`{"%s":%s}`, field, value)
}

func TestRandomRequestsGiveNoServerError(t *testing.T) {
	s := embeddedSite(t, nil)
	r := nonsense{rand.New(rand.NewPCG(1, 2))}
	for range 10_000 {
		method := r.pick("GET", "POST", "PUT", "DELETE", "HEAD", "PATCH", "OPTIONS", "POST")
		path, body := r.path(), r.body()
		query := r.pick("", "strategy=none", "strategy="+r.bytes(9), "second_look=false", "%", ";", r.bytes(20))
		key := r.pick("", "", "k", r.bytes(200))
		if err := knock(s, method, path, query, body, key); err != nil {
			t.Errorf("%s %q ? %q with %q, key %q: %v", method, path, query, body, key, err)
		}
	}
}
