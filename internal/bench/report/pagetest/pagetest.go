// Package pagetest opens pages as a user would: in a browser, from disk, with the network off.
package pagetest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"oversell/internal/backend/backendtest"
)

// timeout ends a browser test that hangs.
const timeout = 10 * time.Minute

// browsers lists the names of Chromium's executable.
var browsers = []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"}

// Tab is a tab of a headless Chromium that cannot reach the network. It records the errors that the
// page reports.
type Tab struct {
	Context context.Context // for chromedp
	t       *testing.T
	opened  int // number of opened pages

	mu         sync.Mutex
	sites      []string // the page may send requests to them
	complaints []string
	requests   []string
}

// New opens a tab that shares no state with other tabs, in a browser that all tests of a package
// share. If there is no browser, the test is skipped, or fails if CI=true. TestMain must call Close.
func New(t *testing.T) *Tab {
	t.Helper()
	path := browser(t)
	shared.once.Do(func() { shared.err = start(path) })
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	ctx, cancel := context.WithTimeout(shared.ctx, timeout)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx, chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	b := &Tab{t: t, Context: ctx}
	if err := chromedp.Listen(ctx, b.listen); err != nil {
		t.Fatal(err)
	}
	return b
}

func browser(t *testing.T) string {
	t.Helper()
	backendtest.System(t)
	for _, name := range browsers {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	const why = "no Chromium in the PATH (Debian, Ubuntu: apt-get install chromium)"
	if os.Getenv("CI") == "true" {
		t.Fatal(why)
	}
	t.Skip(why)
	return ""
}

// listen records events that must not happen: errors, and requests to other sites.
func (b *Tab) listen(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *log.EventEntryAdded:
		b.complaints = append(b.complaints, strings.TrimSpace(string(e.Entry.Level)+": "+e.Entry.Text+" "+e.Entry.URL))
	case *runtime.EventExceptionThrown:
		b.complaints = append(b.complaints, e.ExceptionDetails.Text)
	case *runtime.EventConsoleAPICalled:
		b.complaints = append(b.complaints, "console."+string(e.Type))
	case *network.EventRequestWillBeSent:
		allowed := append([]string{"file:", "data:", "blob:"}, b.sites...)
		u := e.Request.URL
		if !slices.ContainsFunc(allowed, func(prefix string) bool { return strings.HasPrefix(u, prefix) }) {
			b.requests = append(b.requests, u)
		}
	}
}

// Quiet fails the test if the page reported an error or made a forbidden request.
func (b *Tab) Quiet() {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.complaints) > 0 {
		b.t.Errorf("the console says: %q", b.complaints)
	}
	if len(b.requests) > 0 {
		b.t.Errorf("requests: %q", b.requests)
	}
}

// Do runs actions in the tab.
func (b *Tab) Do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.Context, actions...); err != nil {
		b.t.Fatal(err)
	}
}

func call[P, R any](b *Tab, command cdp.Command[P, R], params P) {
	b.t.Helper()
	if _, err := chromedp.Call(b.Context, command, params); err != nil {
		b.t.Fatal(err)
	}
}

// Look describes how to show a page.
type Look struct {
	Width, Height int64
	Scheme        string // of colours: light or dark
}

// Open opens a file with the network off. Hash is the part of its address that begins with #, or
// "".
func (b *Tab) Open(file, hash string, l Look) {
	b.t.Helper()
	call(b, network.EmulateNetworkConditionsByRule, network.EmulateNetworkConditionsByRuleParams{
		MatchedNetworkConditions: []*network.Conditions{{Offline: true}},
	})
	call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: l.Scheme}},
	})
	b.opened++ // a new query, so that the page is loaded again
	u := url.URL{Scheme: "file", Path: filepath.ToSlash(file), RawQuery: fmt.Sprint(b.opened)}
	b.Do(chromedp.EmulateViewport(l.Width, l.Height), chromedp.Navigate(u.String()+hash))
}

// Eval returns the value of an expression in the page.
func Eval[T any](b *Tab, expression string) T {
	b.t.Helper()
	out, err := chromedp.Run(b.Context, chromedp.Evaluate[T](expression))
	if err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
	return out
}

