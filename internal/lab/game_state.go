package lab

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"oversell/internal/message"
	"oversell/internal/stock"
)

// State is the result of a schedule. The page depends on its JSON form.
type State struct {
	Strategy string    `json:"strategy"`
	Buyers   int       `json:"buyers"`
	Moves    string    `json:"moves"` // in the form that ParseMoves reads
	TTL      float64   `json:"ttl_ms"`
	Now      float64   `json:"now_ms"`  // since the sale began
	Left     float64   `json:"left_ms"` // how much more time may pass
	Verdict  Judgment  `json:"verdict"`
	Sale     Sale      `json:"sale"`
	Lock     Holding   `json:"lock"`
	Players  []Player  `json:"players"`
	Findings []Finding `json:"findings"`
	Reached  []Goal    `json:"reached"`            // according to the findings
	Unserved []string  `json:"unserved,omitempty"` // the buyers that wait forever, if GoalStuck is reached
	Keys     []Key     `json:"keys"`
	Can      []string  `json:"can"` // the possible moves; time may also pass in other steps
	Trace    []Event   `json:"trace"`
}

// Judgment is the verdict on a schedule so far.
type Judgment struct {
	Outcome  Standing        `json:"outcome"`
	Sentence string          `json:"sentence"`
	Message  message.Message `json:"message,omitzero"` // Sentence, to be translated
}

// Standing says whether a schedule has won, may still win, or is over.
type Standing string

// The standings.
const (
	Open Standing = "open" // more units may still be sold than there were
	Won  Standing = "won"  // more units were sold than there were
	Over Standing = "over" // no buyer can act any more, and at most as many units were sold as there were
)

// Sale compares the stock with the orders.
type Sale struct {
	Initial int64 `json:"initial"`      // units at the start
	Stock   int64 `json:"stock"`        // units left, according to Redis
	Sold    int64 `json:"sold"`         // orders, of one unit each
	Over    int64 `json:"oversold"`     // orders without a unit
	Lost    int64 `json:"lost_updates"` // orders that did not reduce the stock
	Missing int64 `json:"unsold"`       // units that were taken from the stock, but have no order
}

// Holding says which buyer has the lock, and which buyers rely on it.
type Holding struct {
	Redis  string   `json:"redis"`            // the holder in Redis, "free", or "" if the lock is not in Redis
	TTL    *float64 `json:"ttl_ms,omitempty"` // time left on the lease
	Inside []string `json:"inside"`           // the buyers in the section, all of which rely on the lock
}

// Status says what a buyer is doing.
type Status string

// The statuses.
const (
	Outside Status = "outside" // has not arrived yet; it arrives with its first step
	Ready   Status = "ready"   // about to send a command
	Asleep  Status = "asleep"  // between two tries
	Waiting Status = "waiting" // a blocking command waits in Redis
	Frozen  Status = "frozen"
	Dead    Status = "dead"
	Done    Status = "done"
)

// Result is the outcome of a finished buyer.
type Result string

// The results.
const (
	Bought  Result = "bought"
	SoldOut Result = "sold_out"
	Fenced  Result = "fenced"    // the stock refused its write, because it had seen a later token
	Told    Result = "lock_lost" // it learned in time that its lock was lost
	Failed  Result = "failed"
)

// Player is one buyer.
type Player struct {
	Name   string    `json:"name"`
	Status Status    `json:"status"`
	Says   string    `json:"says"`               // the status, as a sentence
	Until  *float64  `json:"until_ms,omitempty"` // if asleep or waiting: the time at which it continues by itself
	Inside bool      `json:"inside"`             // it is in the section
	Read   *int64    `json:"read,omitempty"`     // the stock that it read last
	Wrote  *int64    `json:"wrote,omitempty"`    // the stock that it wrote
	Sold   bool      `json:"sold"`               // it has an order
	Result Result    `json:"result,omitempty"`   // once done
	Error  string    `json:"error,omitempty"`    // once done: the reason why it has not bought
	Next   []Pending `json:"pending"`

	Message message.Message `json:"message,omitzero"` // Says, to be translated
}

// Pending is a command that a buyer has sent and Redis has not received.
type Pending struct {
	Move    string  `json:"move"`               // the move that lets it through
	Text    string  `json:"text"`               // as typed into redis-cli
	Since   float64 `json:"since_ms"`           // when it was sent; leases are counted from then on
	From    string  `json:"from"`               // "buyer", or "watchdog", which renews the lock
	Script  string  `json:"script,omitempty"`   // its source
	GivenUp bool    `json:"given_up,omitempty"` // its caller no longer waits for the reply
}

// FindingKind is the kind of a Finding.
type FindingKind string

