//go:build system

package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"oversell/internal/bench/report/page/pagetest"
	"oversell/internal/lab"
	"oversell/internal/lab/search"
)

// screen is a small laptop, or a projector.
var screen = pagetest.Look{Width: 1280, Height: 720, Scheme: "light"}

// choose makes a move by its button, and waits until the page shows what it led to.
func choose(b *pagetest.Tab, move string) {
	selector := fmt.Sprintf(`[data-focus=%q]`, move)
	if strings.HasPrefix(move, "p") {
		selector = `.time [data-focus*="3,000"]` // by a lease
	}
	before := pagetest.Eval[string](b, `location.hash`)
	click(b, selector)
	b.Until(fmt.Sprintf(`location.hash !== %q && document.querySelector(".gameboard").getAttribute("aria-busy") === "false"`, before))
}

// recordOf is what a search has found of a level.
func recordOf(t *testing.T, level lab.Level) search.Result {
	t.Helper()
	r, err := search.Recorded()
	if err != nil {
		t.Fatal(err)
	}
	found, ok := r.Find(level.Strategy, 2)
	if !ok {
		t.Fatalf("%s is not on record", level.Strategy)
	}
	return found
}

const (
	won = `document.querySelector(".goalcard.won") !== null`

	// outside are the parts of the game that do not fit on the screen.
	outside = `[...document.querySelectorAll(".gamebar, .goalcard, .playtools, .gameboard, .gameboard button")]
	  .filter((node) => node.getBoundingClientRect().bottom > innerHeight || node.getBoundingClientRect().top < 0)
	  .map((node) => node.className).join(", ")`

	// outsideObject are the locks and units whose text is wider than they are, or which leave their buyer's panel.
	outsideObject = `[...document.querySelectorAll(".object")].filter((node) => {
	  const [own, text, panel] = [node, node.lastChild, node.closest(".panel")].map((n) => n.getBoundingClientRect());
	  return text.right > own.right + 1 || own.right > panel.right + 1 || text.bottom > own.bottom + 1;
	}).map((node) => node.textContent).join(", ")`
)

// Each level is won by its own goal, at the last move of the shortest schedule and not
// before, and leads to the next one. The goal of v8 is impossible, and is won by saying so.
// All that is needed stays on the screen.
func TestEachLevelIsWonByItsGoal(t *testing.T) {
	t.Parallel()
	b, site := openPage(t)
	b.Visit(site, "#/play", screen)
	for i, level := range lab.Game() {
		b.Until(fmt.Sprintf(`%s.startsWith("Level %d:") && document.querySelector(".gameboard .step") !== null`, text(".goalcard h2"), i+1))
		result := recordOf(t, level)
		schedule, possible := result.Breaks[level.Goal]
		if !possible {
			click(b, `.helpers button:last-child`)
			b.Until(won + fmt.Sprintf(` && %s.includes(%q)`, text(".standingline"), thousands(result.States)+" states"))
		} else {
			for n, move := range strings.Split(schedule, ".") {
				if n > 0 && pagetest.Eval[bool](b, won) {
					t.Errorf("%s is won after %d moves of %s", level.Strategy, n, schedule)
				}
				choose(b, move)
			}
			if red := pagetest.Eval[int](b, `document.querySelectorAll(".lanes .row.break, .findings li").length`); red == 0 {
				t.Errorf("%s: the picture does not show what went wrong", level.Strategy)
			}
			if said := pagetest.Eval[string](b, text(".standingline")); !pagetest.Eval[bool](b, won) || !strings.Contains(said, fmt.Sprintf("the best known: %d", search.MovesOf(schedule))) {
				t.Fatalf("%s by %s: the page says %q", level.Strategy, schedule, said)
			}
		}
		if alarms := pagetest.Eval[int](b, `document.querySelectorAll(".goalcard .alarm, .goalcard .breaks").length`); alarms > 0 {
			t.Errorf("%s: to win looks like an error", level.Strategy)
		}
		if stars := pagetest.Eval[int](b, `document.querySelectorAll(".levels .won").length`); stars != i+1 {
			t.Errorf("%s: %d levels have a star, want %d", level.Strategy, stars, i+1)
		}
		if parts := pagetest.Eval[string](b, outside); parts != "" {
			t.Errorf("%s, won: %s do not fit on the screen", level.Strategy, parts)
		}
		b.Keep("level-" + level.Strategy)
		if i+1 < len(lab.Game()) {
			click(b, `.next`)
		}
	}
	b.Do(chromedp.Reload())
	b.Until(fmt.Sprintf(`document.querySelectorAll(".levels .won").length === %d`, len(lab.Game())))
	b.Quiet()
}

