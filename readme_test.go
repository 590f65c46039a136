// Package oversell_test checks the README and the documents that have a Chinese version. It
// compares the parts that do not depend on the language: headings, code, tables, links, names in
// backquotes, and figures.
package oversell_test

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"oversell/internal/bench"
	"oversell/internal/catalog"
	"oversell/internal/lab"
	"oversell/internal/lab/anomalies"
)

const (
	readme     = "README.md"
	results    = "docs/results.md"
	strategies = "docs/strategies.md"
	teaching   = "docs/teaching.md"
	thePage    = "docs/page.md"
	theLab     = "docs/lab.md"
	design     = "docs/design.md"
)

// chinese returns the file name of the Chinese version of a document.
func chinese(name string) string { return strings.TrimSuffix(name, ".md") + ".zh-CN.md" }

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The verdicts in the README are those of the run in docs/results.md.
func TestReadmeShowsTheRun(t *testing.T) {
	cells := make(map[string][]string) // by strategy
	rate := make(map[string]string)
	_, run, _ := strings.Cut(read(t, results), "\ncalm\n")
	run, _, _ = strings.Cut(run, "\n\n")
	for row := range strings.Lines(run) {
		f := strings.Fields(row)
		if len(f) < 9 {
			continue // a line with the name of a condition
		}
		name, cell := f[0], f[len(f)-1]
		switch cell {
		case "oversold":
			cell = "**oversold** " + f[2]
		case "stuck":
			cell = "**stuck**, " + f[4] + " unsold"
		}
		cells[name], rate[name] = append(cells[name], cell), cmp.Or(rate[name], f[len(f)-2])
	}
	text := read(t, readme)
	for _, name := range []string{"none", "v1_setnx", "v9_cohort"} {
		if len(cells[name]) != 4 {
			t.Fatalf("%s has %d rows of %s; want 4", results, len(cells[name]), name)
		}
	}
	for _, row := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\| .*\\| [0-9]+ \\|$").FindAllStringSubmatch(text, -1) {
		want := fmt.Sprintf("| `%s` | %s | %s |", row[1], strings.Join(cells[row[1]], " | "), rate[row[1]])
		if row[0] != want {
			t.Errorf("%s has\n%s\nand the run in %s has\n%s", readme, row[0], results, want)
		}
	}
}

// Counts in documents are equal to the counts in the code.
func TestCounts(t *testing.T) {
	locks, holds := len(anomalies.All()), len(anomalies.Holds().Scenarios)
	usual := len(bench.DefaultStrategies(catalog.Deduct))
	for _, tt := range []struct {
		file, phrase string
		count        int
	}{
		{readme, "injects %d failures of a lock", locks},
		{chinese(readme), "锁的 %d 种异常", locks},
		{readme, "# %d strategies under 4 conditions", usual},
		{chinese(readme), "%d 种策略、4 种场景", usual},
		{"docs/sale.md", "which of %d failures each survives", holds},
		{chinese("docs/sale.md"), "显示 %d 种故障里", holds},
	} {
		if want := fmt.Sprintf(tt.phrase, tt.count); !strings.Contains(read(t, tt.file), want) {
			t.Errorf("%s does not say %q", tt.file, want)
		}
	}
}

// For each stage, the README names a file that is in the folder of the stage.
func TestReadmeNamesAFileOfEachStage(t *testing.T) {
	stages, err := filepath.Glob("internal/locks/v[0-9]_*")
	if err != nil || len(stages) == 0 {
		t.Fatalf("%v, %v", stages, err)
	}
	text := read(t, readme)
	for _, dir := range stages {
		name := filepath.Base(dir)
		row := regexp.MustCompile("(?m)^\\| `" + name + "` \\| .* \\| `(\\w+\\.\\w+)` \\|$").FindStringSubmatch(text)
		if row == nil {
			t.Errorf("%s has no row of %s with a file", readme, name)
			continue
		}
		if _, err := os.Stat(filepath.Join(dir, row[1])); err != nil {
			t.Error(err)
		}
	}
}

