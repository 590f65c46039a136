package search

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"oversell/internal/fault"
	"oversell/internal/lab"
)

// epoch is the time of Redis in every state. When time passes, the times in the data are shifted
// instead.
var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// state is a state of the search: the data in Redis, the progress of each buyer, and the faults
// that may still happen. A state in the graph does not change, except in settle.
type state struct {
	data   data
	buyers []buyer
	waits  []wait // in the order in which they began
	holder int    // buyer that holds the lock; nobody if it is free
	left   Faults
	only   limit
}

const nobody = -1

type buyer struct {
	history *history      // nil: the buyer has not started
	idle    time.Duration // since the last input
	frozen  bool
	dead    bool
	asked   data           // the data after its last command
	vain    bool           // that command changed nothing
	txs     []*transaction // by connection
	fences  []int64        // the fencing tokens that it received (see names.go)
}

type wait struct {
	buyer int
	cmd   lab.Request
	left  time.Duration
	lost  bool // its reply will be lost
}

// limit says which moves may follow. All other moves would lead only to states that can also be
// reached by making these moves earlier or later.
type limit struct {
	kind  limitKind
	buyer int
}

type limitKind byte

const (
	noLimit  limitKind = iota
	thenPass           // time passes, or another process is frozen or killed first
	thenStep           // this buyer takes a step, or time passes
)

func (s *state) clone() *state {
	c := *s
	c.buyers, c.waits = slices.Clone(s.buyers), slices.Clone(s.waits)
	c.only = limit{}
	return &c
}

// now returns the current snapshot of the buyer.
func (b *buyer) now() snapshot {
	if b.history == nil {
		return snapshot{}
	}
	v, _ := b.history.current(b.idle)
	return v
}

// held returns the commands of a buyer that have not reached Redis.
func (s *state) held(i int) []lab.Request {
	return slices.DeleteFunc(slices.Clone(s.buyers[i].now().open), func(o lab.Request) bool {
		return slices.ContainsFunc(s.waits, func(w wait) bool { return w.buyer == i && w.cmd.ID == o.ID })
	})
}

// alive reports whether the buyer has started and is not dead.
func (b *buyer) alive() bool { return b.history != nil && !b.dead }

func (s *state) sold() (n int) {
	for _, b := range s.buyers {
		if b.now().sold {
			n++
		}
	}
	return n
}

// letter returns the letter that stands for a buyer in the data.
func letter(i int) string { return string(rune('A' + i)) }

// engine executes moves. It is not safe for concurrent use.
type engine struct {
	root  *history // of each buyer
	redis *redis
	found []lab.Goal // goals that the last move reached
}

func (e *engine) make(s *state, m lab.Move) (*state, error) {
	e.found = nil
	next := s.clone()
	var err error
	switch m.Action {
	case lab.Pass:
		err = e.pass(next, m.For)
	case lab.Step, lab.Lose:
		err = e.step(next, m)
	case lab.Freeze:
		next.left.Freezes--
		next.buyers[m.Buyer].frozen = true
		err = e.tell(next, m.Buyer, input{kind: inputFreeze})
	case lab.Thaw:
		next.buyers[m.Buyer].frozen = false
		err = e.tell(next, m.Buyer, input{kind: inputThaw})
	case lab.Kill:
		next.left.Kills--
		b := &next.buyers[m.Buyer]
		b.dead, b.txs, b.fences = true, nil, nil
	}
	if err != nil {
		return nil, err
	}
	next.rank()
	e.look(s, next)
	return next, nil
}

// look adds the goals that show in a comparison of the states before and after a move.
func (e *engine) look(before, after *state) {
	if n := after.sold(); n > before.sold() && n > lab.Units(len(after.buyers)) {
		e.found = append(e.found, lab.GoalOversell)
	}
	if e.root.program.subject.Lock == nil {
		return
	}
	inside, came := 0, false
	for i := range after.buyers {
		if b := &after.buyers[i]; b.alive() && b.now().inside() {
			inside++
			came = came || !before.buyers[i].now().inside()
			if after.holder == i && !b.frozen && len(b.now().open) == 0 {
				e.found = append(e.found, lab.GoalSelfWait)
			}
		}
	}
	if came && inside > 1 {
		e.found = append(e.found, lab.GoalOverlap)
	}
}

