//go:build system

package main

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"oversell/internal/bench/report/page/pagetest"
	"oversell/internal/lab"
)

// resolved returns the value that an expression resolves to in the page. The expression may
// use the declarations in helpers.
func resolved[T any](t *testing.T, b *pagetest.Tab, expression string) T {
	t.Helper()
	const helpers = `
	  const { told } = await import("/page/text.js");
	  const { call } = await import("/page/api.js");
	  const { fetchStory } = await import("/page/cell.js");
	  const chinese = (text) => /\p{Script=Han}/u.test(text);
	  const refusals = async (path, bodies) => (await Promise.all(bodies.map((body) =>
	    call(path, { method: "POST", body }).then(() => "not refused: " + JSON.stringify(body), (error) => error.message))));
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
	  })().then((value) => ({ value }), (error) => ({ error: String(error.stack) })).then((resolved) => Object.assign(window, { resolved }));
	  return true;
	})()`)
	b.Until(`window.resolved !== undefined`)
	if failed := pagetest.Eval[string](b, `window.resolved.error ?? ""`); failed != "" {
		t.Fatal(failed)
	}
	return pagetest.Eval[T](b, `window.resolved.value`)
}

// wantTold checks that each of the texts that an expression resolves to in the page has a
// Chinese translation, and that there are some.
func wantTold(t *testing.T, b *pagetest.Tab, what, expression string) {
	t.Helper()
	looked := resolved[struct {
		Texts  int
		Untold []string
	}](t, b, `((texts) => ({ texts: texts.length, untold: [...new Set(texts.filter((text) => !chinese(text)))] }))(`+expression+`)`)
	if looked.Texts == 0 {
		t.Errorf("%s: there are no texts", what)
	}
	for _, text := range looked.Untold {
		t.Errorf("%s: not translated: %s", what, text)
	}
}

// wantSeen reports each text with an English word, in the elements of a selector, that has
// no Chinese translation. It checks each text node by itself, because an element may have a
// text of the shop beside one of the page, and the latter is always Chinese.
func wantSeen(t *testing.T, b *pagetest.Tab, selector string) {
	t.Helper()
	wantTold(t, b, selector, fmt.Sprintf(`pieces(%q).filter((text) => chinese(text) || /[a-z]{2,}/.test(text))`, selector))
}

// In Chinese the page shows only in English what is not prose: commands, their replies,
// errors of programs, keys, code and names.
func TestPageTellsEverythingInChinese(t *testing.T) {
	b, site := openLab(t)
	b.Visit(site, "?lang=zh#/break", desk)
	b.Until(`document.querySelector(".matrix") !== null`)

	// Each cell of the matrix as the page has it: its reason, where it happened in practice
	// unless that is only a reference, and its timeline.
	wantSeen(t, b, ".matrix .sentence")
	wantSeen(t, b, ".matrix .title")
	titles := pagetest.Eval[int](b, `document.querySelectorAll(".matrix .title + .name").length`)
	if names := pagetest.Eval[int](b, `document.querySelectorAll(".matrix .name").length`); titles != names || names == 0 {
		t.Errorf("%d of %d anomalies have a Chinese title beside their name", titles, names)
	}
	wantSeen(t, b, ".chips, .legend, .matrix .head th")
	wantTold(t, b, "the notes of the matrix", `(await call("/api/lab")).cells.map(({ note }) => told(note))`)
	wantTold(t, b, "the sources", `(await call("/api/lab")).anomalies.map(({ source }) => told(source)).filter((source) => chinese(source) || / [a-z]+ /.test(source))`)
	wantTold(t, b, "the timelines", `await (async () => {
	  const { cells, manifest } = await call("/api/lab");
	  const texts = [told(manifest.redis)];
	  const rows = (await Promise.all(cells.map((cell) => fetchStory(cell)))).flatMap((story) => story.rows);
	  for (const { kind, text, short, reply, again, left } of rows) {
	    if (kind !== "command") texts.push(text, short ?? text);
	    texts.push(...[again, left].filter((words) => /[a-z]/.test(words ?? "")));
	    if (reply?.startsWith("(")) texts.push(reply);
	  }
	  return texts;
	})()`)

	// The texts in the sources, for those that did not occur this time.
	var all []string
	for _, dir := range []string{"lab", "lab/anomalies", "page/runs", "page"} {
		all = append(all, sentences(t, "../../internal/"+dir)...)
	}
	all = slices.DeleteFunc(all, func(text string) bool { return slices.Contains(refusals, text) })
	if len(all) < 100 {
		t.Errorf("the sources have but %d sentences", len(all))
	}
	texts, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	wantTold(t, b, "the sources of the shop", string(texts)+`.map(told)`)

	b.Quiet() // a refusal appears on the console too
	wantTold(t, b, "refused runs", `await refusals("/api/runs", [
	  { strategies: ["nobody's"] }, { strategies: ["none", "none"] }, { conditions: ["storm"] }, { conditions: ["calm", "calm"] },
	  { backend: "moon" }, { keeper: "moon" }, { keeper: "database", strategies: ["lua_atomic"] }, { requests: 0 }, { strategies: [] }, { instances: 4, requests: 3 },
	  { conditions: ["crash"], instances: 1 }, { moon: 1 }, { stock: "many" },
	])`)

	t.Run("schedules", func(t *testing.T) { schedulesInChinese(t, b, site) })
	t.Run("stages", func(t *testing.T) { stagesInChinese(t, b, site) })
}

