//go:build system

package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"oversell/internal/bench/report/page/pagetest"
	"oversell/internal/holds"
	"oversell/internal/stock"
)

// seats is the page's sale with a payment.
type seats struct {
	*pagetest.Tab
	t    *testing.T
	site string
}

// openSeats opens the page's sale with a payment.
func openSeats(t *testing.T, args ...string) *seats {
	b, site := openPage(t, args...)
	b.Visit(site, "?lang=en#/shop/seats", desk)
	b.Until(`document.querySelector(".seatform") !== null`)
	return &seats{b, t, site}
}

// choose selects or types a value.
func (s *seats) choose(id, value string) {
	s.t.Helper()
	if !pagetest.Eval[bool](s.Tab, fmt.Sprintf(`(() => {
	  const input = document.getElementById(%q);
	  input.value = %q;
	  input.dispatchEvent(new Event("change"));
	  return input.value === %[2]q;
	})()`, id, value)) {
		s.t.Fatalf("%s cannot be %s", id, value)
	}
}

// offer puts one unit on sale, which a hold keeps for three seconds.
func (s *seats) offer(stage string) {
	s.t.Helper()
	s.offerFor(stage, "3")
}

// offerFor puts one unit on sale, which a hold keeps for so many seconds.
func (s *seats) offerFor(stage, seconds string) {
	s.t.Helper()
	s.choose("stage", stage)
	s.choose("units", "1")
	s.choose("hold-seconds", seconds)
	before := ""
	if s.onSale() {
		before = s.sale().SaleID
	}
	click(s.Tab, ".seatform button[type=submit]")
	for !s.onSale() || s.sale().SaleID == before {
		s.Until(`true`) // until the test's time is up
	}
	s.Until(`document.querySelector(".unitrows .nothing") !== null && document.querySelector(".a0 .mark.none") !== null && document.querySelector(".a1 .mark.none") !== null`)
}

func (s *seats) onSale() bool {
	return strings.Contains(fmt.Sprint(get[map[string][]string](s.t, s.site, "api/categories")), "seat")
}

func (s *seats) sale() stock.Audit { return get[stock.Audit](s.t, s.site, "api/audit/seat") }

// lane is the selector of something of a buyer: Ann is 0, and Bob is 1.
func lane(buyer int, selector string) string { return fmt.Sprintf(".lane.a%d %s", buyer, selector) }

// act lets a buyer press a button.
func (s *seats) act(buyer int, name string) {
	s.t.Helper()
	click(s.Tab, lane(buyer, fmt.Sprintf(`[data-act=%q]`, name)))
}

// phase waits until a buyer is in one of the phases, and returns it.
func (s *seats) phase(buyer int, phases ...string) string {
	s.t.Helper()
	var any []string
	for _, p := range phases {
		any = append(any, fmt.Sprintf(`document.querySelector(%q) !== null`, lane(buyer, ".mark."+p)))
	}
	idle := fmt.Sprintf(`[...document.querySelectorAll(%q)].some((button) => !button.disabled)`, lane(buyer, "[data-act]"))
	s.Until(fmt.Sprintf(`(%s) && (%s || %s.includes("order"))`, strings.Join(any, " || "), idle, text(lane(buyer, ".mark"))))
	return strings.TrimPrefix(pagetest.Eval[string](s.Tab, fmt.Sprintf(`document.querySelector(%q).className`, lane(buyer, ".mark"))), "mark status ")
}

// payLate lets Ann hold the unit and pay in time, and has the shop stop before it writes the
// order until the hold has run out and its unit is back. It returns the phase in which Ann ends.
func (s *seats) payLate(stage string) string {
	s.t.Helper()
	for {
		s.offer(stage)
		s.choose("lane0-fault", "slow_shop")
		s.choose("lane0-fault-seconds", "4")
		s.act(0, "hold")
		s.phase(0, "held", "expired")
		if pagetest.Eval[bool](s.Tab, fmt.Sprintf(`document.querySelector(%q).disabled`, lane(0, "[data-act=pay]"))) {
			continue
		}
		s.act(0, "pay")
		s.Until(fmt.Sprintf(`%s !== "" && !%[1]s.startsWith("Paying")`, text(lane(0, ".outcome"))))
		switch p := s.phase(0, "order", "refunded", "expired"); {
		case p == "expired": // the machine stalled, and the payment did not begin in time
		case p == "order" && s.sale().Remaining == 0: // no sweep came between the expiry and the order
		default:
			return p
		}
	}
}