func (e *engine) step(s *state, m lab.Move) error {
	b := &s.buyers[m.Buyer]
	if b.history == nil {
		b.history = e.root
		if err := e.tell(s, m.Buyer, input{kind: inputStart}); err != nil {
			return err
		}
	}
	held := s.held(m.Buyer)
	n := max(m.Nth, 1)
	if n > len(held) {
		return fmt.Errorf("%v: the buyer has %d commands to send", m, len(held))
	}
	if m.Action == lab.Lose {
		s.left.Losses--
	}
	return e.execute(s, m.Buyer, held[n-1], m.Action == lab.Lose)
}

func (e *engine) tell(s *state, i int, in input) error {
	b := &s.buyers[i]
	in.after = b.idle
	var before []lab.Request
	if len(s.waits) > 0 && in.kind != inputStart {
		before = b.now().open
	}
	next, err := b.history.hear(in)
	if err != nil {
		return err
	}
	b.idle = 0
	s.goOn(i, next, before)
	return nil
}

// goOn moves a buyer to another history. Before lists the open commands of the buyer in its old history.
func (s *state) goOn(i int, at *outcome, before []lab.Request) {
	b := &s.buyers[i]
	b.history = at.history
	if len(before) > 0 {
		s.renumber(i, before)
	}
	if at.names != nil {
		s.rename(i, at.names)
	} else {
		b.forget()
	}
}

// settle moves the buyers to the histories that have replaced theirs.
func (s *state) settle() {
	for i := range s.buyers {
		if b := &s.buyers[i]; b.alive() && b.history.kept != nil {
			s.goOn(i, b.history.kept, b.now().open)
		}
	}
}

// renumber replaces a buyer's commands that wait in Redis by the same commands in its new history,
// where they may have other numbers.
func (s *state) renumber(i int, before []lab.Request) {
	s.waits = slices.Clone(s.waits)
	before, after := blocking(before), blocking(s.buyers[i].now().open)
	for j := range s.waits {
		w := &s.waits[j]
		nth := slices.IndexFunc(before, func(o lab.Request) bool { return o.ID == w.cmd.ID })
		if w.buyer == i && nth >= 0 && nth < len(after) {
			w.cmd = after[nth]
		}
	}
}

func blocking(open []lab.Request) []lab.Request {
	return slices.DeleteFunc(slices.Clone(open), func(o lab.Request) bool { return !o.Wire.Blocks() })
}

func (e *engine) execute(s *state, i int, o lab.Request, lost bool) error {
	if o.Wire.Blocks() && !s.finds(i, o) {
		seconds, err := strconv.ParseFloat(o.Wire.Args[len(o.Wire.Args)-1], 64)
		if err != nil || len(o.Wire.Takes()) == 0 {
			return fmt.Errorf("the search does not know how long %s waits", o.Text)
		}
		s.waits = append(s.waits, wait{i, o, time.Duration(seconds * float64(time.Second)), lost})
		return nil
	}
	if err := e.send(s, i, o, lost); err != nil {
		return err
	}
	return e.wake(s)
}

// finds reports whether a key exists for which a buyer's command waits.
func (s *state) finds(i int, o lab.Request) bool {
	return slices.ContainsFunc(o.Wire.Takes(),
		func(name string) bool { return s.data.find(global(name, i)).kind != "" })
}

// send lets Redis execute a command, and gives the buyer the reply.
func (e *engine) send(s *state, i int, o lab.Request, lost bool) error {
	b := &s.buyers[i]
	args := slices.Clone(o.Wire.Args)
	for j := range args[1:] {
		args[j+1] = b.global(args[j+1], i)
	}
	var in *transaction
	if o.Conn < len(b.txs) {
		in = b.txs[o.Conn]
	}
	before, cmd := s.data, fault.Command{Args: args}
	r, err := e.redis.execute(before, cmd, in)
	if err != nil {
		return err
	}
	s.data = r.data
	e.watch(s, i, before)
	for j := range s.buyers {
		for conn, t := range s.buyers[j].txs {
			s.setTransaction(j, conn, t.seeing(before, s.data))
		}
	}
	s.setTransaction(i, o.Conn, in.then(cmd))
	if !o.Watchdog {
		b.asked, b.vain = s.data, s.data.sameBut(before)
	}
	if b.dead {
		return nil
	}
	told := input{kind: inputReply, id: o.ID, reply: b.local(string(r.reply), i)}
	if lost {
		told = input{kind: inputBreak, id: o.ID}
		s.setTransaction(i, o.Conn, nil)
	}
	if err := e.tell(s, i, told); err != nil {
		return err
	}
	if v := b.now(); v.done {
		b.txs = nil
		if len(v.open) == 0 {
			b.fences = nil
		}
	}
	return nil
}

