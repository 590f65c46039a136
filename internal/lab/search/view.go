package search

import (
	"fmt"
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
	held    []time.Duration // when those were begun that need a new connection, and whose process is frozen
	spare   bool            // there is a connection for one more command: a frozen process makes none
	text    string          // all that decides what follows, but for the ages of commands
}

// section is how far a buyer is in its section.
type section = lab.Section

const (
	begun = lab.Begun
	ended = lab.Ended
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
		case <-r.News:
		}
		lab.Settle(r.Shopper)
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
	v := view{at: at, section: r.Section, told: r.Told, done: r.Done, sold: r.Sold}
	v.held, v.spare = r.Connections()
	for _, c := range r.Requests() {
		v.open = append(v.open, opened{c.ID, c.Conn, c.Wire, c.Text, c.Since, c.From, c.Watchdog, c.GivenUp})
	}
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
