package pagetest

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"

	"github.com/chromedp/chromedp"
)

// shared is the browser of one test binary. It is global because TestMain and the tests have no
// other way to share it.
var shared struct {
	once sync.Once       // starts it
	ctx  context.Context // of chromedp
	stop func()          // nil: it was not started
	err  error
}

// Close stops the browser, if it was started. TestMain passes it to backendtest.Main.
func Close() error {
	if shared.stop != nil {
		shared.stop()
	}
	return nil
}

func start(path string) error {
	profile, err := os.MkdirTemp("", "oversell-browser-")
	if err != nil {
		return fmt.Errorf("a folder for the browser: %w", err)
	}
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]),
		chromedp.ExecPath(path),
		chromedp.NoSandbox, // the browser runs as root in a container, and opens only this project's pages
		chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-domain-reliability", true),
		chromedp.Flag("proxy-server", "127.0.0.1:9"), // no server listens there
		chromedp.UserDataDir(profile),
	)
	allocator, free := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, end := chromedp.NewContext(allocator)
	shared.stop = func() {
		end()
		free()
		_ = os.RemoveAll(profile) // it is only a temporary folder
	}
	if err := chromedp.Do(ctx); err != nil {
		return fmt.Errorf("starting the browser: %w", err)
	}
	shared.ctx = ctx
	return nil
}
