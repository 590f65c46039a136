package page_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"oversell/internal/page"
)

// A holder of the class's item works for the time that the teacher has set, but not after its
// request is cancelled. Other items are not slowed down.
func TestWorkTakesAsLongAsTheTeacherSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := page.NewClass("hot")
		took := func(ctx context.Context, sku string) (time.Duration, error) {
			start := time.Now()
			_, err := c.Work(ctx, sku)
			return time.Since(start), err
		}
		if d, err := took(t.Context(), "hot"); d != 1500*time.Millisecond || err != nil {
			t.Errorf("at first it took %v, %v", d, err)
		}
		must(t, c.SetWork(20))
		if d, err := took(t.Context(), "hot"); d != 20*time.Millisecond || err != nil {
			t.Errorf("then it took %v, %v", d, err)
		}
		if d, err := took(t.Context(), "shoe"); d != 0 || err != nil {
			t.Errorf("of another item it took %v, %v", d, err)
		}
		left, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := took(left, "hot"); !errors.Is(err, context.Canceled) {
			t.Errorf("of a buyer who has left: %v, want %v", err, context.Canceled)
		}
	})
}

// MostInside is the largest number of holders inside at the same time since the last change.
func TestCountsTheHoldersInside(t *testing.T) {
	c := page.NewClass("hot")
	for _, step := range []int{1, 1, 1, -1} {
		c.Inside("hot", step)
	}
	c.Inside("shoe", 1)
	if got := c.State(); got.Inside != 2 || got.MostInside != 3 {
		t.Errorf("%+v", got)
	}
	if err := c.SetWork(5); err != nil {
		t.Error(err)
	}
	if got := c.State(); got.Work != 5 || got.Inside != 2 || got.MostInside != 2 {
		t.Errorf("%+v", got)
	}
}

// The QR code is an SVG that encodes the address that was passed to Open.
func TestQRCodeIsOfTheAddress(t *testing.T) {
	one, two := page.NewClass("hot"), page.NewClass("hot")
	for c, url := range map[*page.Class]string{
		one: "http://10.0.0.7:8080/#/shop", two: "http://10.0.0.8:8080/#/shop",
	} {
		must(t, c.Open(url))
		if got := c.State().URL; got != url {
			t.Error(got)
		}
	}
	a, b := string(one.Code()), string(two.Code())
	if !strings.HasPrefix(a, "<svg ") || a == b {
		t.Errorf("the codes of two addresses: %s, %s", a, b)
	}
}
