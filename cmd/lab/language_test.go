package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"oversell/internal/lab"
	"oversell/internal/lab/search"
	pagetexts "oversell/internal/page/texts"
)

// -lang zh shows the table, a timeline, the list and the file in Chinese; names and commands
// stay. English is the default.
func TestChinese(t *testing.T) {
	file := filepath.Join(t.TempDir(), "lab.html")
	for name, tt := range map[string]struct{ args, want []string }{
		"matrix":   {[]string{"-run", "check-then-delete", "-strategy", "v3,v4"}, []string{"先检查、后删除 check-then-delete", "一件卖两次", "全部与记录一致"}},
		"timeline": {[]string{"-run", "check-then-delete", "-strategy", "v3_uuid"}, []string{"GET lock → token-A1", "在路上被扣住：DEL lock", "━━ 失守 ━━ C 有锁，B 也有"}},
		"holds":    {[]string{"-run", "late-payment", "-strategy", "h2_status", "-html", file}, []string{"付款迟到 late-payment", "hold-A 过期了", "woocommerce"}},
		"list":     {[]string{"-list"}, []string{"check-then-delete", "先检查、后删除：", "late-payment", "付款迟到："}},
		"replay":   {[]string{"-replay", "none/A.B.A.B", "-goal", "oversell"}, []string{"卖出一件", "达到：oversell：卖出的比库存多"}},
		"search":   {[]string{"-search", "none,v1"}, []string{"2 位买家，1 件库存；", "暂停 1 次，杀死 1 次，丢失回复 1 次", "不可能：", " 步：A.", "状态数", "合计"}},
	} {
		out, _ := runs(t, lab.Subjects(), exitExpected, append(tt.args, "-lang", "zh")...)
		for _, want := range tt.want {
			if !strings.Contains(out, want) {
				t.Errorf("%s: no %q in\n%s", name, want, out)
			}
		}
	}
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), "故障实验室") || !strings.Contains(string(page), "付款迟到") {
		t.Error("the file is not in Chinese")
	}
	if out, _ := runs(t, lab.Subjects(), exitExpected, "-run", "check-then-delete", "-strategy", "v3_uuid"); strings.Contains(out, "锁") {
		t.Errorf("without -lang:\n%s", out)
	}
}

// Everything that a search says is translated, but for names and commands.
func TestSearchInChinese(t *testing.T) {
	out, _ := runs(t, lab.Subjects(), exitExpected, "-search", "none,v1", "-lang", "zh")
	command := regexp.MustCompile(`go run .*|http:.*|步：.*|[\d.]+m?s\b`)
	name := regexp.MustCompile(`^(none|v1_setnx|oversell|overlap|foreign-delete|self-wait|stuck)$`)
	for _, word := range regexp.MustCompile(`\b[A-Za-z][\w-]+`).FindAllString(command.ReplaceAllString(out, ""), -1) {
		if !name.MatchString(word) {
			t.Errorf("%q is left in\n%s", word, out)
		}
	}
	language, err := pagetexts.In("zh")
	if err != nil {
		t.Fatal(err)
	}
	for _, goal := range search.Goals() {
		if told := language.Told(meaning(goal)); !strings.Contains(told, "：") {
			t.Errorf("%s is told as %q", goal, told)
		}
	}
}

func TestLanguagesAreListed(t *testing.T) {
	_, errs := runs(t, lab.Subjects(), exitFailed, "-lang", "fr")
	if want := `-lang: "fr" is no language; allowed: en, zh`; !strings.Contains(errs, want) {
		t.Errorf("no %q in %s", want, errs)
	}
}

// The list says in Chinese what each anomaly and each strategy is.
func TestListInChinese(t *testing.T) {
	out, _ := runs(t, lab.Subjects(), exitExpected, "-list", "-lang", "zh")
	if n := strings.Count(out, "\n"); n < len(everything())+len(lab.Subjects()) {
		t.Errorf("%d lines", n)
	}
	for line := range strings.Lines(out) {
		if !regexp.MustCompile(`\p{Han}`).MatchString(line) {
			t.Errorf("not translated: %s", line)
		}
	}
}

// Everything that happens in the cells of holds and repairs has a translation. The page's own
// test (TestPageTellsEverythingInChinese) checks those of locks.
func TestSalesAreToldInChinese(t *testing.T) {
	language, err := pagetexts.In("zh")
	if err != nil {
		t.Fatal(err)
	}
	r := try(t, nil, exitExpected, "-strategy", "h1_counter,h2_status,h3_claim,overwrite,lua_atomic,lua_batch,ack_first,no_claim,new_id,lua_stream")
	han := regexp.MustCompile(`\p{Han}`)
	reference := regexp.MustCompile(`^\S+$`) // to an issue, without words
	var said []string
	for _, part := range []*lab.Report{&r, r.Behind} {
		for _, a := range part.Anomalies {
			said = append(said, a.Sentence, a.Sequence, a.Source)
		}
		for _, c := range part.Cells {
			said = append(said, c.Note)
			for _, e := range c.Trace {
				if e.Kind != lab.Command {
					said = append(said, e.Text)
				}
			}
		}
	}
	if len(said) < 500 {
		t.Fatalf("%d texts", len(said))
	}
	for _, text := range said {
		if text != "" && !reference.MatchString(text) && !han.MatchString(language.Told(text)) {
			t.Errorf("not translated: %s", text)
		}
	}
}
