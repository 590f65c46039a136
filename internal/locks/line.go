package locks

import (
	"context"
	"math/rand/v2"
	"time"
)

// Line lets the callers of this process stand in line for each key: only the
// head of the line asks for the lock, again and again, and it asks at once
// when this process has released it. Redis so sees one caller a process
// however many wait; 5,000 that all ask on their own are a storm in which most
// are never served.
//
// A line keeps nobody out: the next head asks while the last one is still
// inside, and what the lock then answers is the lock's own doing.
type Line struct {
	Delay time.Duration // mean time between two attempts of the head, jittered by half

	line turnstile
}

// Run implements Policy.
func (p *Line) Run(t *Turn) error {
	g := p.line.at(t.Key)
	defer p.line.leave(t.Key, g)
	if err := g.enter(t.Wait()); err != nil {
		return err
	}
	err := p.ask(g, t)
	if err == nil {
		p.line.took(g)
		defer p.line.released(g)
	}
	g.exit()
	if err != nil {
		return err
	}
	return t.Enter()
}

// ask is what the head of the line does. While this process itself holds the
// lock, asking at once is a wasted command.
func (p *Line) ask(g *gate, t *Turn) error {
	for first := true; ; first = false {
		if !first || p.line.holding(g) {
			if err := p.pause(g, t); err != nil {
				return err
			}
		}
		if ok, err := t.Try(); ok || err != nil {
			return err
		}
	}
}

// pause waits for the delay, or until this process releases the lock.
func (p *Line) pause(g *gate, t *Turn) error {
	timer := time.NewTimer(p.Delay/2 + rand.N(p.Delay))
	defer timer.Stop()
	select {
	case <-g.freed:
		return nil
	case <-timer.C:
		return nil
	case <-t.Wait().Done():
		return context.Cause(t.Wait())
	}
}

func (p *Line) String() string { return "line:" + p.Delay.String() }
