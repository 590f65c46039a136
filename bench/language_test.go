package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"oversell/internal/bench/report"
)

// -lang zh shows the table and the page in Chinese. JSON stays as it is.
func TestBenchInChinese(t *testing.T) {
	t.Parallel()
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

// So does the lock workload, with the medians of its runs.
func TestLockWorkloadInChinese(t *testing.T) {
	t.Parallel()
	got := try(t, locksOnly("-strategies", "v2,v7", "-repeat", "2", "-lang", "zh")...)
	if got.code != exitExpected {
		t.Fatalf("exit code %d, stderr %q", got.code, got.stderr)
	}
	for _, want := range []string{"个竞争者争一把锁，分布在", "等待时间以毫秒计", "无故障 calm，第 2 次，共 2 次", "正常\n", "2 次的中位数：每秒扣减次数"} {
		if !strings.Contains(got.stdout, want) {
			t.Errorf("no %q in\n%s", want, got.stdout)
		}
	}
	if m := regexp.MustCompile(`\b(run|of|medians|wait|ttl wait|to|times|first)\b`).FindString(got.stdout); m != "" {
		t.Errorf("%q is English in\n%s", m, got.stdout)
	}
}

func TestBenchRefusesLanguages(t *testing.T) {
	for args, want := range map[string]string{
		"-lang fr": `-lang: "fr" is no language; allowed: en, zh`,
	} {
		if got := try(t, strings.Fields(args)...); got.code != exitFailed || !strings.Contains(got.stderr, want) {
			t.Errorf("%s: %q", args, got.stderr)
		}
	}
}
