//go:build system

package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"oversell/internal/bench/report/page/pagetest"
)

// students is a usual class.
const students = 30

// classroom is a shop for a class.
type classroom struct{ site, token string }

func openClass(t *testing.T) (classroom, *program) {
	t.Helper()
	p := start(t, "-class")
	token := regexp.MustCompile(`strategy: (\S+)`).FindStringSubmatch(p.stdout.String())
	if token == nil {
		t.Fatalf("the teacher gets no token:\n%s", &p.stdout)
	}
	return classroom{"http://" + p.addr + "/", token[1]}, p
}

// put changes something, as the teacher does.
func (c classroom) put(t *testing.T, path, body string) {
	t.Helper()
	if status, said := c.send(t, http.MethodPut, path, body, c.token); status != http.StatusOK {
		t.Fatalf("PUT %s: %d %s", path, status, said)
	}
}

func (c classroom) send(t *testing.T, method, path, body, token string) (status int, said string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, c.site+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Error(err)
		return 0, ""
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Error(err)
	}
	return res.StatusCode, string(text)
}

// sell puts ten units on sale with a strategy.
func (c classroom) sell(t *testing.T, strategy string, work time.Duration) {
	t.Helper()
	c.put(t, "api/strategy", fmt.Sprintf(`{"name":%q}`, strategy))
	c.put(t, "api/class", fmt.Sprintf(`{"work_ms":%d}`, work.Milliseconds()))
	c.put(t, "api/items/hot", `{"stock":10}`)
}

// everybody buys one unit: each student some time after the teacher says so.
func (c classroom) everybody(t *testing.T, within time.Duration) {
	t.Helper()
	var buying sync.WaitGroup
	for range students {
		buying.Go(func() {
			if within > 0 {
				time.Sleep(rand.N(within))
			}
			c.send(t, http.MethodPost, "api/items/hot/deduct", `{"quantity":1}`, "")
		})
	}
	buying.Wait()
}

type classAudit struct{ Sold, Oversold, Remaining int64 }

// Thirty students press within a little more than a holder's work. Without a lock the class
// oversells every time, and with one it never does. The times are a tenth of the usual ones.
func TestClassOversellsWithoutALock(t *testing.T) {
	t.Parallel()
	c, p := openClass(t)
	for round := range 20 {
		c.sell(t, "none", 150*time.Millisecond)
		c.everybody(t, 200*time.Millisecond)
		if a := get[classAudit](t, c.site, "api/audit/hot"); a.Oversold == 0 {
			t.Errorf("round %d: none sold %d of 10 units", round, a.Sold)
		}
	}
	state := get[struct {
		Most   int `json:"most_inside"`
		Inside int
	}](t, c.site, "api/class")
	if state.Most < 2 || state.Inside != 0 {
		t.Errorf("without a lock at most %d were inside, and %d still are", state.Most, state.Inside)
	}

	c.sell(t, "v9_cohort", 10*time.Millisecond)
	c.everybody(t, 0)
	if a := get[classAudit](t, c.site, "api/audit/hot"); a.Sold != 10 || a.Oversold != 0 {
		t.Errorf("v9_cohort sold %d of 10 units", a.Sold)
	}
	p.stop()
	if code := <-p.code; code != exitOK {
		t.Errorf("exit code %d, want %d", code, exitOK)
	}
}

// Students can buy, and nothing else.
func TestClassIsChangedByTheTeacherAlone(t *testing.T) {
	t.Parallel()
	c, _ := openClass(t)
	for path, body := range map[string]string{"api/class": `{"work_ms":0}`, "api/items/hot": `{"stock":99}`, "api/strategy": `{"name":"v1_setnx"}`} {
		if status, said := c.send(t, http.MethodPut, path, body, ""); status != http.StatusUnauthorized {
			t.Errorf("PUT %s without a token: %d %s", path, status, said)
		}
	}
	for path, body := range map[string]string{
		"deduct": `{"quantity":2}`, "deduct?strategy=v9_cohort": `{"quantity":1}`,
		"holds": `{"buyer":"ann","quantity":2}`, "holds?strategy=h2": `{"buyer":"ann","quantity":1}`,
	} {
		if status, said := c.send(t, http.MethodPost, "api/items/hot/"+path, body, ""); status != http.StatusForbidden {
			t.Errorf("a buyer with %s %s: %d %s", path, body, status, said)
		}
	}
	for body, want := range map[string]int{`{"work_ms":10001}`: 400, `{"work_ms":-1}`: 400, `{}`: 400, `{"work":5}`: 400, `{"work_ms":10000}`: 200} {
		if status, said := c.send(t, http.MethodPut, "api/class", body, c.token); status != want {
			t.Errorf("PUT %s: %d %s, want %d", body, status, said, want)
		}
	}
}

