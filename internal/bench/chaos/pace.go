package chaos

import (
	"sync/atomic"
	"time"
)

// pace measures for how long this process was not given the time to run: on a machine
// that is busy a sale takes longer to go on, and no shop is to blame for that.
type pace struct {
	lost atomic.Int64 // nanoseconds
	stop chan struct{}
	done chan struct{}
}

// beat is the time between two looks at the clock.
const beat = 10 * time.Millisecond

// newPace starts to measure. End must be called.
func newPace() *pace {
	p := &pace{stop: make(chan struct{}), done: make(chan struct{})}
	go p.run()
	return p
}

func (p *pace) run() {
	defer close(p.done)
	ticker := time.NewTicker(beat)
	defer ticker.Stop()
	for last := time.Now(); ; {
		select {
		case <-p.stop:
			return
		case <-ticker.C:
		}
		now := time.Now()
		if late := now.Sub(last) - beat; late > beat { // less is within what a timer promises
			p.lost.Add(int64(late))
		}
		last = now
	}
}

// stalled is for how long in all the process has not run so far.
func (p *pace) stalled() time.Duration { return time.Duration(p.lost.Load()) }

func (p *pace) end() {
	close(p.stop)
	<-p.done
}
