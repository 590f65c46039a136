package report_test

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/jedib0t/go-pretty/v6/text"

	"oversell/internal/bench/report"
	"oversell/internal/catalog"
	"oversell/internal/figures"
	"oversell/internal/message"
	"oversell/internal/page/texts"
	"oversell/internal/present"
	"oversell/internal/stock"
)

var han = regexp.MustCompile(`\p{Han}`)

var drifts = catalog.Expectation{Verdicts: []figures.Verdict{figures.OK, figures.Drift}, MaxHolders: 1}

// everything returns reports with every sentence that a report can have.
func everything() map[string]report.Report {
	full := func(r report.Report) report.Report {
		r.Manifest.Servers = []string{"etcd: local", "redlock: 5 nodes (embedded)", "zookeeper: local"}
		r.Manifest.Keeper, r.Manifest.Seed, r.Manifest.Unfenced, r.Manifest.Replicas,
			r.Manifest.Planned = stock.InDatabase, 7, true, 2, 999
		verdicts := []figures.Verdict{figures.OK, figures.Oversold, figures.Drift, figures.Undersold, figures.Stuck,
			figures.Unknown, figures.Reloaded, figures.NotComparable}
		like := r.Rows[0]
		for i, c := range append(catalog.Conditions(), catalog.Partition, catalog.Failover, catalog.Chaos) {
			row := like
			row.Strategy, row.Condition, row.Verdict = "sql_units", c, verdicts[i%len(verdicts)]
			row.AcknowledgedMissing, row.Unreported, row.Duplicates, row.AcceptedLost, row.DurableP99, row.Drain = 1, 2,
				3, 4, 5, 6
			row.Stranded, row.Undersold, row.Failed, row.Unknown, row.ConnectionTime = 7, 8, 9, 10, new(1.5)
			row.Kills = &report.Kills{AgreesAfterKill: new(1.5)}
			row.Expected = false
			row.Differ(message.Join("%v; %v", drifts.Check(catalog.Outcome{Verdict: figures.Unknown, MaxHolders: 2}),
				row.Untrue()))
			r.Rows = append(r.Rows, row)
		}
		for i := range r.Rows {
			if r.Rows[i].Condition == catalog.Failover {
				r.Rows[i].Rate, r.Rows[i].Duration, r.Rows[i].TTL, r.Rows[i].Keeper = 500, "10s", "10s",
					stock.InDatabase
				r.Rows[i].Open = &report.Open{}
			}
		}
		undecided, incomparable := like, like
		undecided.Strategy, undecided.Undecided = "redsync", true
		incomparable.Strategy, incomparable.Verdict, incomparable.TTL = "etcd", figures.NotComparable, "2s"
		r.Rows = append(r.Rows, undecided, incomparable)
		return r
	}
	many := full(sale())
	many.Manifest.Items, many.Manifest.Skew, many.Manifest.InFlight = 3, "zipf:1.1", 2000
	for i := range many.Rows {
		many.Rows[i].Items = report.NewItems([]report.Item{{Number: 1, Verdict: figures.Oversold, Oversold: 3, Stock: 2,
			Buyers: 5, Stranded: 1, Throughput: 2}})
	}
	all := map[string]report.Report{"sale": full(sale()), "cache": full(reading()), "open": full(opened()),
		"repeated": full(repeated()), "holds": full(both()), "many": many, "chaos": chaotic()}
	all["locks"] = locks()
	twice := locks()
	twice.Manifest.Repeat = 2
	twice.Rows = append(twice.Rows, twice.Rows...)
	twice.Rows[1].Verdict = figures.NotComparable
	all["locks, repeated"] = twice
	one := sale()
	one.Rows = one.Rows[:1]
	all["one row"] = one
	one.Rows = []report.Row{one.Rows[0]}
	one.Rows[0].Expected = false
	one.Rows[0].Differ(message.Text("the catalog has no expectation for this case"))
	all["one wrong row"] = one
	right := sale()
	right.Rows = append(right.Rows[:3:3], right.Rows[1])
	all["right rows"] = right
	right.Rows = append(right.Rows[:1:1], right.Rows[3])
	right.Rows[1].Undecided = true
	all["one decided row"] = right
	return all
}

// chaotic returns a report with a row under chaos.
func chaotic() report.Report {
	r := sale()
	r.Rows = r.Rows[:1]
	r.Rows[0].Condition = catalog.Chaos
	r.Rows[0].Chaos = &report.Chaos{Seed: 77, Acknowledged: 123, Missing: 4, Faults: []report.Fault{
		{Kind: "redis-oom", Victim: "redis", At: 1.5, For: 0.4, Lasted: 0.41, Again: new(0.25), Limit: 2, From: "end",
			Amount: 30, Stalled: 0.2},
		{Kind: "shop-kill", Victim: "shop 2", Message: message.Newf("shop %d", 2), Planned: 9, Skipped: true},
		{Kind: "db-kill", Victim: "database", At: 5, Limit: 2, From: "fault"},
		{Kind: "redis-black-hole", Victim: "all shops", At: 5, Limit: 2, From: "end"},
	}}
	return r
}