// buy lets a buyer hold a unit and pay, as often as it takes.
func (s *seats) buy(buyer int) {
	s.t.Helper()
	for {
		s.act(buyer, "hold")
		s.Until(fmt.Sprintf(`["The unit is held.", "Sold out"].some((told) => %s.startsWith(told))`, text(lane(buyer, ".outcome"))))
		if p := s.phase(buyer, "none", "held", "expired"); p != "held" {
			continue // the sweep has not been there yet
		}
		s.act(buyer, "pay")
		if s.phase(buyer, "order", "expired") == "order" {
			return
		}
	}
}

func (s *seats) figure(name string) string {
	return pagetest.Eval[string](s.Tab, text(fmt.Sprintf(`[data-figure=%q] dd`, name)))
}

// shown is what the page says of a sale in which nothing is under way.
func (s *seats) shown() string {
	return pagetest.Eval[string](s.Tab, `[".onsale", ".a0 .mark", ".a0 .says", ".a1 .mark", ".a1 .says", ".verdict", ".unitrows", ".books"]
	  .map((selector) => document.querySelector(selector).innerText).join("\n")`)
}

// wantSameAfterReload loads the page again.
func (s *seats) wantSameAfterReload() {
	s.t.Helper()
	before := s.shown()
	s.Do(chromedp.Reload())
	s.Until(`document.querySelector(".books dd") !== null && document.querySelector(".a1 .mark.order") !== null`)
	if after := s.shown(); after != before {
		s.t.Errorf("loaded again the page shows\n%s\nbefore it was\n%s", after, before)
	}
}

// Under the naive stages a payment that comes late sells the unit once more, and the page says
// so, as the audit does.
func TestPageShowsThatALatePaymentSellsTwice(t *testing.T) {
	t.Parallel()
	for _, stage := range []string{"h1_counter", "h2_status"} {
		t.Run(stage, func(t *testing.T) {
			t.Parallel()
			s := openSeats(t)
			if p := s.payLate(stage); p != "order" {
				t.Errorf("Ann's phase is %s", p)
			}
			s.buy(1)
			s.Until(text(".verdict") + `.startsWith("✗ Oversold: 2 sold, only 1 in stock.") && document.querySelector(".verdict.bad") !== null`)
			if got := pagetest.Eval[string](s.Tab, text(".verdict")); !strings.Contains(got, "Ann and Bob") {
				t.Errorf("the page says %q", got)
			}
			sale := s.sale()
			if sold, oversold := s.figure("sold"), s.figure("oversold"); sold != fmt.Sprint(sale.Sold) || sold != "2" || oversold != fmt.Sprint(sale.Oversold) || oversold != "1" {
				t.Errorf("the page shows %s sold and %s oversold, the audit is %+v", sold, oversold, sale)
			}
			if !pagetest.Eval[bool](s.Tab, `document.querySelector(".verdict").getBoundingClientRect().bottom < document.querySelector(".lane").getBoundingClientRect().top`) {
				t.Error("the verdict is below the buyers")
			}
			s.wantSameAfterReload()
			pagetest.Eval[bool](s.Tab, `sessionStorage.clear() ?? true`) // as another browser, which had none of the holds
			s.Do(chromedp.Reload())
			s.Until(text(".verdict") + `.startsWith("✗ Oversold")`)
			said, named := pagetest.Eval[string](s.Tab, text(".verdict")), strings.Count(pagetest.Eval[string](s.Tab, text(".unitrows")), "forgotten by the stage") == 0
			if !named && !strings.Contains(said, "2 buyers have an order; the stage has forgotten their names") {
				t.Errorf("without the names the page says %q", said)
			}
			s.Quiet()
		})
	}
}