// thousands writes a number as the page does in English.
func thousands(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", thousands(n/1000), n%1000)
}

// What a level is not about does not win it, and the page says that it happened. A goal that
// can be reached is not called impossible. Hints are given one by one, and then the shortest
// schedule, which earns no star.
func TestLevelIsNotWonByAnotherGoal(t *testing.T) {
	t.Parallel()
	b, site := openPage(t)
	b.Visit(site, "#/play/v2_ttl/A.A.p3000.B.B.A.B", screen)
	b.Until(`document.querySelector(".also") !== null`)
	if said := pagetest.Eval[string](b, text(".goalcard")); pagetest.Eval[bool](b, won) || !strings.Contains(said, "more is sold than there is") {
		t.Errorf("of another goal the page says %q", said)
	}
	click(b, `.helpers button:last-child`)
	b.Until(text(".standingline") + `.includes("It is possible: the shortest schedule has 5 moves")`)
	for n := range 2 {
		click(b, `.helpers button:first-child`)
		b.Until(fmt.Sprintf(`document.querySelectorAll(".hints li").length === %d`, n+1))
	}
	click(b, `.helpers button:first-child`)
	b.Until(won + fmt.Sprintf(` && location.hash === "#/play/v2_ttl/%s"`, recordOf(t, lab.Level{Strategy: "v2_ttl"}).Breaks[lab.GoalForeignDelete]))
	if stars := pagetest.Eval[int](b, `document.querySelectorAll(".levels .won").length`); stars > 0 {
		t.Error("who was shown the schedule has won the level")
	}
	b.Quiet()
}

// A level that is won without a fault offers none. A link to a schedule with one shows what it
// leads to, and says why that does not win.
func TestFaultlessLevel(t *testing.T) {
	t.Parallel()
	b, site := openPage(t)
	const faults = `[...document.querySelectorAll(".gameboard [data-focus]")].filter((button) => /^[fkl]/.test(button.dataset.focus) && !button.disabled).length`
	b.Visit(site, "#/play/v6_watchdog/A", screen)
	b.Until(`document.querySelector('.gameboard [data-focus="fA"]') !== null`)
	if n := pagetest.Eval[int](b, faults); n < 3 {
		t.Errorf("v6 offers %d faults", n)
	}
	b.Visit(site, "#/play/v5_reentrant/A", screen)
	b.Until(`document.querySelector('.gameboard [data-focus="fA"]') !== null && location.hash === "#/play/v5_reentrant/A"`)
	b.Until(text(".goalcard .goal") + `.includes("with no fault")`)
	if n := pagetest.Eval[int](b, faults); n > 0 {
		t.Errorf("v5 offers %d faults", n)
	}
	b.Visit(site, "#/play/v5_reentrant/A.A.fA.p3000.B.B.B.tA.A", screen)
	b.Until(text(".standingline") + `.includes("This schedule has a fault")`)
	if pagetest.Eval[bool](b, won) || !strings.Contains(pagetest.Eval[string](b, text(".standingline")), "nits sold: 2 of 1") {
		t.Errorf("of a schedule with a fault v5 says %q", pagetest.Eval[string](b, text(".goalcard")))
	}
	if parts := pagetest.Eval[string](b, outside); parts != "" {
		t.Errorf("%s do not fit on the screen", parts)
	}
	b.Keep("faultless-en")
	b.Quiet()
}