// A shop without -class says so.
func TestShopWithoutAClass(t *testing.T) {
	t.Parallel()
	p := start(t)
	if got := get[map[string]any](t, "http://"+p.addr+"/", "api/class"); fmt.Sprint(got) != "map[open:false]" {
		t.Errorf("got %v", got)
	}
}

// The projector shows the way in, that two holders are inside, and what was oversold. A phone
// forgets its order when a new sale begins.
func TestPageShowsTheClass(t *testing.T) {
	t.Parallel()
	phone := pagetest.New(t)
	b, site := openPage(t, "-class", "-token", "sesame")
	c := classroom{site, "sesame"}
	b.Visit(site, "?lang=en#/shop/class", desk)
	b.Until(`document.querySelector(".qr")?.naturalWidth > 0`)
	if got := pagetest.Eval[string](b, text(".address")); !strings.HasSuffix(got, "/#/shop") || !strings.HasPrefix(got, "127.0.0.1:") {
		t.Errorf("the phones are sent to %q", got)
	}
	set := func(selector, value string) {
		t.Helper()
		pagetest.Eval[bool](b, fmt.Sprintf(`(() => {
		  const field = document.querySelector(%q);
		  field.value = %q;
		  field.dispatchEvent(new Event("input", { bubbles: true }));
		  return true;
		})()`, selector, value))
	}
	set("#class-work", "300")
	set("#class-units", "3")
	set("#class-secret", "sesame")
	click(b, ".teacher button[type=submit]")
	b.Until(text(".left dd") + ` === "3" && document.querySelectorAll(".squares i").length === 3`)

	phone.Visit(site, "?lang=en#/shop", pagetest.Look{Width: 400, Height: 800, Scheme: "light"})
	phone.Until(text("#left") + ` === "3"`)
	click(phone, ".buy")
	phone.Until(text(".outcome") + `.startsWith("Bought 1")`)
	if shown := pagetest.Eval[bool](phone, `document.querySelector(".behind").checkVisibility()`); shown {
		t.Error("a phone shows what is behind the counter")
	}
	c.everybody(t, 0)
	b.Until(`document.querySelectorAll(".squares .over").length > 0 && document.querySelector(".scene .verdict.bad") !== null`)
	if got := pagetest.Eval[string](b, text(".scene .verdict")); !strings.HasSuffix(got, "too many.") {
		t.Errorf("the verdict is %q", got)
	}
	phone.Until(text("[role=alert].outcome") + `.includes("Not everybody who paid gets one")`)

	click(b, ".teacher button[type=submit]")
	b.Until(`document.querySelectorAll(".squares .over").length === 0`)
	phone.Until(text("#left") + ` === "3" && ` + text(".outcome") + ` === "" && !document.querySelector("[role=alert].outcome").checkVisibility() && document.querySelectorAll("tbody code").length === 0`)
	b.Quiet()
	phone.Quiet()
}

// The arrow keys lead through the lesson. What each step shows is there, and each exercise has its
// answer.
func TestPageTeaches(t *testing.T) {
	t.Parallel()
	b, site := openLab(t)
	b.Visit(site, "?lang=en#/teach", desk)
	b.Until(`document.querySelectorAll(".lessons a").length === 9`)
	const current = `document.querySelector(".lessons [aria-current]")`
	for i := range 9 {
		b.Until(fmt.Sprintf(`%s.dataset.step === "%d" && %s === %[1]s.textContent`, current, i, text(".lesson h2")))
		shown := pagetest.Eval[string](b, `document.querySelector(".lesson p a").getAttribute("href")`)
		if cell, ok := strings.CutPrefix(shown, "#/break/"); ok {
			if got := get[map[string]any](t, site, "api/lab/"+cell); len(got) == 0 {
				t.Errorf("step %d shows %s, which is not there", i, shown)
			}
		}
		answers := pagetest.Eval[string](b, `[...document.querySelectorAll(".lesson details")].map((d) => d.textContent).join(" ")`)
		if n := pagetest.Eval[int](b, `document.querySelectorAll(".lesson details").length`); n != 2 && i < 8 {
			t.Errorf("step %d has %d answers, want one of the question and one of the exercise", i, n)
		}
		if strings.Contains(answers, "undefined") || strings.Contains(answers, "teach.") {
			t.Errorf("step %d: %s", i, answers)
		}
		pagetest.Eval[bool](b, `document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight", bubbles: true }))`)
	}
	b.Quiet()
}

