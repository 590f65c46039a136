package anomalies

import (
	"context"
	"fmt"
	"slices"
	"time"

	"oversell/internal/catalog"
	"oversell/internal/fault"
	"oversell/internal/guard"
	"oversell/internal/lab"
)

var missedWakeUp = lab.Try("missed-wake-up", needsLock, func(w *lab.World) lab.Verdict {
	a := w.Start("A")
	b := a.Another("B")
	h := a.Holding()
	out := waiting(w, b, w.Context())
	w.Sleep(w.TTL/5 + w.TTL/130)
	stillWaits("B", out)
	_ = h.Unlock()
	took, err := ended(w, out, w.TTL/10)
	if err != nil {
		return w.Broke("B", "B is still asleep, %s after the lock became free", lab.About(took))
	}
	return lab.Holds.Because("B has the lock soon")
}, had("A", "B"))

// overtakings is the number of times that B is overtaken before it counts as starved.
const overtakings = 12

var overtaken = lab.Try("starvation", needsLock, func(w *lab.World) lab.Verdict {
	a := w.Start("A")
	b, c := a.Another("B"), a.Another("C")
	pair := []*lab.Holder{a.Holder(), c.Holder()}
	pair[0].MustLock()
	ctx, cancel := context.WithCancel(w.Context())
	defer cancel()
	start := time.Now()
	next, letGo := asks(w, b)
	out := waiting(w, b, ctx)
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
		letGo() // B may ask once more, though it already has the lock
		w.Settle()
	}
	cancel()
	_, _ = ended(w, out, w.TTL)
	if n == overtakings {
		return w.Broke("B", "B waited %s while the others did not wait at all; times that B was overtaken: %d",
			lab.About(waited), n)
	}
	return lab.Holds.Because("times that B was overtaken: %d", n)
}, had("A", "B"))

// asks delays the requests of p, a waiter. Next waits until p's next request is on its way to
// Redis, and returns a function that lets the request arrive. LetGo stops the delays. If the lock
// is not in Redis, p waits in a queue in memory or at a service, and nothing is delayed.
func asks(w *lab.World, p *lab.Process) (next func() (arrive func()), letGo func()) {
	if !w.Subject.InRedis() {
		return func() func() {
			w.Settle()
			return func() {}
		}, func() {}
	}
	question := lab.AnyCommand
	if w.Subject.Needs == catalog.NeedsNodes {
		// But not the commands that undo a grant on a minority of the nodes.
		question = func(cmd fault.Command) bool { return cmd.Is("SET") }
	}
	stop := lab.NewPause()
	p.Inject(question, 1, "", stop.Before)
	return func() func() {
		w.Must(stop.Parked, "the next question")
		this := stop
		stop = lab.NewPause()
		p.Inject(question, 1, "", stop.Before).Spare = true
		return this.Release
	}, func() { stop.Release() }
}

var needsCommands = not(lab.Subject.InService, noCommands, needsLock)

// commandsPerHold is the acceptable number of commands per hold. A queue needs about five. Many
// callers that poll need far more.
const commandsPerHold = 10

var retryStorm = lab.Try("retry-storm", needsCommands, func(w *lab.World) lab.Verdict {
	const callers = 30
	served := make(chan time.Duration, callers)
	var all []<-chan struct{}
	var processes []*lab.Process
	for _, name := range []string{"A", "B", "C"} {
		p := w.Start(name)
		processes = append(processes, p)
		guard := p.Guard()
		for i := range callers / 3 {
			all = append(all, w.Go(func() { oneOfMany(w, p, guard, i, served) }))
		}
	}
	w.Together(all...)
	commands := 0
	for _, p := range processes {
		commands += p.Asked()
	}
	lab.Need(len(served) == callers, "%d of %d callers had the lock", len(served), callers)
	waits := make([]time.Duration, callers)
	for i := range waits {
		waits[i] = <-served
	}
	slices.Sort(waits)
	text := "%d commands for %d locks; the median wait is %s, the longest %s"
	median, longest := lab.About(waits[callers/2]), lab.About(waits[callers-1])
	if commands > commandsPerHold*callers {
		return w.Broke("", text, commands, callers, median, longest)
	}
	return lab.Holds.Because(text, commands, callers, median, longest)
}, unlessInMemory(oneAtATime))

func oneOfMany(w *lab.World, p *lab.Process, g guard.Guard, i int, served chan<- time.Duration) {
	who := fmt.Sprintf("%s/%d", p.Name, i)
	start := time.Now()
	for tries := 0; tries < 50; tries++ {
		_, err := g.Do(w.Context(), w.Entry(who), func(context.Context) error {
			defer w.Enters(who)()
			served <- time.Since(start)
			w.Sleep(4 * w.Delay)
			return nil
		})
		if err == nil {
			return
		}
	}
}
