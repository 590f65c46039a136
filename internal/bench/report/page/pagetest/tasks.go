package pagetest

import (
	"context"
	"encoding/json"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/tracing"
	"github.com/chromedp/chromedp"
)

// LongestTask returns the most processor time that one task of the page took while do ran. Time in
// which other programs had the processor does not count, so that a busy machine changes little.
func (b *Tab) LongestTask(do func()) time.Duration {
	b.t.Helper()
	ctx, cancel := context.WithCancel(b.Context) // ends the listening
	defer cancel()
	var events []event
	complete := make(chan struct{})
	if err := chromedp.Listen(ctx, func(said any) {
		switch e := said.(type) {
		case *tracing.EventDataCollected:
			for _, value := range e.Value {
				var one event
				if json.Unmarshal(value, &one) == nil { // those of other kinds have other fields
					events = append(events, one)
				}
			}
		case *tracing.EventTracingComplete:
			close(complete)
		}
	}); err != nil {
		b.t.Fatal(err)
	}
	Call(b, tracing.Start, tracing.StartParams{TraceConfig: &tracing.TraceConfig{
		IncludedCategories: []string{"disabled-by-default-devtools.timeline"},
		ExcludedCategories: []string{"*"},
	}})
	do()
	Call(b, tracing.End, cdp.Empty{})
	select {
	case <-complete:
	case <-ctx.Done():
		b.t.Fatalf("waiting for the browser's trace: %v", context.Cause(ctx))
	}
	longest, tasks := longestTask(events)
	if tasks == 0 {
		b.t.Fatalf("the browser's trace of %d events has no task of the page", len(events))
	}
	return longest
}

// event is what is read of an event of Chromium's traces, which are in the Trace Event Format.
type event struct {
	Name       string  `json:"name"`
	Process    int     `json:"pid"`
	Thread     int     `json:"tid"`
	ThreadTime float64 `json:"tdur"` // µs of the processor
	Args       struct {
		Name string `json:"name"` // of the thread, in an event thread_name
	} `json:"args"`
}

// longestTask returns the most processor time of one task on the main thread of a page, and how
// many such tasks there are.
func longestTask(events []event) (longest time.Duration, tasks int) {
	type thread struct{ process, id int }
	pages := make(map[thread]bool)
	for _, e := range events {
		if e.Name == "thread_name" && e.Args.Name == "CrRendererMain" {
			pages[thread{e.Process, e.Thread}] = true
		}
	}
	for _, e := range events {
		if e.Name == "RunTask" && pages[thread{e.Process, e.Thread}] {
			tasks++
			longest = max(longest, time.Duration(e.ThreadTime*float64(time.Microsecond)))
		}
	}
	return longest, tasks
}