// Under h3_claim a payment that comes late is refunded, and the next buyer has the unit.
func TestPageShowsThatALatePaymentIsRefunded(t *testing.T) {
	t.Parallel()
	s := openSeats(t)
	if p := s.payLate("h3_claim"); p != "refunded" {
		t.Errorf("Ann's phase is %s", p)
	}
	if got := pagetest.Eval[string](s.Tab, text(lane(0, ".outcome"))); !strings.Contains(got, "refunded") {
		t.Errorf("Ann is told %q", got)
	}
	s.buy(1)
	s.Until(text(".verdict") + `.startsWith("✓ 1 of 1 sold, each once.") && ` + text(".verdict") + `.endsWith("refunded: 1.")`)
	for name, want := range map[string]string{"sold": "1", "oversold": "0", "stranded": "0", "captured": "2", "refunded": "1", "unsettled": "0"} {
		if got := s.figure(name); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
	if got := pagetest.Eval[string](s.Tab, text(".unitrows tbody tr:first-child")); !strings.Contains(got, "Bob") || !strings.Contains(got, "sold") {
		t.Errorf("the unit is of %q, want Bob", got)
	}
	s.wantSameAfterReload()
}

// A countdown runs out where the shop lets the hold end, and a screen reader is told. A buyer who
// pays after that is refused.
func TestPageCountsDownUntilAHoldHasRunOut(t *testing.T) {
	t.Parallel()
	s := openSeats(t)
	s.offer("h3_claim")
	s.act(0, "hold")
	s.Until(`/^[0-3]\.\d s left$/.test(` + text(lane(0, ".countdown")) + `)`)
	s.Until(text("#said") + ` === "The hold of Ann has run out."`)
	if p := s.phase(0, "expired"); p != "expired" {
		t.Errorf("the phase is %s", p)
	}
	if left := pagetest.Eval[string](s.Tab, text(lane(0, ".countdown strong"))); left != "0.0" {
		t.Errorf("%s seconds are left", left)
	}
	s.Until(`document.querySelector(".unitrows [data-status=expired]") !== null`)
	s.Quiet()
	s.act(0, "pay")
	s.Until(text(lane(0, ".outcome")) + `.endsWith("Nothing was charged.")`)
	if charges := s.figure("captured"); charges != "0" {
		t.Errorf("%s charges", charges)
	}
	s.buy(1)
}

// The countdown is by the shop's clock, whatever this browser's is.
func TestPageCountsDownByTheShopsClock(t *testing.T) {
	t.Parallel()
	s := openSeats(t)
	pagetest.Eval[bool](s.Tab, `(() => { const now = Date.now; Date.now = () => now() + 3_600_000; return true; })()`)
	s.offer("h3_claim")
	s.act(0, "hold")
	s.Until(`/^[1-3]\.\d$/.test(` + text(lane(0, ".countdown strong")) + `) && document.querySelector(".a0 .mark.held") !== null`)
	s.phase(0, "expired")
}

// A buyer with a keyboard holds and pays by the Enter key alone.
func TestPageHoldsAndPaysByTheKeyboard(t *testing.T) {
	t.Parallel()
	s := openSeats(t)
	s.offerFor("h3_claim", "600")
	pagetest.Eval[bool](s.Tab, fmt.Sprintf(`document.querySelector(%q).focus() ?? true`, lane(0, "[data-act=hold]")))
	for _, phase := range []string{"held", "order"} {
		s.Do(chromedp.KeyEvent(kb.Enter))
		s.phase(0, phase)
	}
	s.Quiet()
}

// If the shop has a token, it is needed to put units on sale and to see whose they are.
func TestPageAsksForTheTokenOfASale(t *testing.T) {
	t.Parallel()
	s := openSeats(t, "-token", "sesame")
	click(s.Tab, ".seatform button[type=submit]")
	s.Until(text(".seatform .told") + `.includes("token") && document.getElementById("seats-token").checkVisibility()`)
	pagetest.Eval[bool](s.Tab, `(() => {
	  const input = document.getElementById("seats-token");
	  input.value = "sesame";
	  input.dispatchEvent(new Event("input"));
	  return true;
	})()`)
	click(s.Tab, ".seatform button[type=submit]")
	s.act(0, "hold")
	s.phase(0, "held")
}

// holdSeats has a sale with one hold that is paid and one that is not.
func holdSeats(t *testing.T, site string) {
	t.Helper()
	p := &program{addr: strings.TrimSuffix(strings.TrimPrefix(site, "http://"), "/")}
	if code := p.call(t, "PUT", "/api/items/seat", `{"stock":2,"keeper":"holds","category":"demo","hold_seconds":86400}`, new(any)); code != http.StatusOK {
		t.Fatal(code)
	}
	var h holds.Hold
	for _, buyer := range []string{"ann", "bob"} {
		if code := p.call(t, "POST", "/api/items/seat/holds", fmt.Sprintf(`{"buyer":%q,"quantity":1}`, buyer), &h); code != http.StatusCreated {
			t.Fatal(code)
		}
	}
	if code := p.call(t, "POST", "/api/holds/"+h.ID+"/pay", fmt.Sprintf(`{"token":%d}`, h.Token), new(any)); code != http.StatusOK {
		t.Fatal(code)
	}
}
