//go:build system

package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"oversell/internal/bench/report"
	"oversell/internal/bench/report/pagetest"
	"oversell/internal/catalog"
	"oversell/internal/figures"
	"oversell/internal/lab"
	"oversell/internal/message"
)

// resolved evaluates an expression in the page, and returns the value of its promise. The
// expression may use the declarations in helpers.
func resolved[T any](t *testing.T, b *pagetest.Tab, expression string) T {
	t.Helper()
	const helpers = `
	  const { told } = await import("/page/text.js");
	  const { call } = await import("/page/api.js");
	  const { fetchStory } = await import("/page/cell.js");
	  const chinese = (text) => /\p{Script=Han}/u.test(text);
	  const refusals = async (path, bodies) => (await Promise.all(bodies.map((body) =>
	    call(path, { method: "POST", body })
	      .then(() => "not refused: " + JSON.stringify(body), (error) => error.message))));
	  const pieces = (selector) => [...document.querySelectorAll(selector)].flatMap((node) => {
	    const texts = [];
	    const walker = document.createTreeWalker(node, NodeFilter.SHOW_TEXT);
	    while (walker.nextNode()) texts.push(walker.currentNode.data);
	    return texts;
	  });`
	pagetest.Eval[bool](b, `(() => {
	  window.resolved = undefined;
	  (async () => {`+helpers+`
	    return `+expression+`;
	  })()
	    .then((value) => ({ value }), (error) => ({ error: String(error.stack) }))
	    .then((resolved) => Object.assign(window, { resolved }));
	  return true;
	})()`)
	b.Until(`window.resolved !== undefined`)
	if failed := pagetest.Eval[string](b, `window.resolved.error ?? ""`); failed != "" {
		t.Fatal(failed)
	}
	return pagetest.Eval[T](b, `window.resolved.value`)
}

// wantTold checks that every text in the array to which the expression resolves has a Chinese
// translation, and that the array is not empty.
func wantTold(t *testing.T, b *pagetest.Tab, what, expression string) {
	t.Helper()
	looked := resolved[struct {
		Texts  int
		Untold []string
	}](t, b, `((texts) => ({
	  texts: texts.length,
	  untold: [...new Set(texts.filter((text) => !chinese(text)))],
	}))(`+expression+`)`)
	if looked.Texts == 0 {
		t.Errorf("%s: there are no texts", what)
	}
	for _, text := range looked.Untold {
		t.Errorf("%s: not translated: %s", what, text)
	}
}

// wantSeen fails the test for each text with an English word, in the selected elements, that has no
// Chinese translation. It checks each text node by itself, because an element may contain both a
// text of the shop and a text of the page, which is always Chinese.
func wantSeen(t *testing.T, b *pagetest.Tab, selector string) {
	t.Helper()
	shown := fmt.Sprintf(`pieces(%q).filter((text) => chinese(text) || /[a-z]{2,}/.test(text))`, selector)
	wantTold(t, b, selector, shown)
}

// On the Chinese page, only commands, replies to them, errors of programs, keys, code and names are
// in English.
func TestPageTellsEverythingInChinese(t *testing.T) {
	t.Parallel()
	b, site := openLab(t)
	b.Visit(site, "?lang=zh#/break", desk)
	b.Until(`document.querySelector(".matrix") !== null`)

	// Each cell of the matrix shows its reason, where the anomaly happened in practice unless that
	// is only a reference, and its timeline.
	wantSeen(t, b, ".matrix .sentence")
	wantSeen(t, b, ".matrix .title")
	titles := pagetest.Eval[int](b, `document.querySelectorAll(".matrix .title + .name").length`)
	names := pagetest.Eval[int](b, `document.querySelectorAll(".matrix .name").length`)
	if titles != names || names == 0 {
		t.Errorf("%d of %d anomalies have a Chinese title beside their name", titles, names)
	}
	wantSeen(t, b, ".chips, .legend, .matrix .head th")
	wantTold(t, b, "the notes of the matrix", `(await call("/api/lab")).cells
	  .map(({ note, message }) => told(note, message))`)
	wantTold(t, b, "the sources", `(await call("/api/lab")).anomalies
	  .map(({ source }) => told(source))
	  .filter((source) => chinese(source) || / [a-z]+ /.test(source))`)
	wantTold(t, b, "the timelines", `await (async () => {
	  const { cells } = await call("/api/lab");
	  const texts = [];
	  const rows = (await Promise.all(cells.map((cell) => fetchStory(cell)))).flatMap((story) => story.rows);
	  for (const { kind, text, reply, again, left } of rows) {
	    if (kind !== "command") texts.push(text);
	    texts.push(...[again, left].filter((words) => /[a-z]/.test(words ?? "")));
	    if (reply?.startsWith("(")) texts.push(reply);
	  }
	  return texts;
	})()`)

	b.Quiet() // the browser also logs each refusal on its console
	wantTold(t, b, "refused runs", `await refusals("/api/runs", [
	  { strategies: ["nobody's"] }, { strategies: ["none", "none"] }, { strategies: [] },
	  { conditions: ["storm"] }, { conditions: ["calm", "calm"] },
	  { backend: "moon" }, { keeper: "moon" }, { keeper: "database", strategies: ["lua_atomic"] },
	  { requests: 0 }, { instances: 4, requests: 3 },
	  { conditions: ["crash"], instances: 1 }, { moon: 1 }, { stock: "many" },
	])`)

	differencesInChinese(t, b)
	t.Run("schedules", func(t *testing.T) { schedulesInChinese(t, b, site) })
	t.Run("stages", func(t *testing.T) { stagesInChinese(t, b, site) })

	for range 16 { // as many streams as one address may have
		res, err := http.Get(site + "api/runs/events")
		must(t, err)
		t.Cleanup(func() { _ = res.Body.Close() })
	}
	b.Visit(site, "?lang=zh&late#/run", desk)
	b.Until(text(".live > .alarm") + ` === "打开的页面太多了。"`)
}

