package lockservers

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// thing is what the tests open on demand. It counts the calls to Close.
type thing struct{ closed int }

func (t *thing) Close() error {
	t.closed++
	return nil
}

func TestManyWhoAskAtOnceOpenOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opened := 0
		d := newOnDemand(func(context.Context) (*thing, error) {
			opened++
			time.Sleep(time.Second)
			return new(thing), nil
		})
		synctest.Wait()
		if opened != 0 {
			t.Error("opened, and nobody has asked")
		}
		var all [50]*thing
		var wg sync.WaitGroup
		for i := range all {
			wg.Go(func() {
				var err error
				if all[i], err = d.get(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		again, err := d.get(t.Context())
		if opened != 1 || err != nil || again == nil {
			t.Fatalf("opened %d times; then %v, %v", opened, again, err)
		}
		for _, one := range all {
			if one != again {
				t.Fatal("callers got different things")
			}
		}
		for range 2 {
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		}
		if again.closed != 1 {
			t.Errorf("closed %d times", again.closed)
		}
	})
}

// A caller whose context ends stops waiting for the start. The start continues for the other callers.
func TestWaitForAStartEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		enough := errors.New("waited long enough")
		d := newOnDemand(func(ctx context.Context) (*thing, error) {
			time.Sleep(3 * time.Second)
			return new(thing), ctx.Err()
		})
		began := time.Now()
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, enough)
		defer cancel()
		if _, err := d.get(ctx); !errors.Is(err, enough) || time.Since(began) != time.Second {
			t.Errorf("told %v after %v; want %v", err, time.Since(began), enough)
		}
		if _, err := d.get(t.Context()); err != nil || time.Since(began) != 3*time.Second {
			t.Errorf("the next was told %v after %v", err, time.Since(began))
		}
		if _, err := d.get(ctx); err != nil {
			t.Errorf("one who need not wait was told %v", err)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestFailedStartIsTriedAgainAfterASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full := errors.New("no room")
		opened := 0
		d := newOnDemand(func(context.Context) (*thing, error) {
			if opened++; opened < 3 {
				return nil, full
			}
			return new(thing), nil
		})
		for range 2 {
			for _, pause := range []time.Duration{0, retryAfter / 2, retryAfter/2 - 1} {
				time.Sleep(pause)
				if _, err := d.get(t.Context()); !errors.Is(err, full) {
					t.Errorf("got %v; want %v", err, full)
				}
			}
			time.Sleep(time.Nanosecond)
		}
		if opened != 2 {
			t.Errorf("tried %d times in 2 s; want 2", opened)
		}
		if _, err := d.get(t.Context()); err != nil || opened != 3 {
			t.Errorf("the third time: %v, tried %d times", err, opened)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestCloseDuringAStart(t *testing.T) {
	for name, open := range map[string]func(context.Context) error{
		"that heeds its context": func(ctx context.Context) error {
			<-ctx.Done()
			return context.Cause(ctx)
		},
		"that does not": func(context.Context) error {
			time.Sleep(time.Second)
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var made *thing
				opened := 0
				d := newOnDemand(func(ctx context.Context) (*thing, error) {
					opened++
					err := open(ctx)
					if err == nil {
						made = new(thing)
					}
					return made, err
				})
				go func() { _, _ = d.get(t.Context()) }()
				synctest.Wait()
				for range 2 {
					if err := d.Close(); err != nil {
						t.Error(err)
					}
				}
				if made != nil && made.closed != 1 {
					t.Errorf("what was opened was closed %d times", made.closed)
				}
				if _, err := d.get(t.Context()); !errors.Is(err, errClosed) || opened != 1 {
					t.Errorf("after Close: %v, opened %d times", err, opened)
				}
			})
		})
	}
}
