package main

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"oversell/internal/bench/page/pagetest"
	"oversell/internal/lab"
)

// untold evaluates an expression in the page, which may use what helpers declare, and
// reports each text that it comes to, for they are not told in Chinese.
func untold(t *testing.T, b *pagetest.Tab, expression string) {
	t.Helper()
	const helpers = `
	  const { told } = await import("/page/text.js");
	  const { call } = await import("/page/api.js");
	  const { fetchStory } = await import("/page/cell.js");
	  const chinese = (text) => /\p{Script=Han}/u.test(text);
	  const shown = (selector) => [...document.querySelectorAll(selector)].map((node) => node.innerText);`
	pagetest.Eval[bool](b, `(() => {
	  window.untold = undefined;
	  (async () => {`+helpers+`
	    return [...new Set((`+expression+`).filter((text) => !chinese(text)))];
	  })().catch((error) => [String(error.stack)]).then((texts) => { window.untold = texts; });
	  return true;
	})()`)
	b.Until(`window.untold !== undefined`)
	for _, text := range pagetest.Eval[[]string](b, `window.untold`) {
		t.Errorf("not told in Chinese: %s", text)
	}
}

// In Chinese the page shows nothing in English but what is not prose: commands, their
// replies, errors as programs return them, keys, code and names.
func TestPageTellsEverythingInChinese(t *testing.T) {
	b, site := openPage(t)
	waitForLab(t, site)
	b.Visit(site, "?lang=zh#/break", desk)
	b.Until(`document.querySelector(".matrix") !== null`)

	// Each cell of the matrix as the page has it: why it came out as it did, where it
	// happened for real unless that is a mere reference, and its timeline.
	untold(t, b, `await (async () => {
	  const { cells, anomalies, manifest } = await call("/api/lab");
	  const texts = [...shown(".matrix .sentence"), ...[...document.querySelectorAll("a.mark")].map((mark) => mark.title), told(manifest.redis)];
	  texts.push(...anomalies.map(({ source }) => source).filter((source) => told(source) === source && / [a-z]+ /.test(source)));
	  const rows = (await Promise.all(cells.map((cell) => fetchStory(cell)))).flatMap((story) => story.rows);
	  for (const { kind, text, short, reply, again, left } of rows) {
	    if (kind !== "command") texts.push(text, short ?? text);
	    texts.push(...[again, left].filter((words) => /[a-z]/.test(words ?? "")));
	    if (reply?.startsWith("(")) texts.push(reply);
	  }
	  return texts;
	})()`)

	// What was not told this time, as the sources have it.
	var all []string
	for _, dir := range []string{"lab", "runs", "page"} {
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
	untold(t, b, string(texts)+`.map((text) => chinese(told(text)) ? told(text) : text)`)

	b.Quiet() // a refusal is told on the console, too
	untold(t, b, `(await Promise.all([
	  { strategies: ["nobody's"] }, { strategies: ["none", "none"] }, { conditions: ["storm"] }, { conditions: ["calm", "calm"] },
	  { backend: "moon" }, { keeper: "moon" }, { keeper: "database", strategies: ["lua_atomic"] }, { requests: 0 }, { strategies: [] }, { instances: 4, requests: 3 },
	  { conditions: ["crash"], instances: 1 }, { moon: 1 }, { stock: "many" },
	].map((body) => call("/api/runs", { method: "POST", body }).then(() => "it was started", (error) => error.message))))`)

	t.Run("schedules", func(t *testing.T) { schedulesInChinese(t, b, site) })
	t.Run("stages", func(t *testing.T) { stagesInChinese(t, b, site) })
}

// badSchedules cannot be played: each for a reason of its own.
var badSchedules = []string{
	"x", "C", "A9", "A.A2", "tA", "A.tA", "A.fA.A", "A.fA.fA", "A.kA.A", "fA", strings.Repeat("A.", lab.MaxMoves) + "A",
	strings.Repeat("p60000.", 5) + "p60000", "A.B.A.B.A", "A.A.fA",
}

// walk plays a level on, each time by one of the moves that are possible, and returns
// all that it is told.
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
  return texts.map((text) => (chinese(told(text)) ? told(text) : text));
}`

// schedulesInChinese plays schedules of each level, looks at what the page says of
// some, and is refused others.
func schedulesInChinese(t *testing.T, b *pagetest.Tab, site string) {
	levels, err := json.Marshal(lab.Levels())
	if err != nil {
		t.Fatal(err)
	}
	untold(t, b, `(await Promise.all(`+string(levels)+`.flatMap((level) => [2, 2, 3].map((buyers, i) => (`+walk+`)(level, buyers, 7 + i))))).flat()`)
	for _, address := range []string{"none/A.B.A.B", "v2_ttl/" + strings.Join(foreignDelete, "."), "v8_fenced/A.A.fA.p3000.B"} {
		hash := "#/play/" + address
		b.Visit(site, "?lang=zh"+hash, desk)
		b.Until(fmt.Sprintf(`location.hash === %q && document.querySelector(".playstory .event") !== null && document.querySelector("[aria-busy=true]") === null`, hash))
		untold(t, b, `shown(".standingline, .says, .findings li, .playstory .event:not(.command)")`)
	}
	moves, err := json.Marshal(badSchedules)
	if err != nil {
		t.Fatal(err)
	}
	untold(t, b, `(await Promise.all([
	  ...`+string(moves)+`.map((moves) => ({ strategy: "none", buyers: 2, moves })), { strategy: "nobody's", buyers: 2 }, { strategy: "none", buyers: 7 },
	].map((body) => call("/api/schedule", { method: "POST", body }).then(() => "it was played: " + body.moves, (error) => error.message))))`)
	b.Visit(site, "?lang=zh#/play/none/A.tA", desk)
	b.Until(`document.querySelector(".standingline.failed") !== null`)
	untold(t, b, `shown(".standingline").map((text) => text.replace(/^[^：]*：/, ""))`)
}

// stagesInChinese looks at each paragraph and each item of the package comments.
func stagesInChinese(t *testing.T, b *pagetest.Tab, site string) {
	for _, stage := range get[struct{ Stages []struct{ Name string } }](t, site, "api/stages").Stages {
		b.Visit(site, "?lang=zh#/read/"+stage.Name, desk)
		b.Until(fmt.Sprintf(`document.querySelector(".stageabout h2")?.innerText.startsWith(%q) && document.querySelector(".comment") !== null`, stage.Name))
		untold(t, b, `shown(".comment").flatMap((comment) => comment.split(/\n(?=\n|  - )/))`)
	}
}

// tellers are the functions that tell something, and which of their arguments is the
// first that may be told.
var tellers = map[string]int{
	"holds": 0, "breaks": 0, "na": 0, "unknown": 0, "need": 1, "broke": 1, "Note": 1, "fault": 1, "loseKey": 1, "verdict": 2, "add": 2, // of the lab
	"Reply": 3, // of the page
}

// samples stand in a sentence for what is put together of several: by the names of
// functions and variables. Others are an actor.
var samples = map[string]string{"servers": "the server", "where": "Redis", "why": ""}

// refusals are told with a word or more of their own, and asked for above.
var refusals = []string{"move 3 is A (A)", "A A is named twice", "A A; allowed: A"}

var (
	verb = regexp.MustCompile(`%[+#]?[a-z]`)
	word = regexp.MustCompile(`\b[a-z]{2,}\b`)
)

// sentences collects what the Go files of a directory tell: the texts with a blank that
// their functions are given to tell, with a value for each verb, and those of errors
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

// sample puts a value for each verb of a format.
func sample(format string) string {
	return verb.ReplaceAllStringFunc(format, func(verb string) string {
		switch verb {
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

// formatOf returns the text that an expression puts together, with samples for what is
// no constant, and whether any of it is one.
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
