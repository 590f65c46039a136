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

// What all buyers name in their commands.
const (
	sku      = "search"
	lockKey  = "oversell:{search}:lock"
	stockKey = "oversell:{search}:stock"
	owner    = "~.0~" // a buyer as it names itself; Redis gets it with the buyer's letter
)

// horizon is for how long a buyer that is told nothing is watched. Its timers last for
// less, so afterwards it does nothing more.
const horizon = 4 * lab.ScheduleTTL

// program is the code of one buyer: the shop's sale of one unit, under a subject's guard.
type program struct {
	subject   lab.Subject
	lock      string // its key in Redis
	leased    bool   // it compares times: see lab.Subject.Leased
	setUp     func(fault.Command) fault.Value
	histories *histories
}

type run struct {
	*lab.Shopper
	randoms []string // what the program has drawn, in the order in which it was sent
}

// input is one thing that a buyer is told, and how long after the one before.
type input struct {
	after time.Duration
	kind  inputKind
	id    int    // of the command that is answered
	reply string // as it comes over the wire
}

type inputKind byte

const (
	inputStart  inputKind = 's'
	inputReply  inputKind = 'r' // a command is executed, and its reply comes
	inputBreak  inputKind = 'x' // the connection breaks in its place
	inputFreeze inputKind = 'f'
	inputThaw   inputKind = 't'
)

// errNondeterministic means that a program has done something else when it was told the
// same again. Such a program cannot be searched.
var errNondeterministic = errors.New("told the same twice, the buyer does not do the same")

// play runs the program, tells it inputs, and returns what can be seen of it from then on
// while it is told nothing more.
func (p program) play(inputs []input) (snapshots []snapshot, err error) {
	failed := lab.InVirtualTime(func() {
		r := new(run)
		r.Shopper = &lab.Shopper{Owner: owner, News: make(chan struct{}, 1), Opens: r.opens, SetUp: p.setUp}
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

// tell tells the program one thing, and returns when it has done what it does at once.
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
			return fmt.Errorf("%w: it has not sent command %d", errNondeterministic, in.id)
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

// opens replaces what is random in a command.
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
		// The name comes first, because the scheduler orders commands by it; two scripts may have the same.
		words[0] = lab.ScriptName(c.Source) + lab.ScriptHash(c.Source)[:8]
	}
	c.Text = c.Wire.Name() + " " + strings.Join(words, " ")
}

// standIn stands for what is random, and is the same in each run: the number of the draw, as long as
// what it stands for.
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

// drawn replaces stand-ins by what they stand for.
func (r *run) drawn(reply string) string {
	if !strings.Contains(reply, "~.") {
		return reply
	}
	for i, random := range r.randoms {
		reply = strings.ReplaceAll(reply, standIn(i+1, len(random)), random)
	}
	return reply
}

// snapshot is what can be seen of a buyer from a moment on.
type snapshot struct {
	at      time.Duration // since the last input
	open    []lab.Request // in the order in which the scheduler counts them
	section lab.Section
	told    bool // in the section: that the lock is lost
	done    bool
	sold    bool
	held    []time.Duration // when those were begun that need a new connection, and whose process is frozen
	spare   bool            // there is a connection for one more command: a frozen process makes none
	text    string          // all that decides what follows, but for the ages of commands
}

func (v snapshot) inside() bool { return v.section == lab.Begun }

// never reports whether the command is not let go any more: a renewal that its process no
// longer waits for, which is one that a process has sent while it was frozen.
func never(o lab.Request) bool { return o.Watchdog && o.GivenUp }

// watch lets time pass up to the horizon, and notes what changes.
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
	v := snapshot{at: at, open: r.Requests(), section: r.Section, told: r.Told, done: r.Done, sold: r.Sold}
	v.held, v.spare = r.Connections()
	var b strings.Builder
	if !v.done {
		fmt.Fprintf(&b, "%v %v", v.section, v.told && v.inside())
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