// On a projector the whole board is on the screen at every level, also when it is won, with three
// buyers, and while a long command of a script is next.
func TestBoardFitsAProjector(t *testing.T) {
	t.Parallel()
	b, site := openPage(t)
	b.Visit(site, "#/play", screen)
	b.Until(`document.querySelector(".gameboard .step") !== null`)
	b.Do(chromedp.KeyEvent("f"))
	for _, level := range lab.Game() {
		addresses := []string{level.Strategy, level.Strategy + "/A.A", level.Strategy + "/A.A?buyers=3", level.Strategy + "/A.A.p3000.B"}
		if moves := recordOf(t, level).Breaks[level.Goal]; moves != "" {
			addresses = append(addresses, level.Strategy+"/"+moves, level.Strategy+"/"+moves+"?buyers=3")
		}
		for _, address := range addresses {
			pagetest.Eval[string](b, fmt.Sprintf(`location.hash = "#/play/%s"`, address))
			b.Until(fmt.Sprintf(`document.title.includes(%q) && document.querySelector(".gameboard .step, .gameboard .act") !== null && document.querySelector(".gameboard").getAttribute("aria-busy") === "false"`, level.Strategy))
			pagetest.Eval[bool](b, `document.getAnimations().forEach((a) => a.finish()) ?? true`) // of what glides
			if parts := pagetest.Eval[string](b, outsideObject); parts != "" {
				t.Errorf("%s: the text of %s leaves its box", address, parts)
			}
			if parts := pagetest.Eval[string](b, outside); parts != "" {
				t.Errorf("%s: %s do not fit on the screen", address, parts)
			}
		}
	}
	b.Keep("projector-board")
	b.Quiet()
}

// The lock and the units are where the engine says that they are.
func TestObjectsChangeHands(t *testing.T) {
	t.Parallel()
	b, site := openPage(t)
	const seen = `[".a0", ".shopdesk", ".a1"].map((place) =>
	  [...document.querySelectorAll(place + " .object")].map((o) => o.className.replace("object ", "").trim()).join("+")).join(" | ")`
	for _, tt := range []struct{ hash, want string }{
		{"none/", " | unit unit | "},
		{"none/A.B.A.B", "unit unit |  | unit extra"},
		{"v2_ttl/", " | unit unit+lock free | "},
		{"v2_ttl/A", "lock | unit unit | "},
		{"v2_ttl/A.p3000", "lock lost | unit unit+lock free | "},
		{"v2_ttl/A.p3000.B", "lock lost | unit unit | lock"},
		{"v2_ttl/A.A.A.p3000.B", "unit unit |  | lock"},
	} {
		b.Visit(site, "#/play/"+tt.hash, screen)
		b.Until(fmt.Sprintf(`%s === %q`, seen, tt.want))
	}
	b.Quiet()
}

// A replay that another one replaces, while it waits for a reply, makes no moves in the other.
func TestOneScheduleIsReplayedAtATime(t *testing.T) {
	t.Parallel()
	b, site := openPage(t)
	b.Visit(site, "#/play/none", screen)
	b.Until(`document.querySelector(".gameboard .step") !== null`)
	pagetest.Eval[bool](b, `(() => {
	  const send = window.fetch;
	  window.asked = [];
	  window.fetch = async (path, request) => {
	    if (path === "/api/schedule" && window.asked.push(JSON.parse(request.body)) === 1) {
	      await new Promise((done) => window.release = done);
	    }
	    return send(path, request);
	  };
	  return true;
	})()`)
	const first, second = "A.lA.p3000.B.A", "lA.A.p3000.B.A"
	click(b, fmt.Sprintf(`a[href="#/play/v2_ttl/%s"]`, first))
	b.Until(`window.release !== undefined`)
	click(b, fmt.Sprintf(`a[href="#/play/v3_uuid/%s"]`, second))
	b.Until(`window.asked.length > 1`)
	pagetest.Eval[bool](b, `window.release() ?? true`)
	b.Until(won + fmt.Sprintf(` && location.hash === "#/play/v3_uuid/%s"`, second))
	for _, asked := range pagetest.Eval[[]struct{ Strategy, Moves string }](b, `window.asked`) {
		if asked.Strategy == "v3_uuid" && !strings.HasPrefix(second, asked.Moves) {
			t.Errorf("%s is played for v3_uuid, want the start of %s", asked.Moves, second)
		}
	}
	b.Quiet()
}
