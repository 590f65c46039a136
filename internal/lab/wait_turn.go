package lab

import (
	"context"
	"slices"
	"time"
)

func missedWakeUp() Scenario {
	return Scenario{
		Anomaly: Anomaly{
			Name:     "missed-wake-up",
			Sentence: "The lock becomes free, and the one who waits for it sleeps on.",
			Sequence: "A holds the lock. B waits for it. A unlocks. B must have the lock within a tenth of the ttl.",
			Source:   "redisson/redisson#5761; python-redis-lock: a waiter that sleeps a whole ttl",
		},
		record:    "-H- HHHHHHHHH HHH HHH",
		requires:  []claim{had("A", "B")},
		senseless: needsLock,
		run: func(w *World) verdict {
			a := w.Start("A")
			b := a.Another("B")
			h := a.Holder()
			h.MustLock()
			out := w.waiting(b, w.ctx)
			w.Sleep(w.TTL/5 + w.TTL/130)
			stillWaits("B", out)
			_ = h.Unlock()
			took, err := w.ended(out, w.TTL/10)
			return w.verdict(err == nil, "B", "B has the lock soon", "B sleeps on, "+about(took)+" after the lock became free")
		},
	}
}

// overtakings is how often B is overtaken before it counts as starved.
const overtakings = 12

func overtaken() Scenario {
	return Scenario{
		Anomaly: Anomaly{
			Name:     "starvation",
			Sentence: "There is no line: whoever asks at the right moment overtakes those who have waited for long, again and again.",
			Sequence: "A holds the lock, and B waits for it. Each time that B's question is on its way, A unlocks and C takes the lock before it arrives, or the other way round.",
			Source:   "polling locks under load: of 5,000 callers of a library with a short fixed delay most were never served",
		},
		record:    "-H- BBBBBBHHH BBB BHH",
		requires:  []claim{had("A", "B")},
		senseless: needsLock,
		run: func(w *World) verdict {
			a := w.Start("A")
			b, c := a.Another("B"), a.Another("C")
			pair := []*Holder{a.Holder(), c.Holder()}
			pair[0].MustLock()
			ctx, cancel := context.WithCancel(w.ctx)
			defer cancel()
			start := time.Now()
			next, letGo := w.asks(b)
			out := w.waiting(b, ctx)
			n := 0
			for ; n < overtakings && len(out) == 0; n++ {
				arrive := next()
				stillWaits("B", out)
				_ = pair[n%2].Unlock()
				ok, _ := pair[(n+1)%2].Ask()
				arrive()
				if w.Settle(); !ok || len(out) > 0 {
					break
				}
			}
			waited := time.Since(start)
			if n < overtakings {
				letGo() // B may have one more question, though the lock is its own by now
				w.Settle()
			}
			cancel()
			_, _ = w.ended(out, w.TTL)
			if n == overtakings {
				return w.broke("B", "B was overtaken %d times, and waited %s where the others waited for nothing", n, about(waited))
			}
			return holds("B was overtaken %d times", n)
		},
	}
}

// asks returns a function that waits until p's next question is on its way to
// Redis, and returns what lets it arrive; and one that no longer holds up any. One who
// asks nobody waits in a line, in memory or at a service.
func (w *World) asks(p *Process) (next func() (arrive func()), letGo func()) {
	if !w.column.inRedis() {
		return func() func() {
			w.Settle()
			return func() {}
		}, func() {}
	}
	question := anyCommand
	if len(w.server.nodes) > 0 {
		question = named("SET") // of several nodes: what was granted is undone by other commands
	}
	stop := newPause()
	p.Fault(question, 1, "", stop.before)
	return func() func() {
		w.must(stop.parked, "the next question")
		this := stop
		stop = newPause()
		p.Fault(question, 1, "", stop.before).spare = true
		return this.release
	}, func() { stop.release() }
}

// needsCommands is for questions about how many commands it takes.
func needsCommands(c Column) string {
	if c.inService() {
		return needsRedisLock(c)
	}
	return needsLock(c)
}

// commandsPerHold is far above what a line costs, about five, and far below
// what many callers who all ask on their own cost.
const commandsPerHold = 10

func retryStorm() Scenario {
	return Scenario{
		Anomaly: Anomaly{
			Name:     "retry-storm",
			Sentence: "Everybody who waits asks Redis again and again: most of what Redis does is to say no.",
			Sequence: "Thirty callers on three instances want the lock at the same time, each for a moment. The commands that Redis gets are counted against the locks that it grants.",
			Source:   "5,000 callers on one lock: 120 commands a lock with a fixed delay of 50 ms, more than 10,000 with 5 ms",
		},
		record:    "-H- BBBBBBHHH BBB B--",
		requires:  []claim{unlessInMemory(oneAtATime)},
		senseless: needsCommands,
		run: func(w *World) verdict {
			const callers = 30
			served := make(chan time.Duration, callers)
			var all []<-chan struct{}
			var processes []*Process
			for _, name := range []string{"A", "B", "C"} {
				p := w.Start(name)
				processes = append(processes, p)
				guard := w.column.guard(p, nil)
				for i := range callers / 3 {
					all = append(all, w.Go(func() { w.oneOfMany(p, guard, i, served) }))
				}
			}
			w.together(all...)
			commands := 0
			for _, p := range processes {
				commands += p.Asked()
			}
			close(served)
			return w.storm(commands, callers, slices.Collect(values(served)))
		},
	}
}