// The functions that docs/design.md lists for a purchase are in the files that it names.
func TestWayOfAPurchase(t *testing.T) {
	row := regexp.MustCompile("(?m)^\\|.*\\| `(\\S+\\.go)` \\| (`.*`) \\|.*\\|$")
	rows := row.FindAllStringSubmatch(read(t, design), -1)
	if len(rows) == 0 {
		t.Fatalf("%s has no row with a file and functions", design)
	}
	for _, row := range rows {
		source := read(t, filepath.Join("internal", row[1]))
		for _, name := range regexp.MustCompile(`\w+(\.\w+)?`).FindAllString(row[2], -1) {
			want := `(?m)^func (\(\w+ \*?\w+\) )?` + name + `\(`
			if receiver, method, of := strings.Cut(name, "."); of {
				want = `(?m)^func \(\w+ \*?` + receiver + `\) ` + method + `\(`
			}
			if !regexp.MustCompile(want).MatchString(source) {
				t.Errorf("%s names %s, which is not in %s", design, name, row[1])
			}
		}
	}
}

// Each Chinese term has one form on the page, in reports and in documents. The forms in this test
// were replaced by others.
func TestChineseHasOneWordForOneThing(t *testing.T) {
	files, err := filepath.Glob("internal/page/texts/zh*.json")
	if err != nil || len(files) != 4 {
		t.Fatal(files, err)
	}
	docs, err := filepath.Glob("docs/*.zh-CN.md")
	if err != nil || len(docs) == 0 {
		t.Fatal(docs, err)
	}
	for _, name := range append(append(files, docs...), chinese(readme)) {
		for line := range strings.Lines(read(t, name)) {
			_, text, isText := strings.Cut(line, `": "`) // drop the key, which may be English
			if !isText {
				text = line
			}
			for given, want := range map[string]string{
				"持有者": "持锁者", "答复": "回复", "应答": "回复", "方案": "策略", "续租": "续期", "杀掉": "杀死",
				"占住": "预占", "先占后付": "先预占后付款", "干活": "执行业务", "干完活": "执行完业务",
				"活没干": "业务没执行", "活干": "业务执行", "白干": "白白执行", "干一会": "执行一会儿",
				"舞台": "现场", "柜台后面": "后台管理", "已接下": "已受理", "到目前为止": "已发生",
				"所有者": "持锁者", "先来先得": "先到先得", "新想法": "核心思路", "对平": "对账一致",
				"天真": "错误示范", "收下": "受理", "朴素": "错误示范", "隔离编号": "隔离令牌", "旧编号": "旧令牌",
				"检查令牌的资源": "校验令牌的资源", "检查隔离令牌": "校验隔离令牌", "临界区耗时": "业务耗时",
				"做业务": "执行业务", "还在工作": "还在执行业务", "停住": "暂停", "挂掉": "死掉", "协程": "goroutine",
			} {
				if strings.Contains(text, given) {
					t.Errorf("%s says %s; write %s: %s", name, given, want, strings.TrimSpace(text))
				}
			}
		}
	}
}

// Every link between documents leads to an existing file, and to an existing heading in it.
func TestLinksLeadSomewhere(t *testing.T) {
	inRoot, err := filepath.Glob("*.md")
	if err != nil {
		t.Fatal(err)
	}
	inDocs, err := filepath.Glob("docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range append(inRoot, inDocs...) {
		for _, link := range regexp.MustCompile(`\]\(([^)\s]+)\)`).FindAllStringSubmatch(read(t, name), -1) {
			file, heading, _ := strings.Cut(link[1], "#")
			if strings.Contains(file, "://") {
				continue
			}
			target := filepath.Join(filepath.Dir(name), file)
			if file == "" {
				target = name
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s links to %s: %v", name, link[1], err)
			} else if heading != "" && !slices.Contains(anchors(read(t, target)), heading) {
				t.Errorf("%s links to %s, and %s has no such heading", name, link[1], target)
			}
		}
	}
}

// anchors returns the names with which links refer to the headings of a text.
func anchors(text string) []string {
	var all []string
	for _, heading := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(text, -1) {
		kept := regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(strings.ToLower(heading[1]), "")
		all = append(all, strings.ReplaceAll(kept, " ", "-"))
	}
	return all
}

