// Package oversell_test checks the README and the documents that have a Chinese
// version. It compares what does not depend on the language: headings, code,
// tables, links, names in backquotes, and figures.
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
	"oversell/internal/lab/sales"
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

// chinese is the name of a document in Chinese.
func chinese(name string) string { return strings.TrimSuffix(name, ".md") + ".zh-CN.md" }

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestLanguagesSayTheSame(t *testing.T) {
	for _, name := range []string{readme, strategies, teaching, thePage, theLab} {
		for _, d := range differences(readPage(t, name), readPage(t, chinese(name))) {
			t.Error(d)
		}
	}
}

// The verdicts in the README are those of the run in docs/results.md.
func TestReadmeShowsTheRun(t *testing.T) {
	cells := make(map[string][]string) // of each strategy
	rate := make(map[string]string)
	_, run, _ := strings.Cut(read(t, results), "\ncalm\n")
	run, _, _ = strings.Cut(run, "\n\n")
	for row := range strings.Lines(run) {
		f := strings.Fields(row)
		if len(f) < 9 {
			continue // the name of a condition
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

// Counts in texts are those of the program.
func TestCounts(t *testing.T) {
	locks, holds := len(anomalies.All()), len(sales.Holds().Scenarios)
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

// The README names a file in the folder of each stage.
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

// The way of a purchase in docs/design.md leads through functions that are in the files it names.
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

// One thing has one name in Chinese, on the page, in reports and in documents. These words were
// given up for others.
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
			_, text, isText := strings.Cut(line, `": "`) // the key may be English
			if !isText {
				text = line
			}
			for given, want := range map[string]string{
				"持有者": "持锁者", "答复": "回复", "应答": "回复", "方案": "策略", "续租": "续期", "杀掉": "杀死",
				"占住": "预占", "先占后付": "先预占后付款", "干活": "执行业务", "干完活": "执行完业务",
				"活没干": "业务没执行", "活干": "业务执行", "白干": "白白执行", "干一会": "执行一会儿",
				"舞台": "现场", "柜台后面": "后台管理", "已接下": "已受理", "到目前为止": "已发生",
			} {
				if strings.Contains(text, given) {
					t.Errorf("%s says %s; write %s: %s", name, given, want, strings.TrimSpace(text))
				}
			}
		}
	}
}

// Links from one document to another lead to a file, and to a heading in it.
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

// anchors are the names by which links reach the headings of a text.
func anchors(text string) []string {
	var all []string
	for _, heading := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(text, -1) {
		kept := regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(strings.ToLower(heading[1]), "")
		all = append(all, strings.ReplaceAll(kept, " ", "-"))
	}
	return all
}

// What each strategy of the generated table adds is said in Chinese too.
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

// page is a document, cut at its headings.
type page struct {
	name     string
	sections []section
}

type section struct {
	heading string
	line    int
	facts   []fact
}

// fact is something that must be in both languages.
type fact struct {
	kind, key string
	line      int
}

const (
	code = "the line of code"
	row  = "a table row with"
	word = "to its text"
)

func readPage(t *testing.T, name string) page {
	t.Helper()
	return parse(name, read(t, name))
}

// parse finds the facts of a document, which begins with a heading.
func parse(name, text string) page {
	r := reader{page: page{name: name}}
	for i, line := range strings.Split(text, "\n") {
		r.read(i+1, line)
	}
	r.endSection()
	return r.page
}

// reader reads a document line by line.
type reader struct {
	page
	prose []string // of the section, with an empty line for everything else
	fence string   // the line that opened the block of code, if one is open
	apart bool     // between two marks: generated, or for one language only
}

func (r *reader) read(n int, line string) {
	switch {
	case strings.HasPrefix(line, "```"):
		r.add(fact{code, line, n})
		if r.fence != "" {
			line = ""
		}
		r.fence = line
	case r.fence != "":
		r.add(fact{code, withoutComment(strings.TrimPrefix(r.fence, "```"), line), n})
	case r.apart || strings.HasSuffix(line, ":begin -->"):
		r.apart = !strings.HasSuffix(line, ":end -->")
		r.prose = append(r.prose, "")
	case strings.HasPrefix(line, "#"):
		r.endSection()
		r.sections = append(r.sections, section{heading: line, line: n})
		r.prose = []string{""}
	case strings.HasPrefix(line, "|"):
		r.add(fact{row, rowKey(line), n})
	default:
		r.prose = append(r.prose, line)
	}
}

func (r *reader) add(f fact) {
	r.prose = append(r.prose, "")
	if n := len(r.sections); n > 0 && f.key != "" {
		r.sections[n-1].facts = append(r.sections[n-1].facts, f)
	}
}

func (r *reader) endSection() {
	if n := len(r.sections); n > 0 {
		s := &r.sections[n-1]
		s.facts = append(s.facts, once(words(strings.Join(r.prose, "\n"), s.line))...)
	}
}

// once leaves out what is said again, as one language may and the other not.
func once(facts []fact) []fact {
	seen := make(map[string]bool)
	return slices.DeleteFunc(facts, func(f fact) bool {
		again := seen[f.key]
		seen[f.key] = true
		return again
	})
}

// withoutComment cuts off what is translated: comments, and in a block of no
// language what stands apart on the right.
func withoutComment(language, line string) string {
	comment := map[string]string{"": `\s{3,}.*`, "sh": `(^|\s+)#.*`, "go": `\s*//.*`}[language]
	if comment != "" {
		line = regexp.MustCompile(comment+"$").ReplaceAllString(line, "")
	}
	return strings.TrimRight(line, " ")
}

// rowKey is what a row of a table has in any language, whatever the order.
func rowKey(line string) string {
	var keys []string
	for _, f := range words(line, 0) {
		keys = append(keys, f.key)
	}
	slices.Sort(keys)
	return fmt.Sprintf("%d cells and %s", strings.Count(line, "|")-1, cmp.Or(strings.Join(keys, ", "), "words alone"))
}

// words finds names in backquotes, links, and figures. A link to a document in
// Chinese counts as one to that document, and the name of a heading as one in any language.
func words(text string, first int) []fact {
	var facts []fact
	pattern := regexp.MustCompile("`[^`]+`|\\]\\([^)\\s]+\\)|[0-9]+(?:[.,][0-9]+)*")
	for _, m := range pattern.FindAllStringIndex(text, -1) {
		key := strings.Join(strings.Fields(text[m[0]:m[1]]), " ")
		if target, ok := strings.CutPrefix(key, "]("); ok {
			file, _, toHeading := strings.Cut(strings.TrimSuffix(target, ")"), "#")
			key = "a link to " + strings.ReplaceAll(file, ".zh-CN.md", ".md")
			if toHeading {
				key += "#…"
			}
		}
		facts = append(facts, fact{word, key, first + strings.Count(text[:m[0]], "\n")})
	}
	return facts
}

// differences says what to add where, so that both pages say the same.
func differences(a, b page) []string {
	if !slices.EqualFunc(a.sections, b.sections, func(s, t section) bool { return s.level() == t.level() }) {
		return []string{fmt.Sprintf("the headings of %s and %s differ in number or level: "+
			"translate the section that one of them lacks\n%s", a.name, b.name, beside(a, b))}
	}
	var told []string
	for i, s := range a.sections {
		t := b.sections[i]
		n := len(told)
		told = append(told, lacks(b.name, t, a.name, s)...)
		told = append(told, lacks(a.name, s, b.name, t)...)
		if n == len(told) {
			told = append(told, misplaced(a.name, s, b.name, t)...)
		}
	}
	return told
}

func (s section) level() int {
	return len(s.heading) - len(strings.TrimLeft(s.heading, "#"))
}

// beside lists the headings of two pages, for a reader to see which is alone.
func beside(a, b page) string {
	var out strings.Builder
	for i := range max(len(a.sections), len(b.sections)) {
		for _, p := range []page{a, b} {
			heading := "nothing"
			if i < len(p.sections) {
				heading = fmt.Sprintf("%s (line %d)", p.sections[i].heading, p.sections[i].line)
			}
			fmt.Fprintf(&out, "%-50s", heading)
		}
		out.WriteString("\n")
	}
	return out.String()
}

// lacks says what a section has not that its counterpart has.
func lacks(name string, s section, otherName string, other section) []string {
	left := make(map[string]int)
	for _, f := range s.facts {
		left[f.kind+f.key]++
	}
	var told []string
	for _, f := range other.facts {
		if left[f.kind+f.key]--; left[f.kind+f.key] >= 0 {
			continue
		}
		what := fmt.Sprintf("add %s %s", f.kind, f.key)
		told = append(told, fmt.Sprintf("%s, under %q (line %d): %s, as in line %d of %s, or change it there",
			name, s.heading, s.line, what, f.line, otherName))
	}
	return told
}

// misplaced says where sections of the same facts have them in another order.
// Within prose the order is the language's.
func misplaced(name string, s section, otherName string, other section) []string {
	inProse := func(f fact) bool { return f.kind == word }
	a, b := slices.DeleteFunc(slices.Clone(s.facts), inProse), slices.DeleteFunc(slices.Clone(other.facts), inProse)
	for i := range min(len(a), len(b)) {
		if a[i].key != b[i].key {
			return []string{fmt.Sprintf(
				"%s, line %d: %s %s stands where %s, line %d, has %s %s: have them in the same order",
				otherName, b[i].line, b[i].kind, b[i].key, name, a[i].line, a[i].kind, a[i].key)}
		}
	}
	return nil
}

func TestDifferencesAreTold(t *testing.T) {
	const page = "# T\n\n[x](d.md) has `a` and `b c`, 5 times.\n\n" +
		"## A\n\n```sh\n# why\ngo run ./a   # this\ngo run ./b\n```\n\n" +
		"| what | figure | command |\n|---|---|---|\n| one | 1.5 s | `go a` |\n| two | 2 s | `go b` |\n"
	for name, tt := range map[string]struct{ old, new, want string }{
		"nothing":             {"", "", ""},
		"a comment":           {"# this", "# 这个", ""},
		"order in prose":      {"`a` and `b c`", "`b\nc` 和 `a`", ""},
		"a link to Chinese":   {"(d.md)", "(d.zh-CN.md)", ""},
		"a link to a heading": {"(d.md)", "(d.zh-CN.md#标题)", "add to its text a link to d.md#…"},
		"words in a table":    {"| one | 1.5 s", "| 一 | 1.5 秒", ""},
		"no section":          {"## A\n", "", "nothing"},
		"another level":       {"## A", "### A", "differ in number or level"},
		"no command": {
			"go run ./b\n", "",
			"zh, under \"## A\" (line 5): add the line of code go run ./b, as in line 10 of en",
		},
		"one command more": {
			"go run ./b\n", "go run ./b\ngo run ./c\n",
			"en, under \"## A\" (line 5): add the line of code go run ./c, as in line 11 of zh",
		},
		"commands in other order": {
			"go run ./a   # this\ngo run ./b\n", "go run ./b\ngo run ./a\n",
			"zh, line 9: the line of code go run ./b stands where en, line 9, has",
		},
		"another figure": {
			"1.5 s", "1.6 s",
			"zh, under \"## A\" (line 5): add a table row with 3 cells and 1.5, `go a`, as in line 15 of en",
		},
		"no row":            {"| two | 2 s | `go b` |\n", "", "add a table row with 3 cells and 2, `go b`"},
		"no link":           {"[x](d.md)", "x", "add to its text a link to d.md"},
		"a name said again": {"5 times", "5 次 `a`", ""},
		"no name":           {"`b c`", "b", "add to its text `b c`, as in line 3 of en"},
		"no figure":         {"5 times", "often", "add to its text 5"},
	} {
		got := differences(parse("en", page), parse("zh", strings.Replace(page, tt.old, tt.new, 1)))
		if text := strings.Join(got, "\n"); (text == "") != (tt.want == "") || !strings.Contains(text, tt.want) {
			t.Errorf("%s: told %q, want %q", name, text, tt.want)
		}
	}
}
