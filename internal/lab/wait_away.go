package lab

import (
	"context"
	"errors"

	"oversell/internal/lab/wire"
)

func errorTakenForHeld() Scenario {
	return Scenario{
		Anomaly: Anomaly{
			Name:     "error-taken-for-held",
			Sentence: "Redis fails, and the caller is told that somebody else has the lock: it waits for nobody.",
			Sequence: "The lock is free. A asks for it, and Redis answers with an error. A must get an error that is not the one for a lock that is held.",
			Source:   "mike-marcacci/node-redlock#19, #284: one error for a lock that is held and for a server that is away",
		},
		record:    "--- HHHHHHHHH HHH H--",
		requires:  []claim{isLock},
		senseless: needsRedisLock,
		run: func(w *World) verdict {
			a := w.Start("A")
			h := a.Holder()
			a.Fault(anyCommand, 1, "answered with an error", answer(wire.ErrorReply("OOM command not allowed when used memory > 'maxmemory'.")))
			ok, err := h.Ask()
			need(!ok, "A got the lock")
			return w.verdict(err != nil, "A", "A is told of the error", "A is told that the lock is held, and it is free")
		},
	}
}

func redisAway() Scenario {
	return Scenario{
		Anomaly: Anomaly{
			Name:     "redis-away-while-waiting",
			Sentence: "Redis goes away while a caller waits for the lock, and the caller is not told: it waits for a lock that nobody can give it.",
			Sequence: "A keeps the lock. B waits for it. Redis refuses all connections of B from then on. B must get an error within three times the ttl, and not that of its own patience.",
			Source:   "redisson/redisson#2801, redisson/redisson#4025: Redis is stopped, and tryLock does not return",
		},
		record:    "--- HHHHHHHHH HHB HHH",
		requires:  []claim{had("A")},
		senseless: needsRemoteLock,
		run: func(w *World) verdict {
			a, b := w.Start("A"), w.Start("B")
			w.kept(a)
			ctx, cancel := context.WithCancel(w.ctx)
			defer cancel()
			out := w.waiting(b, ctx)
			w.Sleep(w.TTL / 5)
			stillWaits("B", out)
			b.Refuse()
			took, err := w.ended(out, 3*w.TTL)
			if errors.Is(err, errStillWaiting) || err == nil {
				return w.broke("B", "after %s without Redis B still waits, and is told nothing", about(took))
			}
			return holds("B is told: %s", brief(err))
		},
	}
}