// Nothing keeps the browser busy for more than 100 ms while the lesson is stepped through.
func TestTeachKeepsTheBrowserFree(t *testing.T) {
	b, site := openPage(t)
	const current = `document.querySelector(".lessons [aria-current]")?.dataset.step`
	keepsFree(t, 100*time.Millisecond, func(query string) time.Duration {
		return b.LongestTask(func() {
			b.Visit(site, query+"#/teach", desk)
			for step := range 9 {
				b.Until(fmt.Sprintf(`%s === "%d"`, current, step))
				pagetest.Eval[bool](b, `document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight", bubbles: true }))`)
			}
		})
	})
	b.Quiet()
}

// On a projector no text is smaller than 20 pixels, and what a class looks at is in sight: the
// stage, the lanes of a cell, the board, and the way to the other parts.
func TestPageIsLargeOnAProjector(t *testing.T) {
	t.Parallel()
	site := openShop(t)
	waitForLab(t, site)
	begin(t, site, `{"strategies":["v1_setnx","v9_cohort"],"conditions":["crash"],"requests":1000,"stock":100}`)
	finished(t, site)
	const whole = `(({ top, bottom }) => top >= 0 && bottom <= innerHeight)(document.querySelector(%q).getBoundingClientRect())`
	const lines = `(() => {
	  const bottom = (node) => node.getBoundingClientRect().bottom;
	  const [from, to] = [bottom(document.querySelector(".heads")), bottom(document.querySelector(".cell .stage"))];
	  const inside = (row) => (({ top, bottom }) => top >= from && bottom <= to)(row.getBoundingClientRect());
	  return to <= innerHeight && [...document.querySelectorAll(".lanes .row")].filter(inside).length >= 5;
	})()`
	const navigation = `[...document.querySelectorAll(".parts a")].every((link) => link.checkVisibility() && link.getBoundingClientRect().right <= innerWidth)`
	for path, part := range map[string]struct{ ready, seen string }{
		"#/teach/uuid":                   {".lesson h2", fmt.Sprintf(whole, ".question")},
		"#/shop":                         {".buy", fmt.Sprintf(whole, ".buy")},
		"#/run":                          {".lane .invariant.broken", fmt.Sprintf(whole, ".live")},
		"#/break":                        {".matrix", fmt.Sprintf(whole, ".matrix tr:has(a.square)")},
		"#/read/v4_lua":                  {".diff", fmt.Sprintf(whole, ".diff .added")},
		"#/play/v2_ttl/A":                {".lanes .row", fmt.Sprintf(whole, ".gameboard")},
		"#/play/v3_uuid/A.A.A.p3000.B.A": {".lanes .row", fmt.Sprintf(whole, ".gameboard")},
		"#/break/check-then-delete/v3_uuid?step=5": {".lanes .row", lines},
	} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			b := pagetest.New(t)
			for _, size := range []pagetest.Look{{Width: 1280, Height: 720, Scheme: "light"}, {Width: 1920, Height: 1080, Scheme: "light"}} {
				b.Visit(site, fmt.Sprintf("?lang=en&%d%s", size.Width, path), size)
				b.Until(fmt.Sprintf(`document.querySelector(%q) !== null`, part.ready))
				pagetest.Eval[bool](b, `document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "f", bubbles: true }))`)
				b.Until(`"present" in document.documentElement.dataset`)
				for _, seen := range []string{part.seen, navigation} {
					if err := pagetest.Wait(b.Context, seen); err != nil {
						t.Errorf("at %d pixels: %s: %v", size.Width, seen, err)
					}
				}
				if err := pagetest.Wait(b.Context, smallTexts+".length === 0"); err != nil { // pictures are drawn again a moment later
					t.Errorf("at %d pixels it has smaller text: %v, %v", size.Width, pagetest.Eval[[]string](b, smallTexts), err)
				}
				pagetest.Eval[bool](b, `document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "F", bubbles: true }))`)
				b.Until(`!("present" in document.documentElement.dataset)`)
			}
			pagetest.Eval[bool](b, `document.body.dispatchEvent(new Event("keydown", { bubbles: true }))`) // as autofill does, without a key
			b.Quiet()
		})
	}
}

// smallTexts are the texts that are smaller than 20 pixels.
const smallTexts = `(() => {
  const found = new Set();
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const node = walk.currentNode.parentElement;
    if (!walk.currentNode.textContent.trim() || !node.checkVisibility() || node.closest(".unseen, script, noscript")) continue;
    const drawn = node.getScreenCTM?.().a ?? 1; // a picture may be enlarged as a whole
    const size = parseFloat(getComputedStyle(node).fontSize) * drawn;
    if (size < 20) found.add(node.getAttribute("class") + " " + node.tagName + ": " + size);
  }
  return [...found];
})()`