// The kinds of findings.
const (
	Oversold      FindingKind = "oversold"       // an order was written although no unit was left for it
	ForeignDelete FindingKind = "foreign_delete" // a buyer deleted another buyer's lock
	Overlap       FindingKind = "overlap"        // the lock was granted while another buyer relied on it
	SelfWait      FindingKind = "self_wait"      // a buyer waits for the lock that it holds itself
	Unserved      FindingKind = "unserved"       // a buyer waits and is never served
	Refused       FindingKind = "refused"        // the stock refused a write with an older fencing token
)

// Finding is something that went wrong, or that the stock prevented.
type Finding struct {
	At      float64         `json:"at_ms"`
	Kind    FindingKind     `json:"kind"`
	Actor   string          `json:"actor"`
	Text    string          `json:"text"`
	Message message.Message `json:"message,omitzero"` // Text, to be translated
}

func (s *Shopper) status() Status {
	switch {
	case !s.came:
		return Outside
	case s.isKilled():
		return Dead
	case s.Done:
		return Done
	case s.isFrozen():
		return Frozen
	case len(s.Requests()) > 0:
		return Ready
	case s.waitsFor() != nil:
		return Waiting
	}
	return Asleep
}

// waitsFor returns the command that blocks in Redis, or nil.
func (s *Shopper) waitsFor() *Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.waiting
}

func (s *Shopper) isInside() bool { return s.Section == Begun && !s.isKilled() }

// state reads the whole state. At the end it starts the buyers that have not arrived, to see what
// they will send, and lets time pass, to see when the waiting buyers continue. So no move can be
// played after a call to state.
func (g *game) state() State {
	st := State{
		Strategy: g.w.Subject.Name, Buyers: len(g.buyers), Moves: MovesText(g.moves),
		TTL: inMS(g.w.TTL), Now: g.w.trace.ms(), Left: inMS(MaxSchedule - g.passed()),
		Sale: g.sale(), Lock: g.holding(), Findings: append([]Finding{}, g.findings...),
		Keys: g.keys(), Trace: g.events(), Reached: reached(g.findings),
	}
	for _, b := range g.buyers {
		st.Players = append(st.Players, b.state())
	}
	st.Can = g.can()
	st.Verdict = g.verdict(st)
	for i, b := range g.buyers {
		if !b.came {
			g.come(b)
			st.Players[i].Next = b.pending()
		}
	}
	g.wakeUps(st.Players)
	return st
}

