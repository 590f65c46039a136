package bench_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"oversell/internal/bench"
	"oversell/internal/figures"
)

// every returns a lie about every third order.
func every(what lie) func(n int) lie {
	return func(n int) lie {
		if n%3 == 0 {
			return what
		}
		return noLie
	}
}

// The bench finds a shop that lies to its buyers, with every strategy.
func TestShopThatLies(t *testing.T) {
	for _, tt := range []struct {
		name                            string
		lie                             lie
		keys                            bench.Keys
		missing, unreported, duplicates int64
	}{
		{"a reply and no order", noOrder, bench.NoKeys, 9, 0, 0},
		{"a reply without the order's id", noID, bench.NoKeys, 6, 6, 0},
		{"an order and an error", noReply, bench.NoKeys, 0, 6, 0},
		{"an order of two buyers", orderOfOther, bench.NoKeys, 9, 0, 0},
		{"an order of two keys", orderOfOther, bench.UniqueKeys, 9, 0, 0},
		{"another quantity than is told", otherQuantity, bench.NoKeys, 5, 0, 0},
		{"another quantity than was asked for", moreThanAsked, bench.NoKeys, 5, 0, 0},
		{"another key than the buyer's", otherKey, bench.UniqueKeys, 6, 0, 5},
		{"two orders with one key", keyTwice, bench.UniqueKeys, 0, 5, 5},
	} {
		for _, strategy := range []string{"v6_watchdog", "none", "redsync"} {
			t.Run(tt.name+"/"+strategy, func(t *testing.T) {
				cfg := against((&lyingShop{tell: every(tt.lie)}).start(t))
				cfg.Keys, cfg.Strategies = tt.keys, []string{strategy}
				rows, err := bench.Run(t.Context(), cfg, bench.Silent{})
				must(t, err)
				row := rows[0]
				if row.AcknowledgedMissing != tt.missing || row.Unreported != tt.unreported ||
					row.Duplicates != tt.duplicates {
					t.Errorf("%d missing, %d unreported, %d duplicates; want %d, %d, %d",
						row.AcknowledgedMissing, row.Unreported, row.Duplicates, tt.missing, tt.unreported,
						tt.duplicates)
				}
				if row.Verdict != figures.Drift || row.Expected || row.Undecided || row.Differs == "" {
					t.Errorf("verdict %s, expected %v, undecided %v: %q", row.Verdict, row.Expected, row.Undecided,
						row.Differs)
				}
			})
		}
	}
}

// A library's lock is judged only on a real Redis: on an embedded one its waiters are served worse.
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

// Unreported orders may belong to buyers who were cut off.
func TestOrdersOfThoseWhoWereCutOff(t *testing.T) {
	for _, keys := range []bench.Keys{bench.NoKeys, bench.UniqueKeys, bench.PairedKeys} {
		cfg := against(unreliable(t, open(t, ""), 7))
		cfg.Keys = keys
		row := run(t, cfg)["v6_watchdog/calm"]
		if row.Unknown != 7 || row.Verdict != figures.Unknown ||
			row.AcknowledgedMissing+row.Unreported+row.Duplicates != 0 {
			t.Errorf("keys %s: %+v", keys, row)
		}
	}
}

// A list of orders that cannot be compared is an error.
func TestOrdersThatCannotBeCompared(t *testing.T) {
	for want, list := range map[string]string{
		"404":                                "",
		"another sale of the item has begun": `{"sale_id":"another","orders":[]}`,
		"an empty page":                      `{"sale_id":"SALE","orders":[],"next":"x"}`,
		"and there can be at most": `{"sale_id":"SALE","orders":[` +
			strings.Repeat(`{"order_id":"x"},`, 500) + `{}],"next":"x"}`,
	} {
		to, err := url.Parse((&lyingShop{}).start(t))
		must(t, err)
		pass := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) },
			Transport: &http.Transport{}}
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case !strings.HasSuffix(r.URL.Path, "/orders"):
				pass.ServeHTTP(w, r)
			case list == "":
				http.NotFound(w, r)
			default:
				audit := httptest.NewRecorder()
				pass.ServeHTTP(audit, httptest.NewRequest(http.MethodGet, strings.TrimSuffix(r.URL.Path, "/orders"),
					nil))
				_, sale, _ := strings.Cut(audit.Body.String(), `"sale_id":"`)
				sale, _, _ = strings.Cut(sale, `"`)
				_, _ = w.Write([]byte(strings.ReplaceAll(list, "SALE", sale))) // the bench notices failures
			}
		}))
		rows, err := bench.Run(t.Context(), against(s.URL), bench.Silent{})
		if err == nil || errors.Is(err, bench.ErrConfig) || !strings.Contains(err.Error(), want) || len(rows) > 0 {
			t.Errorf("%d rows, %v; want an error with %q", len(rows), err, want)
		}
		s.Close()
		pass.Transport.(*http.Transport).CloseIdleConnections()
	}
}
