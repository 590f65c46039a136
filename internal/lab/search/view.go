package search

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"oversell/internal/lab"
	"oversell/internal/lab/wire"
)

// view is what can be seen of a buyer from a moment on.
type view struct {
	at      time.Duration // since the last input
	open    []opened      // in the order in which the scheduler counts them
	section section
	told    bool // in the section: that the lock is lost
	done    bool
	sold    bool
	result  string          // done: with what
	held    []time.Duration // when those were begun that need a new connection, and whose process is frozen
	spare   bool            // there is a connection for one more command: a frozen process makes none
	text    string          // all that decides what follows, but for the ages of commands
}

// section is how far a buyer is in its section.
type section byte

const (
	ahead section = iota
	begun
	ended
)

func (v view) inside() bool { return v.section == begun }

// opened is a command without a reply, in a view.
type opened struct {
	id       int
	conn     int // of the buyer's, on which it was sent
	wire     wire.Command
	text     string
	since    time.Duration // since the buyer came
	from     time.Duration // when the program began to send it
	watchdog bool
	givenUp  bool
}

// never reports whether the command is not let go any more: a renewal that its process no
// longer waits for, which is one that a process has sent while it was frozen.
func (o opened) never() bool { return o.watchdog && o.givenUp }

// watch lets time pass up to the horizon, and notes what changes.
func (r *run) watch() []view {
	begin := time.Now()
	views := []view{r.view(0)}
	over := time.After(horizon)
	for {
		select {
		case <-over:
			return views
		case <-r.news:
		}
		r.settle()
		next := r.view(time.Since(begin))
		if last := views[len(views)-1]; next.text != last.text {
			if next.at == last.at {
				views = views[:len(views)-1]
			}
			views = append(views, next)
		}
	}
}

func (r *run) view(at time.Duration) view {
	r.mu.Lock()
	defer r.mu.Unlock()
	v := view{at: at, section: r.at, told: r.told, done: r.done, sold: r.sold}
	if r.done && r.err != nil {
		v.result = r.err.Error()
	}
	v.spare = slices.ContainsFunc(r.conns, func(c *conn) bool { return c.open == nil && !c.closed && !c.broken })
	for _, c := range r.conns {
		if c.held {
			v.held = append(v.held, c.from)
		}
	}
	slices.Sort(v.held)
	for _, c := range r.open {
		if c.id != answered {
			v.open = append(v.open, opened{c.id, slices.Index(r.conns, c.conn), c.wire, c.text, c.since, c.from, c.watchdog, c.givenUp})
		}
	}
	slices.SortStableFunc(v.open, func(a, b opened) int {
		return cmp.Or(lab.CompareBool(a.watchdog, b.watchdog), cmp.Compare(a.since, b.since), strings.Compare(a.text, b.text))
	})
	var b strings.Builder
	if !v.done {
		fmt.Fprintf(&b, "%v %v", v.section, v.told && v.inside())
	}
	for _, c := range v.open {
		if c.never() {
			continue
		}
		fmt.Fprintf(&b, "|%s %v %v", c.text, c.watchdog, c.givenUp)
	}
	for range v.held {
		b.WriteString("|held")
	}
	v.text = b.String()
	return v
}
