package bench_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"oversell/internal/bench"
	"oversell/internal/figures"
)

// lies runs a proxy in front of a shop. The proxy changes the reply to every third buyer, and lists
// the orders in pages of seven.
func lies(t *testing.T, tell func(w http.ResponseWriter, told, last map[string]any)) string {
	t.Helper()
	var mu sync.Mutex
	var sold int
	var last map[string]any
	return inFront(t, open(t, ""), func(w http.ResponseWriter, r *http.Request, shop http.Handler) {
		if strings.HasSuffix(r.URL.Path, "/orders") {
			query := r.URL.Query()
			query.Set("limit", "7")
			r.URL.RawQuery = query.Encode()
		}
		if r.Method != http.MethodPost {
			shop.ServeHTTP(w, r)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		reply := httptest.NewRecorder()
		shop.ServeHTTP(reply, r)
		var told map[string]any
		if err := json.Unmarshal(reply.Body.Bytes(), &told); err != nil {
			t.Error(err)
		}
		if reply.Code == http.StatusOK {
			if sold++; sold%3 == 0 {
				tell(w, told, last)
				return
			}
			last = told
		}
		w.WriteHeader(reply.Code)
		_, _ = w.Write(reply.Body.Bytes()) // the bench notices a failed write
	})
}

// The bench detects a shop that sends wrong replies to its buyers. The tests of package figures
// cover each kind of wrong reply.
func TestShopThatLies(t *testing.T) {
	say := func(w http.ResponseWriter, told map[string]any) { _ = json.NewEncoder(w).Encode(told) }
	for name, tt := range map[string]struct {
		tell                func(w http.ResponseWriter, told, last map[string]any)
		missing, unreported int64
	}{
		"an order that is not there": {func(w http.ResponseWriter, told, _ map[string]any) {
			told["order_id"] = uuid.NewString()
			say(w, told)
		}, 6, 6},
		"no order": {func(w http.ResponseWriter, told, _ map[string]any) {
			delete(told, "order_id")
			say(w, told)
		}, 6, 6},
		"an error": {func(w http.ResponseWriter, _, _ map[string]any) {
			w.WriteHeader(http.StatusServiceUnavailable)
			say(w, map[string]any{"code": "busy"})
		}, 0, 6},
		"the order of another buyer": {func(w http.ResponseWriter, _, last map[string]any) { say(w, last) }, 6, 6},
		"another quantity": {func(w http.ResponseWriter, told, _ map[string]any) {
			told["quantity"] = 2
			say(w, told)
		}, 6, 0},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := against(lies(t, tt.tell))
			cfg.Keys = bench.UniqueKeys
			rows, err := bench.Run(t.Context(), cfg, bench.Silent{})
			must(t, err)
			row := rows[0]
			if row.AcknowledgedMissing != tt.missing || row.Unreported != tt.unreported || row.Duplicates != 0 {
				t.Errorf("%d missing, %d unreported, %d duplicates; want %d and %d", row.AcknowledgedMissing,
					row.Unreported, row.Duplicates, tt.missing, tt.unreported)
			}
			if row.Verdict != figures.Drift || row.Expected || row.Differs == "" {
				t.Errorf("verdict %s, expected %v: %q", row.Verdict, row.Expected, row.Differs)
			}
		})
	}
}

// A library's lock is judged only on a real Redis: on an embedded one, it serves its waiters less
// well.
func TestThirdPartyLocksAreJudgedOnARealRedis(t *testing.T) {
	for kind, judged := range map[string]bool{"embedded": false, "local": true} {
		t.Run(kind, func(t *testing.T) {
			cfg := config(t, kind)
			cfg.Strategies, cfg.Requests, cfg.Stock = []string{"redislock", "v9_cohort"}, 40, 10
			rows := run(t, cfg)
			if got := rows["redislock/calm"].Verdict; (got != figures.NotComparable) != judged {
				t.Errorf("the verdict on redislock is %q", got)
			}
			if got := rows["v9_cohort/calm"].Verdict; got != figures.OK {
				t.Errorf("the verdict on v9_cohort is %q", got)
			}
		})
	}
}

// If the list of orders cannot be compared, the run returns an error.
func TestOrdersThatCannotBeCompared(t *testing.T) {
	for want, list := range map[string]string{
		"404":                                "",
		"another sale of the item has begun": `{"sale_id":"another","orders":[]}`,
		"an empty page":                      `{"sale_id":"SALE","orders":[],"next":"x"}`,
		"but there can be at most": `{"sale_id":"SALE","orders":[` +
			strings.Repeat(`{"order_id":"x"},`, 500) + `{}],"next":"x"}`,
	} {
		url := inFront(t, open(t, ""), func(w http.ResponseWriter, r *http.Request, shop http.Handler) {
			switch {
			case !strings.HasSuffix(r.URL.Path, "/orders"):
				shop.ServeHTTP(w, r)
			case list == "":
				http.NotFound(w, r)
			default:
				audit := httptest.NewRecorder()
				path := strings.TrimSuffix(r.URL.Path, "/orders")
				shop.ServeHTTP(audit, httptest.NewRequest(http.MethodGet, path, nil))
				_, sale, _ := strings.Cut(audit.Body.String(), `"sale_id":"`)
				sale, _, _ = strings.Cut(sale, `"`)
				_, _ = w.Write([]byte(strings.ReplaceAll(list, "SALE", sale))) // the bench notices a failed write
			}
		})
		rows, err := bench.Run(t.Context(), against(url), bench.Silent{})
		if err == nil || errors.Is(err, bench.ErrConfig) || !strings.Contains(err.Error(), want) || len(rows) > 0 {
			t.Errorf("%d rows, %v; want an error with %q", len(rows), err, want)
		}
	}
}