// The Chinese document explains what each strategy of the generated table adds.
func TestStrategiesAreExplainedInChinese(t *testing.T) {
	_, table, _ := strings.Cut(read(t, strategies), lab.TableBegin)
	table, _, _ = strings.Cut(table, lab.TableEnd)
	rows := regexp.MustCompile("(?m)^\\| (`.+?`) \\| (.+?) \\|").FindAllStringSubmatch(table, -1)
	if len(rows) == 0 {
		t.Fatalf("%s has no table of strategies", strategies)
	}
	name := chinese(strategies)
	for _, row := range rows {
		if !strings.Contains(read(t, name), "\n- "+row[1]+"：") {
			t.Errorf("%s: add to the list a line \"- %s：…\" that says %q in Chinese", name, row[1], row[2])
		}
	}
}

// section is the part of a document under one heading, without what depends on the language.
type section struct {
	heading string
	blocks  []string // lines of code and rows of tables, in order
	prose   string
}

// sections splits a document at its headings. It skips text between two markers, which is generated
// or for one language only.
func sections(t *testing.T, name string) []section {
	t.Helper()
	all := []section{{heading: "the beginning"}}
	fence, apart := "", false
	for line := range strings.Lines(read(t, name)) {
		line = strings.TrimSuffix(line, "\n")
		last := &all[len(all)-1]
		switch {
		case strings.HasPrefix(line, "```"):
			if fence != "" {
				line = ""
			}
			fence = line
		case fence != "":
			if code := withoutComment(strings.TrimPrefix(fence, "```"), line); code != "" {
				last.blocks = append(last.blocks, code)
			}
		case apart || strings.HasSuffix(line, ":begin -->"):
			apart = !strings.HasSuffix(line, ":end -->")
		case strings.HasPrefix(line, "#"):
			all = append(all, section{heading: line, blocks: strings.Fields(line)[:1]}) // the level of the heading
		case strings.HasPrefix(line, "|"):
			last.blocks = append(last.blocks, fmt.Sprint(strings.Count(line, "|")-1, " cells with ", words(line)))
		default:
			last.prose += line + "\n"
		}
	}
	return all
}

// withoutComment removes the parts of a line of code that are translated: comments and, in a block
// without a language, text that is set apart on the right.
func withoutComment(language, line string) string {
	comment := map[string]string{"": `\s{3,}.*`, "sh": `(^|\s+)#.*`, "go": `\s*//.*`}[language]
	if comment != "" {
		line = regexp.MustCompile(comment+"$").ReplaceAllString(line, "")
	}
	return strings.TrimRight(line, " ")
}

// words returns the names in backquotes, the links and the figures of a text, sorted and without
// duplicates. A link to a Chinese document counts as a link to the English one, and all links to
// headings of a document are equal.
func words(text string) []string {
	var all []string
	for _, word := range regexp.MustCompile("`[^`]+`|\\]\\([^)\\s]+\\)|[0-9]+(?:[.,][0-9]+)*").FindAllString(text, -1) {
		word = strings.Join(strings.Fields(word), " ")
		if strings.HasPrefix(word, "](") {
			word = regexp.MustCompile(`#.*\)$`).ReplaceAllString(strings.ReplaceAll(word, ".zh-CN.md", ".md"), "#…)")
		}
		all = append(all, word)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// A document and its translation have the same sections, and each section has the same code,
// tables, names, links and figures.
func TestLanguagesSayTheSame(t *testing.T) {
	for _, name := range []string{readme, strategies, teaching, thePage, theLab} {
		english, translated := sections(t, name), sections(t, chinese(name))
		if len(english) != len(translated) {
			t.Errorf("%s has %d sections, and %s has %d", name, len(english), chinese(name), len(translated))
			continue
		}
		for i, en := range english {
			zh := translated[i]
			wantSame(t, fmt.Sprintf("%s, under %q, and %s, under %q", name, en.heading, chinese(name), zh.heading),
				append(en.blocks, words(en.prose)...), append(zh.blocks, words(zh.prose)...))
		}
	}
}

// wantSame fails the test if the two sections differ, and reports what only one of them has.
func wantSame(t *testing.T, where string, a, b []string) {
	t.Helper()
	if slices.Equal(a, b) {
		return
	}
	only := func(a, b []string) []string {
		return slices.DeleteFunc(slices.Clone(a), func(fact string) bool { return slices.Contains(b, fact) })
	}
	t.Errorf("%s: only the first has %q, only the second has %q, or their order differs", where, only(a, b), only(b, a))
}
