//go:build system

// Package deploy tests the alerts and the dashboard against the metrics of a real shop.
package deploy_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"gopkg.in/yaml.v3"

	"oversell/internal/backend/backendtest"
	"oversell/internal/backend/local"
)

// rules contains the alerts and the recorded series.
type rules struct {
	Groups []struct {
		Rules []struct{ Alert, Record, Expr string }
	}
}

func readRules(t *testing.T) rules {
	t.Helper()
	var r rules
	if err := yaml.Unmarshal([]byte(read(t, "prometheus/rules.yml")), &r); err != nil {
		t.Fatal(err)
	}
	return r
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// panels returns the queries of the dashboard, by panel title.
func panels(t *testing.T) map[string][]string {
	t.Helper()
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal([]byte(read(t, "grafana/dashboards/oversell.json")), &dashboard); err != nil {
		t.Fatal(err)
	}
	found := make(map[string][]string)
	for _, p := range dashboard.Panels {
		for _, target := range p.Targets {
			found[p.Title] = append(found[p.Title], strings.ReplaceAll(target.Expr, "$sku", ".*"))
		}
	}
	if len(found) == 0 {
		t.Fatal("the dashboard has no panels")
	}
	return found
}

// Each alert fires for the series that it is meant for, and no alert fires for a correct sale.
func TestAlertsFireWhenTheyShould(t *testing.T) {
	backendtest.Need(t, "promtool")
	for _, args := range [][]string{
		{"check", "config", "prometheus/prometheus.yml"}, {"test", "rules", "prometheus/rules_test.yml"},
	} {
		if out, err := exec.CommandContext(t.Context(), "promtool", args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %v: %v\n%s", args, err, out)
		}
	}
	tested := read(t, "prometheus/rules_test.yml")
	for _, alert := range alerts(readRules(t)) {
		if !regexp.MustCompile(`alertname: ` + alert + `\n\s+exp_alerts:`).MatchString(tested) {
			t.Errorf("no test has %s fire", alert)
		}
		if !strings.Contains(tested, "alertname: "+alert+"}") {
			t.Errorf("no test has %s not fire", alert)
		}
	}
}

func alerts(r rules) (names []string) {
	for _, g := range r.Groups {
		for _, rule := range g.Rules {
			if rule.Alert != "" {
				names = append(names, rule.Alert)
			}
		}
	}
	return names
}

// The runbook explains every alert, in the order of the rules.
func TestRunbookHasEveryAlert(t *testing.T) {
	var headings []string
	for _, h := range regexp.MustCompile(`(?m)^### (\w+)$`).FindAllStringSubmatch(read(t, "../docs/watch.md"), -1) {
		headings = append(headings, h[1])
	}
	if want := alerts(readRules(t)); !slices.Equal(headings, want) {
		t.Errorf("docs/watch.md has %v, and the rules have %v", headings, want)
	}
}

// In the metrics of a shop that has sold units, every query of the dashboard finds a series, and
// every metric of an alert exists.
func TestQueriesFindTheMetricsOfAShop(t *testing.T) {
	backendtest.Need(t, "prometheus")
	dir := t.TempDir()
	shop := backendtest.OpenShop(t, backendtest.Build(t, dir, "../cmd/shop"))
	for _, strategy := range []string{"v6_watchdog", "lua_stream", "lua_stream"} {
		buy(t, shop, strategy)
	}
	base := openPrometheus(t, dir, shop)
	wantSeries(t, base, "up") // Prometheus is ready
	for _, r := range readRules(t).Groups[0].Rules {
		if _, err := query(t.Context(), base, r.Expr); err != nil {
			t.Errorf("%s%s: %v", r.Alert, r.Record, err)
		}
		for _, name := range regexp.MustCompile(`[^:\w](oversell_\w+)`).FindAllStringSubmatch(" "+r.Expr, -1) {
			wantSeries(t, base, name[1])
		}
		for _, outcome := range regexp.MustCompile(`outcome="\w+"`).FindAllString(r.Expr, -1) {
			wantSeries(t, base, "oversell_requests_total{"+outcome+"}")
		}
		for _, state := range regexp.MustCompile(`state="\w+"`).FindAllString(r.Expr, -1) {
			wantSeries(t, base, "oversell_sale_units{"+state+"}")
		}
		wantOutcomes(t, r.Expr)
	}
	for title, queries := range panels(t) {
		t.Run(title, func(t *testing.T) {
			for _, q := range queries {
				wantSeries(t, base, q)
			}
		})
	}
}

// wantOutcomes fails the test for outcomes in the rule that docs/http.md does not list.
func wantOutcomes(t *testing.T, expr string) {
	t.Helper()
	documented := read(t, "../docs/http.md")
	for _, list := range regexp.MustCompile(`outcome=~"([\w|]+)"`).FindAllStringSubmatch(expr, -1) {
		for outcome := range strings.SplitSeq(list[1], "|") {
			if !strings.Contains(documented, "`"+outcome+"`") {
				t.Errorf("%s: docs/http.md has no outcome %s", expr, outcome)
			}
		}
	}
}

// wantSeries waits until a query finds a series: a rate needs two scrapes.
func wantSeries(t *testing.T, base, q string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second+backendtest.Slack)
	defer cancel()
	for {
		n, err := query(ctx, base, q)
		if n > 0 {
			return
		}
		select {
		case <-ctx.Done():
			t.Errorf("%s finds nothing (%v)", q, err)
			return
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// query returns the number of series that Prometheus finds.
func query(ctx context.Context, base, q string) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/api/v1/query?query="+url.QueryEscape(q), nil)
	if err != nil {
		return 0, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	var reply struct {
		Error string
		Data  struct{ Result []any }
	}
	if err := json.NewDecoder(res.Body).Decode(&reply); err != nil {
		return 0, fmt.Errorf("%s: %w", res.Status, err)
	}
	if res.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("%s: %s", res.Status, reply.Error)
	}
	return len(reply.Data.Result), nil
}

func buy(t *testing.T, shop, strategy string) {
	t.Helper()
	res, err := http.Post(shop+"/api/items/hot/deduct?strategy="+strategy, "application/json",
		strings.NewReader(`{"quantity":1}`))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode/100 != 2 {
		t.Fatalf("buying with %s: %s", strategy, res.Status)
	}
}

// openPrometheus starts a private Prometheus with the rules, which scrapes the shop.
func openPrometheus(t *testing.T, dir, shop string) (base string) {
	t.Helper()
	port, err := local.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	listen := fmt.Sprintf("127.0.0.1:%d", port)
	replacer := strings.NewReplacer("shop:8080", strings.TrimPrefix(shop, "http://"), "5s", "250ms")
	config := replacer.Replace(read(t, "prometheus/prometheus.yml"))
	for name, text := range map[string]string{"prometheus.yml": config, "rules.yml": read(t, "prometheus/rules.yml")} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	prometheus := exec.Command("prometheus", "--config.file="+filepath.Join(dir, "prometheus.yml"),
		"--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+listen, "--log.level=error")
	if err := prometheus.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := prometheus.Process.Signal(os.Interrupt); err != nil {
			t.Error(err)
		}
		_ = prometheus.Wait() // the exit code after an interrupt does not matter
	})
	return "http://" + listen
}