func inMS(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func (g *game) passed() (d time.Duration) {
	for _, m := range g.moves {
		d += m.For
	}
	return d
}

func (g *game) sale() Sale {
	left, _ := g.w.Side.Get(g.w.ctx, g.w.StockKey()).Int64() // a missing stock counts as 0
	initial, sold := g.shop.initial, g.shop.sold()
	missing := initial - left
	return Sale{
		Initial: initial, Stock: left, Sold: sold,
		Over:    max(0, sold-initial),
		Lost:    max(0, sold-missing),
		Missing: max(0, missing-sold),
	}
}

func (g *game) holding() Holding {
	h := Holding{Inside: g.inside(nil)}
	if g.w.Subject.InRedis() {
		h.Redis, h.TTL = g.w.names.show(g.w.look())
	}
	return h
}

func (s *Shopper) state() Player {
	out := Player{Name: s.Name, Status: s.status(), Inside: s.isInside(), Next: s.pending()}
	out.Read, out.Wrote, out.Sold = s.Read, s.Wrote, s.Wrote != nil
	if out.Status == Done {
		out.Result = resultOf(s.Err)
	}
	if out.Status == Done && s.Err != nil {
		out.Error = s.brief(s.Err).String()
	}
	out.Message = s.says(out)
	out.Says = out.Message.String()
	return out
}

func (s *Shopper) pending() []Pending {
	out := []Pending{}
	for i, c := range s.Requests() {
		p := Pending{
			Move:  Move{Action: Step, Buyer: s.index, Nth: i + 1}.String(),
			Since: float64(c.Since.Microseconds()) / 1000,
			Text:  s.text(c), From: "buyer", Script: c.Source, GivenUp: c.GivenUp,
		}
		if c.Watchdog {
			p.From = "watchdog"
		}
		out = append(out, p)
	}
	return out
}

func resultOf(err error) Result {
	switch {
	case err == nil:
		return Bought
	case errors.Is(err, errSoldOut):
		return SoldOut
	case errors.Is(err, stock.ErrFenced):
		return Fenced
	case errors.Is(err, errLost), errors.Is(err, context.Canceled): // the section is not cancelled for any other reason
		return Told
	}
	return Failed
}

func (s *Shopper) says(p Player) message.Message {
	switch {
	case p.Status == Outside:
		return message.Newf("%s has not arrived yet", p.Name)
	case p.Status == Waiting:
		return message.Newf("%s waits in Redis for the reply to %s", p.Name, s.text(*s.waitsFor()))
	case p.Status == Asleep:
		return message.Newf("%s sleeps before it tries again", p.Name)
	case p.Status == Ready:
		return message.Newf("%s is about to send %s", p.Name, p.Next[0].Text)
	case p.Status == Frozen && len(p.Next) > 0:
		return message.Newf("%s is frozen, and was about to send %s", p.Name, p.Next[0].Text)
	case p.Status == Frozen:
		return message.Newf("%s is frozen", p.Name)
	case p.Status == Dead:
		return message.Newf("%s is dead", p.Name)
	case p.Result == Bought:
		return message.Newf("%s has bought a unit", p.Name)
	}
	return message.Newf("%s has bought nothing: %s", p.Name, s.brief(s.Err))
}

func (g *game) can() []string {
	moves := []string{}
	for i, b := range g.buyers {
		if b.able(Step) == nil {
			n := len(b.Requests())
			if !b.came { // it will have one command to send once it has arrived
				n = 1
			}
			for n := range n {
				for _, a := range []Action{Step, Lose} {
					moves = append(moves, Move{Action: a, Buyer: i, Nth: n + 1}.String())
				}
			}
		}
		for _, a := range []Action{Freeze, Thaw, Kill} {
			if b.able(a) == nil {
				moves = append(moves, Move{Action: a, Buyer: i}.String())
			}
		}
	}
	if most := min(MaxPass, MaxSchedule-g.passed()); most > 0 && g.alive() {
		moves = append(moves, Move{Action: Pass, For: min(most, g.w.TTL)}.String())
	}
	if len(g.moves) >= MaxMoves {
		moves = []string{}
	}
	return moves
}

// alive reports whether any buyer may still act.
func (g *game) alive() bool {
	return slices.ContainsFunc(g.buyers, func(b *Shopper) bool {
		status := b.status()
		return status != Done && status != Dead || status == Done && len(b.Requests()) > 0
	})
}

func (g *game) verdict(st State) Judgment {
	all := []message.Message{message.Newf("units sold: %d of %d", st.Sale.Sold, st.Sale.Initial)}
	if st.Sale.Over > 0 {
		all = append(all, lostUpdates(st)...)
	}
	for _, f := range st.Findings {
		if f.Kind == ForeignDelete || f.Kind == SelfWait {
			all = append(all, f.Message)
		}
	}
	if st.Sale.Missing > 0 && !g.alive() {
		all = append(all, message.Newf("the stock is down by %d more, for which there is no order", st.Sale.Missing))
	}
	outcome := Over
	switch {
	case st.Sale.Over > 0:
		outcome = Won
	case g.alive():
		outcome = Open
	}
	said := message.Join("%s; %s", all...)
	return Judgment{outcome, said.String(), said}
}

// lostUpdates returns sentences that name the buyers that wrote the same stock because they had read
// the same value.
func lostUpdates(st State) (all []message.Message) {
	wrote := make(map[int64][]string)
	for _, p := range st.Players {
		if p.Wrote != nil {
			wrote[*p.Wrote] = append(wrote[*p.Wrote], p.Name)
		}
	}
	for _, left := range slices.Backward(slices.Sorted(maps.Keys(wrote))) {
		if names := wrote[left]; len(names) > 1 {
			all = append(all, message.Newf("%s each read %d, and wrote %d", list(names), left+1, left))
		}
	}
	return all
}

func (g *game) keys() []Key {
	states, err := g.w.spaces[0].read(g.w.ctx, g.w.Side.Keys(g.w.ctx, "*").Val())
	g.w.unread(err)
	keys := make([]Key, 0, len(states))
	for name, state := range states {
		if !state.there() {
			continue
		}
		keys = append(keys, g.w.key(name, state, time.Now()))
	}
	slices.SortFunc(keys, func(a, b Key) int { return strings.Compare(a.Name, b.Name) })
	return keys
}

// events returns the events of the trace. After a process is killed, it returns only commands and
// breaks of that process, because the program of a dead process may still add other events.
func (g *game) events() []Event {
	killed := make(map[string]bool)
	out := []Event{}
	for _, e := range g.w.trace.events() {
		if killed[e.Actor] && e.Kind != Command && e.Kind != Break {
			continue
		}
		if e.Reply = g.w.names.value(e.Reply); e.Kind == Command {
			e.Text = g.w.names.value(e.Text)
			e.Message = message.Text(e.Text)
		}
		out = append(out, e)
		killed[e.Actor] = killed[e.Actor] || e.Kind == Fault && e.Text == Killed
	}
	return out
}

// wakeUps lets at most ten seconds pass, and sets Until for each sleeping or waiting player that
// continues in this time.
func (g *game) wakeUps(players []Player) {
	g.passUntil(func() bool {
		left := false
		for i, b := range g.buyers {
			p := &players[i]
			switch {
			case p.Until != nil || p.Status != Asleep && p.Status != Waiting:
			case b.status() == Ready:
				p.Until = new(g.w.trace.ms())
			default:
				left = true
			}
		}
		return !left
	}, 10*time.Second)
}
