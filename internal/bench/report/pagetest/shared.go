package pagetest

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"

	"github.com/chromedp/chromedp"
)

// Keep keeps the browser that the tests of a package share running, from the first tab until done
// is called. TestMain should call it.
func Keep() (done func()) {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	shared.users++
	return shared.release
}

// shared is the browser of one test binary. It is global because TestMain and the tests have no
// other way to share it.
var shared sharedBrowser

// sharedBrowser is a browser that runs while at least one test uses it.
type sharedBrowser struct {
	mu    sync.Mutex
	users int
	ctx   context.Context // of chromedp; nil while the browser does not run
	stop  func()
}

// acquire starts the browser for its first user.
func (s *sharedBrowser) acquire(path string) (context.Context, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx == nil {
		if err := s.start(path); err != nil {
			return nil, err
		}
	}
	s.users++
	return s.ctx, nil
}

// release stops the browser after its last user.
func (s *sharedBrowser) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users--; s.users == 0 && s.ctx != nil {
		s.stop()
		s.ctx = nil
	}
}

func (s *sharedBrowser) start(path string) error {
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
	s.stop = func() {
		end()
		free()
		_ = os.RemoveAll(profile) // it is only a temporary folder
	}
	if err := chromedp.Do(ctx); err != nil {
		s.stop()
		return fmt.Errorf("starting the browser: %w", err)
	}
	s.ctx = ctx
	return nil
}
