package search

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"oversell/internal/fault"
	"oversell/internal/lab"
)

// Names in the commands of all buyers.
const (
	sku      = "search"
	lockKey  = "oversell:{search}:lock"
	stockKey = "oversell:{search}:stock"
	owner    = "~.0~" // the owner name of every buyer; Redis receives it with the buyer's letter inserted
)

// horizon is the time for which a buyer is watched after its last input. All timers of a buyer are
// shorter, so the buyer does nothing after that.
const horizon = 4 * lab.ScheduleTTL

// program is the code of one buyer, which buys one unit under a subject's guard.
type program struct {
	subject   lab.Subject
	leased    bool   // it depends on time (see lab.Subject.Leased)
	setUp     *redis // answers the commands that set up a connection
	histories *histories
}

type run struct {
	*lab.Shopper
	randoms []string // the program's random values, in the order in which it sent them
}

// input is one input of a buyer, together with the time since the previous input.
type input struct {
	after time.Duration
	kind  inputKind
	id    int    // of the command to which the input is the reply
	reply string // in the wire format
}

type inputKind byte

const (
	inputStart  inputKind = 's'
	inputReply  inputKind = 'r' // the reply to a command
	inputBreak  inputKind = 'x' // the connection breaks instead
	inputFreeze inputKind = 'f'
	inputThaw   inputKind = 't'
)

// play runs the program with the given inputs. It returns the snapshots of the program after these
// inputs, without further input.
func (p program) play(inputs []input) (snapshots []snapshot, err error) {
	failed := lab.InVirtualTime(func() {
		r := new(run)
		r.Shopper = &lab.Shopper{Owner: owner, News: make(chan struct{}, 1), Opens: r.opens,
			SetUp: func(cmd fault.Command) fault.Value { return p.setUp.send(cmd) }}
		r.Begin(p.subject, sku)
		for _, in := range inputs {
			if err = r.tell(in); err != nil {
				break
			}
		}
		if err == nil {
			snapshots = r.watch()
		}
		r.Close()
	})
	return snapshots, errors.Join(err, failed)
}

// tell gives the program one input, and returns when all goroutines are blocked again.
func (r *run) tell(in input) error {
	for over := time.After(in.after); in.after > 0; {
		select {
		case <-over:
			in.after = 0
		case <-r.News:
		}
		lab.Settle(r.Shopper)
	}
	switch in.kind {
	case inputStart:
		go r.Run()
	case inputFreeze:
		r.Freeze()
	case inputThaw:
		r.Thaw()
	default:
		open := r.Requests()
		i := slices.IndexFunc(open, func(c lab.Request) bool { return c.ID == in.id })
		if i < 0 {
			// A program that behaves differently after the same inputs cannot be searched.
			return fmt.Errorf("the buyer behaved differently after the same replies: it has not sent command %d", in.id)
		}
		if in.kind == inputBreak {
			r.Let(open[i], lab.Drop)
		} else {
			r.Let(open[i], lab.Answer(fault.Value(r.drawn(in.reply))))
		}
	}
	lab.Settle(r.Shopper)
	return nil
}

// opens replaces the random values in a command by stand-ins.
func (r *run) opens(c *lab.Request) {
	args := slices.Clone(c.Whole().Args)
	for i, arg := range args[1:] {
		if i > 0 || !c.Wire.Script() {
			args[i+1] = lab.ReplaceRandom(arg, r.standIn)
		}
	}
	c.Wire = fault.Command{Args: args}
	words := slices.Clone(args[1:])
	if c.Source != "" {
		// The name comes first, because the scheduler sorts commands by it. The hash distinguishes
		// scripts with the same name.
		words[0] = lab.ScriptName(c.Source) + lab.ScriptHash(c.Source)[:8]
	}
	c.Text = c.Wire.Name() + " " + strings.Join(words, " ")
}

// standIn returns a stand-in for a random value: the number of the value, padded to the same
// length. It is the same in each run.
func (r *run) standIn(random string) string {
	i := slices.Index(r.randoms, random)
	if i < 0 {
		i = len(r.randoms)
		r.randoms = append(r.randoms, random)
	}
	return standIn(i+1, len(random))
}

func standIn(number, size int) string {
	text := "~." + strconv.Itoa(number)
	return text + strings.Repeat("_", size-len(text)-1) + "~"
}

// drawn replaces stand-ins by the random values.
func (r *run) drawn(reply string) string {
	if !strings.Contains(reply, "~.") {
		return reply
	}
	for i, random := range r.randoms {
		reply = strings.ReplaceAll(reply, standIn(i+1, len(random)), random)
	}
	return reply
}

// snapshot is the visible state of a buyer from one moment until the next change.
type snapshot struct {
	at      time.Duration // since the last input
	open    []lab.Request // in the order of the scheduler's numbers
	section lab.Section
	done    bool
	sold    bool
	held    []time.Duration // when each command that waits for a new connection of a frozen process began
	spare   bool            // there is an idle connection (a frozen process opens no new one)
	text    string          // everything that affects what follows, except the ages of commands
}

func (v snapshot) inside() bool { return v.section == lab.Begun }

// never reports whether a command is never let through. Such a command is a renewal that a process sent
// while it was frozen, and for whose reply it no longer waits.
func never(o lab.Request) bool { return o.Watchdog && o.GivenUp }

// watch lets time pass up to the horizon, and returns a snapshot for each change.
func (r *run) watch() []snapshot {
	begin := time.Now()
	snapshots := []snapshot{r.snapshot(0)}
	over := time.After(horizon)
	for {
		select {
		case <-over:
			return snapshots
		case <-r.News:
		}
		lab.Settle(r.Shopper)
		next := r.snapshot(time.Since(begin))
		if last := snapshots[len(snapshots)-1]; next.text != last.text {
			if next.at == last.at {
				snapshots = snapshots[:len(snapshots)-1]
			}
			snapshots = append(snapshots, next)
		}
	}
}

func (r *run) snapshot(at time.Duration) snapshot {
	v := snapshot{at: at, open: r.Requests(), section: r.Section, done: r.Done, sold: r.Wrote != nil}
	told := r.Told
	v.held, v.spare = r.Connections() // last: its mutex orders the reads before later writes
	var b strings.Builder
	if !v.done {
		fmt.Fprintf(&b, "%v %v", v.section, told && v.inside())
	}
	for _, c := range v.open {
		if never(c) {
			continue
		}
		fmt.Fprintf(&b, "|%s %v %v", c.Text, c.Watchdog, c.GivenUp)
	}
	for range v.held {
		b.WriteString("|held")
	}
	v.text = b.String()
	return v
}
