package anomalies

import (
	"oversell/internal/fault"
	"oversell/internal/lab"
)

// More deeds that are recorded.
const (
	hasRead    = "read"   // it read a value through a cache
	hasLoaded  = "loaded" // it loaded a value from the database
	hasFailed  = "failed" // its read failed because the load failed
	isOfFamily = "family" // its strategy is of the same family as the subject's
	hasHold    = "hold"   // it got a hold
	wasTold    = "told"   // one of its calls returned
	hasOrder   = "order"  // it has an order
	hasRefund  = "refund" // its payment was refunded
)

// of returns a claim that holds if check is true for every name. Missing is the format of the
// message about the first name that fails.
func of(names []string, missing string, check func(w *lab.World, who string) bool) lab.Claim {
	return func(w *lab.World) {
		for _, who := range names {
			lab.Need(check(w, who), missing, who)
		}
	}
}

// did claims that each actor did something.
func did(what string, names ...string) lab.Claim {
	missing := map[string]string{
		lab.HadLock: "%s never had the lock", lab.WasRefused: "%s was never refused", lab.HasSold: "%s bought nothing",
		hasHold: "%s got no hold", wasTold: "%s was told nothing", hasOrder: "%s has no order",
		hasRefund: "%s has no refund",
	}[what]
	return of(names, missing, func(w *lab.World, who string) bool { return w.Did(what, who) })
}

func had(names ...string) lab.Claim { return did(lab.HadLock, names...) }

func refused(names ...string) lab.Claim { return did(lab.WasRefused, names...) }

// answered claims that each actor was either granted or refused the lock.
func answered(names ...string) lab.Claim {
	return of(names, "%s asked for the lock and got no answer", func(w *lab.World, who string) bool {
		return w.Did(lab.HadLock, who) || w.Did(lab.WasRefused, who)
	})
}

func sold(names ...string) lab.Claim { return did(lab.HasSold, names...) }

func read(n int) lab.Claim { return times(hasRead, n, "%d of %d readers have the value") }

func loaded(n int) lab.Claim { return times(hasLoaded, n, "%d of %d readers were let in") }

func times(what string, n int, missing string) lab.Claim {
	return func(w *lab.World) {
		got := w.Times(what)
		lab.Need(got >= n, missing, got, n)
	}
}

func faulted(names ...string) lab.Claim {
	return of(names, "nothing was done to %s", func(w *lab.World, who string) bool {
		_, ok := w.First(who, lab.Fault)
		return ok
	})
}

// unlessInMemory returns a claim that checks c only for locks that several processes
// share. A lock in memory ends with its process, and refuses nobody after that.
func unlessInMemory(c lab.Claim) lab.Claim {
	return func(w *lab.World) {
		if !w.Subject.InProcess {
			c(w)
		}
	}
}

func oneAtATime(w *lab.World) {
	for _, overlap := range w.Overlaps() {
		lab.Need(false, "%s", overlap)
	}
}

// release matches a command that releases a lock.
func release(cmd fault.Command) bool {
	return cmd.Is("DEL", "UNLINK") || cmd.Script()
}

// writes returns a Match for a command that writes the stock at key: SET, EXEC, or the script that
// writes it with a fencing token. Unlike the script that reads the stock, it has one more argument:
// the value.
func writes(key string) lab.Match {
	return func(cmd fault.Command) bool {
		fenced := cmd.Script() && len(cmd.Args) == 8 // EVALSHA sha 2 stock fence of token left
		return cmd.Is("EXEC") || cmd.Mentions(key) && (cmd.Is("SET") || fenced)
	}
}
