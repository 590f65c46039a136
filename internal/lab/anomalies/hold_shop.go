//go:build !js

package anomalies

import (
	"errors"
	"strings"
	"time"

	"oversell/internal/fault"
	"oversell/internal/holds"
	"oversell/internal/lab"
	"oversell/internal/message"
)

// actor is a process that takes part in a sale.
type actor struct {
	*lab.Process
	w *lab.World
}

type shop struct {
	actor
	holds.Stage
	till *holds.Service
	s    *sale
}

// shop starts a shop. The changes apply to its backends.
func (s *sale) shop(name string, changes ...func(*holds.Backends)) *shop {
	p := actor{s.w.Start(name), s.w}
	db := p.Database()
	b := holds.Backends{Redis: p.Redis(), DB: pool(db)}
	for _, change := range changes {
		change(&b)
	}
	one := &shop{actor: p, s: s, Stage: s.stage(b, db)}
	one.till = s.holds(db, one.Stage, cashier{one, s.client}, never)
	return one
}

func (p *shop) ask(buyer string, limit int64) (holds.Hold, error) {
	s := p.s
	r := holds.Request{
		ID: s.newID(buyer), SKU: s.item.SKU, SaleID: s.item.SaleID,
		Buyer: buyer, Quantity: 1, Limit: limit, TTL: s.w.TTL,
	}
	h, err := p.Take(s.w.Context(), r)
	if p.Process != nil {
		p.say(hasHold, err, "has a hold")
	}
	return h, err
}

// take asks for a hold. If the request fails, the outcome of the cell is Unknown.
func (p *shop) take(buyer string) holds.Hold {
	h, err := p.ask(buyer, 0)
	lab.Need(err == nil, "%s got no hold: %v", p.Name, err)
	return h
}

// pay pays for a hold: it captures the money, and then claims the hold. A payment that does not
// lead to an order is refunded.
func (p *shop) pay(h holds.Hold) error {
	_, err := p.till.Pay(p.w.Context(), h.ID, h.Token, "key-"+p.Name)
	p.say(hasOrder, err, "has an order")
	return err
}

// buy asks for a hold and pays for it.
func (p *shop) buy() error {
	h, err := p.ask(p.Name, 0)
	if err == nil {
		err = p.pay(h)
	}
	return err
}

// resell lets a hold expire, and sells its unit to a buyer of this shop.
func (p *shop) resell(h holds.Hold) {
	p.s.expire(h)
	_ = p.sweep()
	_ = p.pay(p.take(p.Name))
}

func (p *shop) webhook(id string) error {
	p.w.Note(p.Name, "webhook: %s was captured", p.w.Readable(id))
	err := p.till.Captured(p.w.Context(), id)
	p.say(wasTold, err, "has settled it")
	return err
}

func (p *shop) release(h holds.Hold) error {
	err := p.Release(p.w.Context(), h.ID, h.Token)
	p.say(wasTold, err, "has given the hold back")
	return err
}

func (p *shop) extend(h holds.Hold) error {
	_, err := p.Extend(p.w.Context(), h.ID, h.Token, p.w.TTL, 3*p.w.TTL)
	p.say(wasTold, err, "has extended the hold")
	return err
}

func (p *shop) cancel(h holds.Hold) error {
	err := p.till.Cancel(p.w.Context(), h.ID, h.Token)
	p.say(wasTold, err, "has cancelled the order")
	return err
}

func (p *shop) sweep() error {
	_, err := p.Sweep(p.w.Context(), p.s.item.SKU, 100)
	p.say(wasTold, err, "has swept")
	return err
}

// say records what a call returned: an error, or what the format and its arguments say.
func (p actor) say(done string, err error, format string, args ...any) {
	w := p.w
	w.Record(wasTold, p.Name)
	if p.Life().Err() != nil {
		return // it was killed, so it learns nothing
	}
	if err != nil {
		w.Note(p.Name, "is told: %s", told(w, err))
		return
	}
	w.Record(done, p.Name)
	w.Note(p.Name, format, args...)
}

// told returns the text of an error, with the names that the trace uses in place of keys and tokens.
func told(w *lab.World, err error) message.Message {
	return lab.Brief(errors.New(w.Readable(err.Error())))
}

// begin runs f in the background.
func (p actor) begin(f func() error) <-chan struct{} {
	return p.w.Go(func() { _ = f() })
}

// midway runs f until just before its first write, then calls the function meanwhile, and then runs
// the rest of f. The data that f has read is outdated by then.
func (p actor) midway(f func() error, meanwhile func()) { p.parkedAt(changes, f, meanwhile) }

// parkedAt is like midway, but stops f before the first matching command.
func (p actor) parkedAt(match lab.Match, f func() error, meanwhile func()) {
	stop := p.Park(match)
	done := p.begin(f)
	p.mustPark(stop, done)
	meanwhile()
	stop.Release()
	p.w.Must(done, "the end of %s", p.Name)
}

func (p actor) mustPark(stop *lab.Pause, done <-chan struct{}) {
	select {
	case <-stop.Parked:
	case <-done:
		lab.Need(false, "%s has written nothing", p.Name)
	case <-p.w.Context().Done():
		lab.Need(false, "interrupted")
	}
}

// changes matches a command that changes data in Redis, or that begins a write to the database.
// Writes to the table of payments do not count.
func changes(cmd fault.Command) bool {
	text := lab.SQL(cmd)
	switch {
	case strings.Contains(text, "oversell_hold_payments"):
		return false
	case text == fault.Begin, strings.HasPrefix(text, "INSERT INTO "), strings.HasPrefix(text, "UPDATE "),
		strings.HasPrefix(text, "DELETE "):
		return true
	}
	return cmd.Is("DECRBY", "INCRBY", "DEL", "SET", "ZADD", "ZREM")
}

func (s *sale) expire(h holds.Hold) {
	s.w.Sleep(max(0, time.Until(h.ExpiresAt)))
	for range 100 {
		now, err := s.audit.Look(s.w.Context(), h.ID)
		if errors.Is(err, holds.ErrUnknownHold) || err == nil && now.Status != holds.Held {
			s.w.Note("", "%s has expired", s.w.Readable(h.ID))
			return
		}
		lab.Need(err == nil, "the hold could not be read: %v", err)
		s.w.Sleep(s.w.TTL / 100)
	}
	lab.Need(false, "the hold does not expire")
}

// killedAt runs f until it sends a matching command, and kills the process before the command
// arrives.
func (p actor) killedAt(f func() error, match lab.Match) {
	stop := lab.NewPause()
	p.Inject(match, 1, "is killed before this arrives", stop.Before)
	p.killedIn(f, stop)
}

// killedIn runs f until stop parks one of its commands, and then kills the process.
func (p actor) killedIn(f func() error, stop *lab.Pause) {
	done := p.begin(f)
	p.mustPark(stop, done)
	p.Kill()
	p.w.Must(done, "the end of %s", p.Name)
}
