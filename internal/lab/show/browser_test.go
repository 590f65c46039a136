//go:build system

package show_test

import (
	"context"
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

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"oversell/internal/bench/report/page/pagetest"
)

// browserTimeout bounds one test in the browser.
const browserTimeout = 2 * time.Minute

// browsers are the possible names of the Chromium binary.
var browsers = []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"}

// tab is a tab of a headless Chromium without network access, together with the
// errors it reported.
type tab struct {
	t   *testing.T
	ctx context.Context

	opened int // pages so far

	mu         sync.Mutex
	complaints []string
	requests   []string
}

// newTab starts a browser for this test alone. If none is installed, the test
// is skipped, or fails with CI=true.
func newTab(t *testing.T) *tab {
	t.Helper()
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]),
		chromedp.ExecPath(browser(t)),
		chromedp.NoSandbox, // in a container it runs as root, and it only opens our own file
		chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-domain-reliability", true),
		chromedp.Flag("proxy-server", "127.0.0.1:9"), // nothing listens there
		chromedp.UserDataDir(t.TempDir()),
	)
	ctx, cancel := context.WithTimeout(t.Context(), browserTimeout)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewExecAllocator(ctx, options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	b := &tab{t: t, ctx: ctx}
	if err := chromedp.Listen(ctx, b.listen); err != nil {
		t.Fatal(err)
	}
	return b
}

func browser(t *testing.T) string {
	t.Helper()
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

// listen records what must not happen: errors, and requests to other addresses.
func (b *tab) listen(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *log.EventEntryAdded:
		b.complaints = append(b.complaints, string(e.Entry.Level)+": "+e.Entry.Text)
	case *runtime.EventExceptionThrown:
		b.complaints = append(b.complaints, e.ExceptionDetails.Text)
	case *runtime.EventConsoleAPICalled:
		b.complaints = append(b.complaints, "console."+string(e.Type))
	case *network.EventRequestWillBeSent:
		if u := e.Request.URL; !strings.HasPrefix(u, "file:") && !strings.HasPrefix(u, "data:") {
			b.requests = append(b.requests, u)
		}
	}
}

// quiet fails the test if the page reported an error or made a request.
func (b *tab) quiet() {
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

func (b *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, actions...); err != nil {
		b.t.Fatal(err)
	}
}

// call sends a command to the tab.
func call[P, R any](b *tab, command cdp.Command[P, R], params P) {
	b.t.Helper()
	if _, err := chromedp.Call(b.ctx, command, params); err != nil {
		b.t.Fatal(err)
	}
}

// look is a screen size and colour scheme.
type look struct {
	width, height int64
	scheme        string // light or dark
}

// open opens a file offline, at the cell in hash, or at none if hash is "".
func (b *tab) open(file, hash string, l look) {
	b.t.Helper()
	call(b, network.EmulateNetworkConditionsByRule, network.EmulateNetworkConditionsByRuleParams{
		MatchedNetworkConditions: []*network.Conditions{{Offline: true}},
	})
	call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: l.scheme}},
	})
	b.opened++ // a new hash alone would not reload the page
	u := url.URL{Scheme: "file", Path: filepath.ToSlash(file), RawQuery: fmt.Sprint(b.opened)}
	b.do(chromedp.EmulateViewport(l.width, l.height), chromedp.Navigate(u.String()+hash))
}

// eval returns the value of an expression in the page.
func eval[T any](b *tab, expression string) T {
	b.t.Helper()
	out, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
	return out
}

// until waits until an expression in the page is true.
func (b *tab) until(expression string) {
	b.t.Helper()
	if err := pagetest.Wait(b.ctx, expression); err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
}

// count returns how many elements match.
func (b *tab) count(selector string) int {
	b.t.Helper()
	return eval[int](b, fmt.Sprintf("document.querySelectorAll(%q).length", selector))
}

// moment waits until the details show the moment that has this text.
func (b *tab) moment(text string) {
	b.t.Helper()
	b.until(fmt.Sprintf(`document.querySelector(".moment pre").textContent === %q`, text))
}

// keep saves a screenshot in the directory that SCREENSHOTS names, if any.
func (b *tab) keep(name string) {
	b.t.Helper()
	dir := os.Getenv("SCREENSHOTS")
	if dir == "" {
		return
	}
	png, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".png"), png, 0o644); err != nil {
		b.t.Fatal(err)
	}
}