func (s *state) setTransaction(i, conn int, t *transaction) {
	b := &s.buyers[i]
	if t == nil && conn >= len(b.txs) {
		return
	}
	b.txs = slices.Concat(b.txs, make([]*transaction, max(0, conn+1-len(b.txs))))
	b.txs[conn] = t
}

// wake serves each waiting command if one of its keys exists now.
func (e *engine) wake(s *state) error {
	for i := 0; i < len(s.waits); i++ {
		if w := s.waits[i]; s.finds(w.buyer, w.cmd) {
			s.waits = slices.Delete(s.waits, i, i+1)
			if err := e.send(s, w.buyer, w.cmd, w.lost); err != nil {
				return err
			}
			i = -1
		}
	}
	return nil
}

// watch updates the holder of the lock after a command.
func (e *engine) watch(s *state, actor int, before data) {
	if !e.root.program.subject.InRedis() {
		return
	}
	was, is := holding(before.find(lockKey)), holding(s.data.find(lockKey))
	switch {
	case is == "" && was != "":
		if s.holder != nobody && s.holder != actor {
			e.found = append(e.found, lab.GoalForeignDelete)
		}
		s.holder = nobody
	case is == "":
		s.holder = nobody
	case is != was:
		s.holder = actor
		for i := range s.buyers {
			if strings.Contains(is, "~"+letter(i)) {
				s.holder = i
			}
		}
	}
}

// holding returns the value of a lock: the token in a string, or the owner in a hash. It returns ""
// if the lock is free.
func holding(k key) string {
	if len(k.words) == 0 {
		return ""
	}
	return k.words[0]
}

// global translates the text that a buyer sends into the text that Redis receives; local is the reverse.
func (b *buyer) global(text string, i int) string {
	return b.actual(strings.ReplaceAll(text, "~.", "~"+letter(i)))
}

func (b *buyer) local(text string, i int) string {
	return b.told(strings.ReplaceAll(text, "~"+letter(i), "~."))
}

func global(text string, i int) string { return strings.ReplaceAll(text, "~.", "~"+letter(i)) }

// pass lets time pass. Each renewal that becomes due in this time is sent, unless its process is
// frozen.
func (e *engine) pass(s *state, d time.Duration) error {
	if err := e.renew(s); err != nil {
		return err
	}
	for d > 0 {
		part := d
		for i := range s.buyers {
			if next, ok := s.buyers[i].next(); ok {
				part = min(part, next)
			}
		}
		for _, w := range s.waits {
			part = min(part, w.left)
		}
		if err := e.elapse(s, part); err != nil {
			return err
		}
		d -= part
	}
	return nil
}

// next returns the time until the buyer does something without a move.
func (b *buyer) next() (time.Duration, bool) {
	if !b.alive() {
		return 0, false
	}
	_, i := b.history.current(b.idle)
	if i+1 >= len(b.history.snapshots) {
		return 0, false
	}
	return b.history.snapshots[i+1].at - b.idle, true
}

// elapse lets time pass. Events may happen only at the end of d.
func (e *engine) elapse(s *state, d time.Duration) error {
	s.data = s.data.after(d)
	if s.holder != nobody && s.data.find(lockKey).kind == "" {
		s.holder = nobody
	}
	for i := range s.buyers {
		if b := &s.buyers[i]; b.alive() {
			b.idle += d
		}
	}
	var left, over []wait
	for _, w := range s.waits {
		if w.left -= d; w.left > 0 {
			left = append(left, w)
		} else if !s.buyers[w.buyer].dead {
			over = append(over, w)
		}
	}
	s.waits = left
	for _, w := range over {
		told := input{kind: inputReply, id: w.cmd.ID, reply: null}
		if w.lost {
			told = input{kind: inputBreak, id: w.cmd.ID}
		}
		if err := e.tell(s, w.buyer, told); err != nil {
			return err
		}
	}
	return e.renew(s)
}

func (e *engine) renew(s *state) error {
	for i := range s.buyers {
		for {
			o, ok := s.renewal(i)
			if !ok {
				break
			}
			if err := e.execute(s, i, o, false); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *state) renewal(i int) (lab.Request, bool) {
	if b := &s.buyers[i]; !b.alive() || b.frozen {
		return lab.Request{}, false
	}
	for _, o := range s.held(i) {
		if o.Watchdog && !o.GivenUp {
			return o, true
		}
	}
	return lab.Request{}, false
}