// Until waits until an expression in the page is true. The test fails after three minutes: only a page
// that hangs takes so long. If a newly opened page replaces the last one in the meantime, Until tries
// the expression again.
func (b *Tab) Until(expression string) {
	b.t.Helper()
	const limit = 3 * time.Minute
	for end := time.Now().Add(limit); ; {
		_, err := chromedp.Run(b.Context, chromedp.Poll[chromedp.Void](expression, chromedp.WithPollingTimeout(limit)))
		var refused *cdproto.Error
		replaced := errors.As(err, &refused) && strings.Contains(refused.Message, "Cannot find context")
		if err == nil {
			return
		}
		if !replaced || time.Now().After(end) {
			b.t.Fatalf("%s: %v", expression, err)
		}
	}
}

// Keep saves a screenshot of the whole page in the directory that SCREENSHOTS names, if it is set.
func (b *Tab) Keep(name string) {
	b.t.Helper()
	dir := os.Getenv("SCREENSHOTS")
	if dir == "" {
		return
	}
	png, err := chromedp.Run(b.Context, chromedp.FullScreenshot(100))
	if err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".png"), png, 0o644); err != nil {
		b.t.Fatal(err)
	}
}

// inked returns for each plot whether something is drawn in it, that is, whether the area inside
// its axes has colours other than those of the grid.
const inked = `[...document.querySelectorAll("figure .chart")].map((host) => {
  const canvas = host.querySelector("canvas");
  if (!canvas) return false;
  const { width, height } = canvas;
  const { data } = canvas.getContext("2d").getImageData(0, 0, width, height);
  const seen = new Map();
  for (let i = 0; i < data.length; i += 4) {
    if (data[i + 3] < 200) continue;
    const key = data[i] << 16 | data[i + 1] << 8 | data[i + 2];
    seen.set(key, (seen.get(key) ?? 0) + 1);
  }
  const style = getComputedStyle(document.documentElement);
  const hue = (name) => parseInt(style.getPropertyValue(name).trim().slice(1), 16);
  const names = ["--alarm", "--warn", ...Array.from({ length: 8 }, (_, i) => "--hue" + i)];
  return names.some((name) => (seen.get(hue(name)) ?? 0) > 20);
})`

// Plots returns for each plot whether something is drawn in it.
func (b *Tab) Plots() []bool {
	b.t.Helper()
	b.Until(`document.querySelectorAll("figure .chart canvas").length ===
		document.querySelectorAll("figure .chart").length`)
	// The charts are drawn only when the browser has time.
	b.Until(`new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))`)
	return Eval[[]bool](b, inked)
}

// Visit opens a page of a site on this machine; site is the scheme, host and port, and a slash.
// From then on the page may send requests to that site and to the sites visited before, because a
// page that is left may send one more request. If the path differs from the last one only after the
// #, the page is not loaded again.
func (b *Tab) Visit(site, path string, l Look) {
	b.t.Helper()
	b.mu.Lock()
	b.sites = append(b.sites, site)
	b.mu.Unlock()
	call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: l.Scheme}},
	})
	b.Do(chromedp.EmulateViewport(l.Width, l.Height))
	b.load(chromedp.Navigate(site + strings.TrimPrefix(path, "/")))
}

// Reload loads the page again.
func (b *Tab) Reload() {
	b.t.Helper()
	b.load(chromedp.Reload())
}

// load runs the action that loads a page. It tries again if the browser stood still meanwhile.
func (b *Tab) load(action chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	for tries := 1; ; tries++ {
		err := chromedp.Do(b.Context, action)
		if tries < 5 && b.starved(err) {
			if err == nil { // only a part is missing, and an address with a # would not be loaded again
				action = chromedp.Reload()
			}
			continue
		}
		if err != nil {
			b.t.Fatal(err)
		}
		return
	}
}

// starved reports whether a page could not be loaded because the browser had stood still: it opened
// a connection and then sent nothing on it for so long that the shop closed it (after its limit for
// the header of a request). starved forgets the browser's complaints about that.
func (b *Tab) starved(err error) bool {
	const closed = "net::ERR_SOCKET_NOT_CONNECTED"
	b.mu.Lock()
	defer b.mu.Unlock()
	all := len(b.complaints)
	b.complaints = slices.DeleteFunc(b.complaints, func(c string) bool { return strings.Contains(c, closed) })
	return len(b.complaints) < all || err != nil && strings.Contains(err.Error(), closed)
}
