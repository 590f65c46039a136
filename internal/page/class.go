package page

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"rsc.io/qr"

	"oversell/internal/guard"
	"oversell/internal/message"
	"oversell/internal/web/problem"
)

const (
	// classWork is the initial work time of a holder. When thirty students are asked to buy, they press the
	// button within two or three seconds. Without a lock, more of them read the same stock than there are
	// units.
	classWork = 1500 * time.Millisecond
	// maxClassWork is the longest work time. Without a lock, a buyer does not wait for another buyer's
	// work.
	maxClassWork = 10 * time.Second
	// ClassUnits is the number of units on sale at first.
	ClassUnits = 10
	// ClassWait is how long a buyer waits for a lock. It is long enough to sell all units one after the
	// other, even at the longest work time, and then to tell the other buyers that the item is sold out.
	ClassWait = ClassUnits*maxClassWork + 20*time.Second
)

// Class is a sale for a class: students buy from their phones, the teacher sets how long the work under the
// lock takes, and a projector shows how many holders are inside. It is safe for concurrent use.
type Class struct {
	sku string

	mu    sync.Mutex
	state ClassState
	code  []byte // the URL as a QR code in SVG; nil until Open
}

// NewClass returns a Class for an item.
func NewClass(sku string) *Class {
	return &Class{sku: sku, state: ClassState{
		Open: true, SKU: sku, Units: ClassUnits,
		Work: classWork.Milliseconds(), MaxWork: maxClassWork.Milliseconds(),
	}}
}

// Open sets the address at which phones find the shop.
func (c *Class) Open(url string) error {
	code, err := qr.Encode(url, qr.M)
	if err != nil {
		return fmt.Errorf("making the QR code of %s: %w", url, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state.URL, c.code = url, svg(code)
	return nil
}

// Work pauses a holder of the item for the time that the teacher has set. It is a stock.Work. A load into the cache,
// which has another key, is not paused.
func (c *Class) Work(ctx context.Context, sku string) (after func(), err error) {
	if sku != c.sku {
		return nil, nil
	}
	return nil, guard.Sleep(ctx, time.Duration(c.State().Work)*time.Millisecond)
}

// Inside counts the holders of the item. It is the Inside of a stock.Config.
func (c *Class) Inside(sku string, step int) {
	if sku != c.sku {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state.Inside += step
	c.state.MostInside = max(c.state.MostInside, c.state.Inside)
}

// ClassState is the current state of a class. The page relies on its JSON form.
type ClassState struct {
	Open       bool   `json:"open"` // false if there is no class
	SKU        string `json:"sku"`
	URL        string `json:"url"` // where phones find the shop; "" until Open
	Work       int64  `json:"work_ms"`
	MaxWork    int64  `json:"max_work_ms"`
	Units      int    `json:"units"`       // units of a new sale, unless the teacher chooses another number
	Inside     int    `json:"inside"`      // holders at work now
	MostInside int    `json:"most_inside"` // largest number of holders at once, since the last change
}

// State returns the current state of the class.
func (c *Class) State() ClassState {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state
}

// errClassWork means that the work time of a holder is out of range.
var errClassWork = message.Errorf("work_ms must be 0 to %d", maxClassWork.Milliseconds())

// SetWork sets how many milliseconds a holder works from now on, and resets the largest number of holders.
// It returns errClassWork unless ms is 0 to maxClassWork.
func (c *Class) SetWork(ms int64) error {
	if ms < 0 || ms > maxClassWork.Milliseconds() {
		return errClassWork
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state.Work, c.state.MostInside = ms, c.state.Inside
	return nil
}

// Code returns the address as a QR code in SVG, or nil before Open.
func (c *Class) Code() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.code
}

// quiet is the margin that a QR code needs, in modules.
const quiet = 4

// svg draws a code. It is black on white even on a dark page, because cameras need that.
func svg(code *qr.Code) []byte {
	var b strings.Builder
	size := code.Size + 2*quiet
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" shape-rendering="crispEdges">`+
		`<path fill="#fff" d="M0 0h%dv%dH0z"/><path d="`, size, size, size, size)
	for y := range code.Size {
		for x := range code.Size {
			if code.Black(x, y) {
				fmt.Fprintf(&b, "M%d %dh1v1h-1z", x+quiet, y+quiet)
			}
		}
	}
	b.WriteString(`"/></svg>`)
	return []byte(b.String())
}

// maxClass is the maximum size of a request body that changes a class, in bytes.
const maxClass = 1 << 10

// classes returns the handler of the class that buys at this shop; c is nil if there is none:
//
//	GET /api/class         the class as it is now
//	PUT /api/class         {"work_ms"}: how long a holder works from now on; resets most_inside
//	GET /api/class/qr.svg  the address as a QR code
//
// A change needs the token, unless it is "". The handler is safe for concurrent use.
func classes(c *Class, token string) http.Handler {
	if c == nil {
		return problem.Routes{"GET /api/class": problem.Parameters(func(w http.ResponseWriter, _ *http.Request) {
			replyJSON(w, http.StatusOK, map[string]bool{"open": false})
		})}.Handler()
	}
	get := func(w http.ResponseWriter, _ *http.Request) {
		replyJSON(w, http.StatusOK, struct {
			ClassState
			Token bool `json:"token"` // a token is needed to change something
		}{c.State(), token != ""})
	}
	return problem.Routes{
		"GET /api/class": problem.Parameters(get),
		"PUT /api/class": problem.Guarded(token, problem.Parameters(func(w http.ResponseWriter, r *http.Request) {
			var body struct {
				Work *int64 `json:"work_ms"`
			}
			if !problem.ReadBody(w, http.MaxBytesReader(w, r.Body, maxClass), &body) {
				return
			}
			if body.Work == nil || c.SetWork(*body.Work) != nil {
				problem.Reply(w, http.StatusBadRequest, problem.CodeInvalid, message.Of(errClassWork))
				return
			}
			get(w, r)
		})),
		"GET /api/class/qr.svg": problem.Parameters(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", types[".svg"])
			w.Header().Set("Cache-Control", "no-store")
			_, _ = w.Write(c.Code()) // an error means that the client is gone
		}),
	}.Handler()
}