// differencesInChinese checks what a row says if it is not as the catalog expects.
func differencesInChinese(t *testing.T, b *pagetest.Tab) {
	differs := []message.Message{
		message.Newf("the fault was not injected: %v", message.Text("no holder reached the critical section")),
		message.Text("the catalog has no expectation for this case"),
	}
	untrue := report.Audit{AcknowledgedMissing: 1, Unreported: 2, Duplicates: 3}.Untrue()
	for _, verdict := range []figures.Verdict{figures.Oversold, figures.Undersold, figures.Stuck, figures.Unknown} {
		e := catalog.Expectation{Verdicts: []figures.Verdict{figures.OK, figures.Drift}, MaxHolders: 1}
		wrong := e.Check(catalog.Outcome{Verdict: verdict, MaxHolders: 2})
		differs = append(differs, message.Join("%v; %v", wrong, untrue))
	}
	messages, err := json.Marshal(differs)
	must(t, err)
	for _, said := range resolved[[]string](t, b, string(messages)+`.map((message) => told("", message))`) {
		if strings.ContainsAny(said, "abcdefghijklmnopqrstuvwxyz") {
			t.Errorf("not translated: %s", said)
		}
	}
}

// schedulesInChinese checks the texts that the page shows for schedules, and for one that cannot be
// played. Package lab checks that every sentence about a schedule has a translation.
func schedulesInChinese(t *testing.T, b *pagetest.Tab, site string) {
	for _, schedule := range []struct {
		strategy string
		moves    []string
	}{
		{"none", strings.Split("A.B.A.B", ".")},
		{"v2_ttl", foreignDelete},
		{"v9_cohort", strings.Split("A.A.fA.p3000.B", ".")},
	} {
		hash := "#/play/" + schedule.strategy + "/" + strings.Join(schedule.moves, ".")
		b.Visit(site, "?lang=zh"+hash, desk)
		b.Until(fmt.Sprintf(`location.hash === %q && document.querySelector(".playstory .event") !== null
			&& document.querySelector("[aria-busy=true]") === null`, hash))
		state := play(t, site, schedule.strategy, schedule.moves)
		want := map[string]int{
			".standingline": 1, ".says": len(state.Players), ".findings li": len(state.Findings),
			".playstory .event:not(.command)": 0,
		}
		for _, e := range state.Trace {
			if e.Kind != lab.Command {
				want[".playstory .event:not(.command)"]++
			}
		}
		for selector, n := range want {
			if got := pagetest.Eval[int](b, fmt.Sprintf(`document.querySelectorAll(%q).length`, selector)); got < n {
				t.Errorf("%s: %d of %s, want %d", hash, got, selector, n)
			}
			if n > 0 {
				wantSeen(t, b, selector)
			}
		}
	}
	b.Visit(site, "?lang=zh#/play/none/A.tA", desk)
	b.Until(`document.querySelector(".standingline.failed") !== null`)
	wantSeen(t, b, ".standingline")
}

// stagesInChinese checks each paragraph and each list item of the package comments.
func stagesInChinese(t *testing.T, b *pagetest.Tab, site string) {
	for _, stage := range get[struct{ Stages []struct{ Name string } }](t, site, "api/stages").Stages {
		b.Visit(site, "?lang=zh#/read/"+stage.Name, desk)
		b.Until(fmt.Sprintf(`document.querySelector(".stageabout h2")?.innerText.startsWith(%q)
			&& document.querySelector(".comment") !== null`, stage.Name))
		wantTold(t, b, "the comment of "+stage.Name,
			`pieces(".comment").flatMap((comment) => comment.split(/\n(?=\n|  - )/))`)
	}
}
