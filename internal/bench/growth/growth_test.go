package growth_test

import (
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"oversell/internal/bench/growth"
	"oversell/internal/bench/report"
	"oversell/internal/catalog"
)

// sale is a report of a row in which everybody bought.
func sale(instances, items int, strategy string, commands, rate float64) report.Report {
	return report.Report{
		Manifest: report.Manifest{Instances: instances, Items: items, Requests: 100},
		Rows: []report.Row{{
			Strategy: strategy, Condition: catalog.Calm, Workload: catalog.Deduct, Requests: 100, Sold: 100,
			RedisCommands: &commands, Throughput: rate,
		}},
	}
}

func TestEachDoublingIsTheSlopeOfTheLogarithms(t *testing.T) {
	for _, tt := range []struct {
		shops, costs []float64
		want         string
	}{
		{[]float64{1, 2, 4, 8}, []float64{3, 6, 12, 24}, "×2.00"},
		{[]float64{1, 2, 4, 8}, []float64{5, 5, 5, 5}, "×1.00"},
		{[]float64{1, 4}, []float64{8, 2}, "×0.50"},
		{[]float64{1}, []float64{8}, "·"},
		{[]float64{1, 2}, []float64{0, 2}, "·"},
	} {
		if got := growth.Doubling(tt.shops, tt.costs); got != tt.want {
			t.Errorf("%v shops at %v: %s, want %s", tt.shops, tt.costs, got, tt.want)
		}
	}
}

func TestTablesHaveEverySize(t *testing.T) {
	var out strings.Builder
	err := growth.Write(&out, []report.Report{
		sale(2, 0, "lua_batch", 0.5, 900), sale(1, 0, "lua_batch", 0.25, 1000), sale(1, 10, "lua_batch", 0.75, 500),
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| Redis commands a sale | items | 1 shop | 2 shops | each doubling |",
		"| `lua_batch` | 1 | 0.250 | 0.500 | ×2.00 |",
		"| `lua_batch` | 10 | 0.750 | | · |",
		"| sales a second | items | 1 shop | 2 shops | each doubling |",
		"| `lua_batch` | 1 | 1000 | 900 | ×0.90 |",
	} {
		if !strings.Contains(out.String(), want+"\n") {
			t.Errorf("no line %q in\n%s", want, out.String())
		}
	}
}

// A request that did not buy costs something too, and would count as a sale.
func TestReportsThatCannotBeComparedAreRefused(t *testing.T) {
	few := sale(1, 0, "lua_batch", 1, 1)
	few.Rows[0].Sold = 99
	for name, reports := range map[string][]report.Report{
		"none": nil, "not all bought": {few},
		"the same size twice": {sale(1, 0, "lua_batch", 1, 1), sale(1, 1, "lua_batch", 1, 1)},
	} {
		if err := growth.Write(new(strings.Builder), reports); !errors.Is(err, growth.ErrReports) {
			t.Errorf("%s: %v, want %v", name, err, growth.ErrReports)
		}
	}
}

// Reports of two machines, versions or settings are not of one sale that grew. Private servers have
// other ports at each run.
func TestReportsDifferInTheirSizesAlone(t *testing.T) {
	with := func(instances int, change func(m *report.Manifest)) report.Report {
		r := sale(instances, 0, "lua_batch", 1, 1)
		r.Manifest.Redis, r.Manifest.DB = "redis 7.0.15 at 127.0.0.1:4001", "MariaDB 10.11.19 at 127.0.0.1:4002"
		r.Manifest.Go, r.Manifest.CPUs = "go1.26.0", 2
		change(&r.Manifest)
		return r
	}
	first := with(1, func(*report.Manifest) {})
	for differs, change := range map[string]func(m *report.Manifest){
		"": func(m *report.Manifest) {
			m.Redis, m.DB = "redis 7.0.15 at 127.0.0.1:5001", "MariaDB 10.11.19 at 127.0.0.1:5002"
		},
		"redis": func(m *report.Manifest) { m.Redis = "redis 8.4.0 at 127.0.0.1:4001" },
		"db":    func(m *report.Manifest) { m.DB = "MariaDB 10.11.19 at 10.0.0.1:4002" },
		"go":    func(m *report.Manifest) { m.Go = "go1.25.0" },
		"cpus":  func(m *report.Manifest) { m.CPUs = 64 },
		"work":  func(m *report.Manifest) { m.Work = "1s" },
	} {
		err := growth.Write(new(strings.Builder), []report.Report{first, with(2, change)})
		switch {
		case differs == "" && err != nil:
			t.Errorf("other ports: %v", err)
		case differs != "" && (!errors.Is(err, growth.ErrReports) || !strings.Contains(err.Error(), ": "+differs+" is ")):
			t.Errorf("another %s: %v", differs, err)
		}
	}
}

// guide is the document with the figures that were measured.
const guide = "../../../docs/scale.md"

func text(t *testing.T) string {
	t.Helper()
	read, err := os.ReadFile(guide)
	if err != nil {
		t.Fatal(err)
	}
	return string(read)
}

// The last column of the tables in docs/scale.md follows from the other columns.
func TestGrowthInTheGuideFollowsFromItsFigures(t *testing.T) {
	rows := 0
	for line := range strings.Lines(text(t)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		last := strings.TrimSpace(cells[len(cells)-1])
		if !strings.HasPrefix(last, "×") || len(cells) != 7 {
			continue
		}
		rows++
		var costs []float64
		for _, cell := range cells[2:6] {
			cost, err := strconv.ParseFloat(strings.TrimSpace(cell), 64)
			if err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			costs = append(costs, cost)
		}
		if want := growth.Doubling([]float64{1, 2, 4, 8}, costs); last != want {
			t.Errorf("%s should end in %s", strings.TrimSpace(line), want)
		}
	}
	if rows < 12 {
		t.Errorf("%s has only %d rows with a growth", guide, rows)
	}
}

// docs/scale.md says of every sql_ strategy what Vitess and TiDB make of its statements.
func TestGuideHasEverySQLStrategy(t *testing.T) {
	found := 0
	for _, s := range catalog.Strategies() {
		if !strings.HasPrefix(s.Name, "sql_") {
			continue
		}
		found++
		has := slices.ContainsFunc(strings.Split(text(t), "\n"), func(line string) bool {
			return strings.HasPrefix(line, fmt.Sprintf("| `%s` |", s.Name)) && strings.Count(line, "|") == 5
		})
		if !has {
			t.Errorf("no row for %s, with its statements, Vitess and TiDB", s.Name)
		}
	}
	if found < 5 {
		t.Errorf("only %d strategies", found)
	}
}

func TestFiguresAreShownWithThreeDigits(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 0.0123456: "0.0123", 1.005: "1.00", 12.345: "12.3", 123.4: "123", 4321.9: "4322", math.Pi: "3.14"} {
		if got := growth.Shown(v); got != want {
			t.Errorf("%v is shown as %s, want %s", v, got, want)
		}
	}
}
