//go:build system

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"oversell/internal/bench/report/pagetest"
)

// framePause is the time between two frames of the picture, not counting the time that a frame
// takes.
const framePause = 180 * time.Millisecond

// TestTakeThePicture saves the frames of the README's picture in the folder that PICTURE names.
// The frames show a run that was started with one of the page's cards. CONTRIBUTING.md explains how
// they become docs/page.gif.
func TestTakeThePicture(t *testing.T) {
	dir := os.Getenv("PICTURE")
	if dir == "" {
		t.Skip("PICTURE names no folder")
	}
	b, site := openPage(t)
	b.Visit(site, "?lang=en#/run", pagetest.Look{Width: 1280, Height: 740, Scheme: "light"})
	b.Until(`document.querySelectorAll(".preset").length > 1 && document.querySelector(".picture") !== null`)
	n := 0
	take := func() {
		t.Helper()
		shot, err := chromedp.Call(b.Context, page.CaptureScreenshot, page.CaptureScreenshotParams{})
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, fmt.Sprintf("%03d.png", n)), shot.Data, 0o644)
		}
		must(t, err)
		n++
	}
	take()
	click(b, ".presets > :nth-child(2)") // the card with slow holders
	b.Until(`document.querySelector(".preset:disabled") !== null`)
	for pagetest.Eval[bool](b, `document.querySelector(".preset:disabled") !== null`) {
		take()
		time.Sleep(framePause)
	}
	take()
}
