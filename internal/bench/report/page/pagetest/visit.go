package pagetest

import (
	"strings"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// Visit opens a page of a site on this machine, whose address is its scheme, host
// and port, and a slash. From then on the page may ask that site, and no other. A
// path that differs from the one before in what is after its # does not load the
// page again.
func (b *Tab) Visit(site, path string, l Look) {
	b.t.Helper()
	b.mu.Lock()
	b.site = site
	b.mu.Unlock()
	Call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: l.Scheme}},
	})
	b.Do(chromedp.EmulateViewport(l.Width, l.Height), chromedp.Navigate(site+strings.TrimPrefix(path, "/")))
}