// badSchedules cannot be played, each for a different reason.
var badSchedules = []string{
	"x", "C", "A9", "A.A2", "tA", "A.tA", "A.fA.A", "A.fA.fA", "A.kA.A", "fA", strings.Repeat("A.", lab.MaxMoves) + "A",
	strings.Repeat("p60000.", 5) + "p60000", "A.B.A.B.A", "A.A.fA",
}

// walk plays a level, each time by one of the possible moves, and returns all texts of the
// replies.
const walk = `async (strategy, buyers, seed) => {
  const texts = [];
  const moves = [];
  for (let at = seed; moves.length < 24; at = (at * 16807) % 2147483647) {
    const state = await call("/api/schedule", { method: "POST", body: { strategy, buyers, moves: moves.join(".") } });
    texts.push(state.verdict.sentence, ...state.findings.map(({ text }) => text), ...state.players.map(({ says }) => says));
    texts.push(...state.trace.filter(({ kind }) => kind !== "command").map(({ text }) => text));
    if (state.can.length === 0) break;
    moves.push(state.can[at % state.can.length]);
  }
  return texts.map(told);
}`

// schedulesInChinese checks the texts for schedules of each level: of played ones, of those
// that the page shows, and of refused ones.
func schedulesInChinese(t *testing.T, b *pagetest.Tab, site string) {
	levels, err := json.Marshal(lab.Levels())
	if err != nil {
		t.Fatal(err)
	}
	wantTold(t, b, "played schedules", `(await Promise.all(`+string(levels)+`.flatMap((level) => [2, 2, 3].map((buyers, i) => (`+walk+`)(level, buyers, 7 + i))))).flat()`)
	for _, schedule := range []struct {
		strategy string
		moves    []string
	}{{"none", strings.Split("A.B.A.B", ".")}, {"v2_ttl", foreignDelete}, {"v9_cohort", strings.Split("A.A.fA.p3000.B", ".")}} {
		hash := "#/play/" + schedule.strategy + "/" + strings.Join(schedule.moves, ".")
		b.Visit(site, "?lang=zh"+hash, desk)
		b.Until(fmt.Sprintf(`location.hash === %q && document.querySelector(".playstory .event") !== null && document.querySelector("[aria-busy=true]") === null`, hash))
		state := play(t, site, schedule.strategy, schedule.moves)
		want := map[string]int{".standingline": 1, ".says": len(state.Players), ".findings li": len(state.Findings), ".playstory .event:not(.command)": 0}
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
	moves, err := json.Marshal(badSchedules)
	if err != nil {
		t.Fatal(err)
	}
	wantTold(t, b, "refused schedules", `await refusals("/api/schedule", [
	  ...`+string(moves)+`.map((moves) => ({ strategy: "none", buyers: 2, moves })), { strategy: "nobody's", buyers: 2 }, { strategy: "none", buyers: 7 },
	])`)
	b.Visit(site, "?lang=zh#/play/none/A.tA", desk)
	b.Until(`document.querySelector(".standingline.failed") !== null`)
	wantSeen(t, b, ".standingline")
}

// stagesInChinese checks each paragraph and each list item of the package comments.
func stagesInChinese(t *testing.T, b *pagetest.Tab, site string) {
	for _, stage := range get[struct{ Stages []struct{ Name string } }](t, site, "api/stages").Stages {
		b.Visit(site, "?lang=zh#/read/"+stage.Name, desk)
		b.Until(fmt.Sprintf(`document.querySelector(".stageabout h2")?.innerText.startsWith(%q) && document.querySelector(".comment") !== null`, stage.Name))
		wantTold(t, b, "the comment of "+stage.Name, `pieces(".comment").flatMap((comment) => comment.split(/\n(?=\n|  - )/))`)
	}
}

// tellers are the functions that take texts for the user, with the index of the first
// argument that may be such a text.
var tellers = map[string]int{
	"Because": 0, "Need": 1, "Broke": 1, "Note": 1, "fault": 1, "LoseLock": 1, "Verdict": 2, "add": 2, "Trace": 2, "of": 1, "times": 2, "undecided": 0, // of the lab
	"Reply": 3, // of the page
}

// samples are sample values in a sentence for strings that the code composes, by the names of
// functions and variables. The sample for any other name is an actor.
var samples = map[string]string{"ServerNames": "the server", "where": "Redis", "why": "", "missing": "A never had the lock", "text": "its reply is delayed"}

// refusals have texts with varying words, and are checked by badSchedules.
var refusals = []string{"move 3 is A (A)", "A A is named twice", "A A; allowed: A"}

var (
	verb = regexp.MustCompile(`%[+#]?[a-z]`)
	word = regexp.MustCompile(`\b[a-z]{2,}\b`)
)

// sentences collects the texts for the user from the Go files of a directory: the texts with
// a blank among the arguments of tellers, with a sample for each verb, and the texts of errors
// that wrap a known one.
func sentences(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(dir + "/*.go")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	var all []string
	take := func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		first, known := tellers[nameOf(call.Fun)]
		wraps := nameOf(call.Fun) == "Errorf"
		for i, arg := range call.Args {
			format, constant := formatOf(arg)
			rest, wrapping := strings.CutPrefix(format, "%w: ")
			if constant && strings.Contains(rest, " ") && (known && i >= first || wraps && wrapping) {
				all = append(all, sample(rest))
			}
		}
		return true
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, take)
	}
	all = slices.DeleteFunc(all, func(text string) bool { return !word.MatchString(text) })
	slices.Sort(all)
	return slices.Compact(all)
}

