//go:build system

package main

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"oversell/internal/bench/report/page/pagetest"
)

// Read shows the files of a stage, and the lines that it adds and removes. The whole files are
// folded, and opened by the keyboard.
func TestPageReadsAStage(t *testing.T) {
	t.Parallel()
	b, site := openPage(t)
	b.Visit(site, "?lang=en#/read/v4_lua", desk)
	b.Until(`document.querySelector(".diff .added") !== null`)
	files := pagetest.Eval[[]string](b, `[...document.querySelectorAll(".file")].map((file) => file.innerText)`)
	if got := strings.Join(files, " "); got != "mutex.go unlock.lua" {
		t.Errorf("the files are %s", got)
	}
	for class, line := range map[string]string{
		"hunk":    "--- v3_uuid/unlock.lua",
		"added":   "+if redis.call('GET', KEYS[1]) ~= ARGV[1] then",
		"removed": "-\ttoken, err := m.rdb.Get(ctx, m.key).Result()",
	} {
		lines := pagetest.Eval[[]string](b, `[...document.querySelectorAll(".diff .`+class+`")].map((line) => line.innerText)`)
		if !strings.Contains("\n"+strings.Join(lines, "\n")+"\n", "\n"+line+"\n") {
			t.Errorf("no line %q is %s: %q", line, class, lines)
		}
	}
	if href := pagetest.Eval[string](b, `document.querySelector(".stageabout a").getAttribute("href")`); href != "#/break?pin=v3_uuid,v4_lua&rows=differ" {
		t.Errorf("what differs is at %s", href)
	}

	const whole = `document.querySelector("[aria-label='unlock.lua'] details pre")`
	if pagetest.Eval[bool](b, whole+`.checkVisibility()`) {
		t.Error("a whole file is not folded")
	}
	pagetest.Eval[bool](b, `document.querySelector("[aria-label='unlock.lua'] summary").focus() ?? true`)
	b.Do(chromedp.KeyEvent(kb.Enter))
	b.Until(whole + `.checkVisibility() && ` + whole + `.innerText.includes("redis.call('DEL', KEYS[1])")`)

	click(b, `.levels a`) // to the first stage
	b.Until(text(".stageabout h2") + ` === "v1_setnx" && document.querySelector(".source details[open] pre") !== null`)
	if n := pagetest.Eval[int](b, `document.querySelectorAll(".diff").length`); n != 0 {
		t.Errorf("the first stage has %d diffs", n)
	}
	b.Quiet()
	b.Visit(site, "?lang=en#/read/v99", desk)
	b.Until(text(".trouble") + `.includes("#/read/v99")`)
}
