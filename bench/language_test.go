package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"oversell/internal/bench/report"
)

// -lang zh shows the table and the page in Chinese. JSON stays as it is.
func TestBenchInChinese(t *testing.T) {
	file := filepath.Join(t.TempDir(), "report.html")
	got := try(t, small("-strategies", "v6_watchdog", "-conditions", "calm", "-lang", "zh", "-json", "-", "-html", file)...)
	if got.code != exitExpected {
		t.Fatalf("exit code %d, stderr %q", got.code, got.stderr)
	}
	for _, want := range []string{"300 名并发买家，100 件库存", "\n无故障 calm\n  v6_watchdog ", "正常\n", "这一行符合预期。"} {
		if !strings.Contains(got.stderr, want) {
			t.Errorf("no %q in\n%s", want, got.stderr)
		}
	}
	if r, err := report.Read(strings.NewReader(got.stdout)); err != nil || r.Rows[0].Verdict != "ok" || r.Rows[0].Condition != "calm" {
		t.Errorf("the JSON is %+v, %v", r, err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), "<h1>秒杀压测</h1>") {
		t.Error("the page is not in Chinese")
	}
}

func TestBenchRefusesLanguages(t *testing.T) {
	for args, want := range map[string]string{
		"-lang fr":                `-lang: "fr" is no language; allowed: en, zh`,
		"-workload lock -lang zh": "-lang has no effect with -workload lock",
	} {
		if got := try(t, strings.Fields(args)...); got.code != exitFailed || !strings.Contains(got.stderr, want) {
			t.Errorf("%s: %q", args, got.stderr)
		}
	}
}