// sample replaces each verb of a format with a value.
func sample(format string) string {
	return verb.ReplaceAllStringFunc(format, func(v string) string {
		switch v {
		case "%d":
			return "3"
		case "%w":
			return "sold out"
		}
		return "A"
	})
}

// nameOf returns the last name of an expression such as w.verdict.
func nameOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	case *ast.CallExpr:
		return nameOf(e.Fun)
	}
	return ""
}

// formatOf returns the text that an expression composes, with samples for what is not a
// constant, and reports whether any of it is a constant.
func formatOf(e ast.Expr) (format string, constant bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		if text, err := strconv.Unquote(e.Value); err == nil && e.Kind == token.STRING {
			return text, true
		}
	case *ast.BinaryExpr:
		before, x := formatOf(e.X)
		after, y := formatOf(e.Y)
		return before + after, x || y
	}
	if text, ok := samples[nameOf(e)]; ok {
		return text, false
	}
	return "A", false
}

// formSamples are sample values for the placeholders of a form, by name: numbers are for
// values, of which there are several kinds, text and more for sentences. Values of other
// names are quoted.
var formSamples = []map[string]string{
	{"0": "A", "1": "B", "2": "C", "3": "D", "text": "sold out", "more": "nobody bought", "error": "dial tcp 127.0.0.1:1: connect: connection refused"},
	{"0": "3", "1": "4", "2": "5", "3": "6", "text": "the buyer has left", "more": "is dead", "error": "EOF", "command": "SET lock token-A1 NX PX 3000", "names": "none, local", "offered": "none, local"},
	{"0": "30ms", "1": "4s", "2": "1m0s", "3": "5", "text": "it has no lock", "more": "sold out", "error": "json: unknown field \"moon\"", "names": "A, B and C"},
	{"0": "A and B", "1": "C, D and E", "2": "F", "3": "G", "text": "the reply", "more": "a renewal", "error": "context canceled; it was asked for"},
}

// filled replaces a form's placeholders with the values, translated by told if the value is a
// text that has a translation.
func filled(form string, values, told map[string]string) string {
	return inBraces.ReplaceAllStringFunc(form, func(name string) string {
		name = strings.Trim(name, "{}")
		value, ok := values[name]
		if !ok {
			value = "x" + name + "-7.4" // of which nothing is told
		}
		if translated, ok := told[value]; ok {
			return translated
		}
		return value
	})
}

var inBraces = regexp.MustCompile(`\{\w+\}`)

// A sentence is translated by its own form, even if another form matches it too.
func TestPageTellsEachFormByItself(t *testing.T) {
	b, site := openPage(t)
	b.Visit(site, "?lang=zh#/shop", desk)
	b.Until(`document.querySelector(".buy") !== null`)
	forms := get[map[string]string](t, site, "page/texts/zh.told.json")
	translations := maps.Clone(forms) // and of the values, which have forms themselves
	maps.Copy(translations, map[string]string{"30ms": "30 毫秒", "4s": "4 秒", "1m0s": "1 分钟", "A and B": "A 和 B", "C, D and E": "C、D 和 E"})
	for i, values := range formSamples {
		sentences, want := []string{}, []string{}
		for english, chinese := range forms {
			sentences = append(sentences, filled(english, values, nil))
			want = append(want, filled(chinese, values, translations))
		}
		asked, err := json.Marshal(sentences)
		if err != nil {
			t.Fatal(err)
		}
		for j, got := range resolved[[]string](t, b, string(asked)+`.map(told)`) {
			if got != want[j] {
				t.Errorf("samples %d: %q is told as %q, want %q", i, sentences[j], got, want[j])
			}
		}
	}
}