// names matches the English words that a Chinese report may contain: names of strategies,
// conditions, faults, servers and flags.
var names = regexp.MustCompile(`^(none|local|watch|v\d_\w+|sql_units|h\d_\w+|redsync|rueidislock|redlock|` +
	`ttl|Jain|E\d|etcd|zookeeper|calm|slow|late|crash|pause|partition|failover|chaos|` +
	`redis|Redis|MariaDB|SQLite|go1|linux|amd64|http|line|2ms|p\d+|zipf|in|flight|` +
	`json|html|JSON|CLIENT|TRACKING|oom|shop|kill|db|black|hole|embedded|nodes)$`)

// seen removes from a page what a reader does not see, except the labels of elements.
func seen(page string) string {
	page = regexp.MustCompile(`(?s)<(script|style).*?</(script|style)>|<meta[^>]*>|<code>.*?</code>`).
		ReplaceAllString(page, " ")
	page = regexp.MustCompile(`aria-label="([^"]*)"`).ReplaceAllString(page, ">$1<")
	return regexp.MustCompile(`<[^>]*>`).ReplaceAllString(page, " ")
}

// All text of a table and of a page is Chinese, except names.
func TestReportsInChinese(t *testing.T) {
	text.EnableColors()
	word := regexp.MustCompile(`\b[A-Za-z]\w+`)
	onPage := regexp.MustCompile(`^(oversell|Go|JavaScript|deduct|hold|cache|lock)$`)
	for name, r := range everything() {
		r.Manifest.ID, r.Manifest.Flags = "0a1b2c3d", []string{"-redis=embedded"}
		l := texts.Listen(texts.OfBench)
		style := present.Style{Language: l}
		var table, page strings.Builder
		isServer := func(said string) bool { return said == r.Manifest.Redis || said == r.Manifest.DB }
		must(t, r.WriteTable(&table, style))
		for _, said := range l.Untold {
			if !isServer(said) {
				t.Errorf("%s: not translated in the table: %s", name, said)
			}
		}
		l.Untold = nil
		must(t, r.WriteHTML(&page, style))
		for _, row := range r.Rows {
			if line := row.Line(style); !han.MatchString(line) {
				t.Errorf("%s: not translated: %s", name, line)
			}
			if row.Items != nil {
				for _, c := range row.Items.Table(present.Style{}).Columns {
					l.Say(c.Name)
				}
			}
		}
		for _, said := range l.Untold {
			if !isServer(said) && !names.MatchString(said) && !onPage.MatchString(said) {
				t.Errorf("%s: not translated: %s", name, said)
			}
		}
		for _, w := range word.FindAllString(table.String(), -1) {
			if !names.MatchString(w) {
				t.Errorf("%s: %q is left in\n%s", name, w, table.String())
			}
		}
		for _, w := range word.FindAllString(seen(page.String()), -1) {
			if !names.MatchString(w) && !onPage.MatchString(w) {
				t.Errorf("%s: %q is left on the page", name, w)
			}
		}
		if !strings.Contains(page.String(), `<html lang="zh-CN">`) ||
			!strings.Contains(page.String(), `"Latency":"延迟"`) {
			t.Errorf("%s: the page does not say that it is in Chinese, or its scripts are not", name)
		}
		if !strings.Contains(page.String(), `"verdict":"`+string(r.Rows[0].Verdict)+`"`) {
			t.Errorf("%s: the figures are not as in JSON", name)
		}
	}
}

// Every difference from the catalog's expectation is translated into Chinese.
func TestDifferencesAreToldInChinese(t *testing.T) {
	l := texts.Listen(texts.OfBench)
	missed := errors.New("no call reached the seam")
	e := drifts
	e.MinLoads = 1
	wrong := report.Audit{AcknowledgedMissing: 1, Unreported: 2, Duplicates: 3}
	for _, differs := range []message.Message{
		e.Check(catalog.Outcome{Verdict: figures.Stuck, MaxHolders: 3}),
		catalog.Expectation{MaxLoads: 1,
			Verdicts: []figures.Verdict{figures.OK}}.Check(catalog.Outcome{Verdict: figures.Reloaded, MaxHolders: 2,
			Loads: 9}),
		wrong.Untrue(),
		message.Join("%v; %v", e.Check(catalog.Outcome{Verdict: figures.Unknown, Loads: 1}), wrong.Untrue()),
		message.Newf("the fault was not injected: %v", missed),
		message.Newf("not every fault was injected: %v", missed),
		message.Newf("the sale has %d units; %d were put on sale and added", 3, 4),
		message.Newf("item %d has %d lost updates, and killed buyers explain %d to 0", 3, -5, -4),
	} {
		if told := differs.Translate(l.Say); !han.MatchString(told) {
			t.Errorf("%q is told as %q", differs.String(), told)
		}
	}
	if len(l.Untold) != 2 || l.Untold[0] != missed.Error() || l.Untold[1] != missed.Error() {
		t.Errorf("not translated: %q", l.Untold)
	}
}

// TestScriptsSayWhatIsTranslated finds string literals in the scripts that are not passed to say.
func TestScriptsSayWhatIsTranslated(t *testing.T) {
	for _, file := range []string{"page.js", "charts.js"} {
		script, err := os.ReadFile(filepath.Join("assets", file))
		must(t, err)
		text := regexp.MustCompile(`\bsay\("[^"]+"`).ReplaceAllString(string(script), "")
		for _, m := range regexp.MustCompile(`"([A-Za-z]+ [A-Za-z][^"]*)"`).FindAllStringSubmatch(text, -1) {
			if m[1] != "small readout" {
				t.Errorf("%s: %q is not said in the language of the page", file, m[1])
			}
		}
	}
}
