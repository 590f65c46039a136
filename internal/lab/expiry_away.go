package lab

import (
	"fmt"
	"strconv"
	"strings"
)

func cutOff() Scenario {
	return Scenario{
		Anomaly: Anomaly{
			Name:     "cut-off-holder",
			Sentence: "The holder no longer reaches Redis, so its lease runs out there; it must know so by its own clock before another one comes in.",
			Sequence: "A takes the lock; soon its connection loses all that is sent. B asks again and again, and gets the lock when A's lease is over. A works on for three times the ttl.",
			Source:   "redisson/redisson#5698: no renewal for longer than the lease, and a second pod has the lock",
		},
		record:    "--- HBBBBHHHH BBB HHH",
		requires:  []claim{had("A"), struck("A"), refused("B")},
		senseless: needsRemoteLock,
		run: func(w *World) verdict {
			a, b := w.Start("A"), w.Start("B").Holder()
			holder := a.Holder()
			holder.MustLock()
			w.Sleep(w.TTL / 10)
			a.Cut()
			w.Sleep(w.TTL / 70)
			asking := w.Go(func() {
				if b.Obtain(2 * w.TTL) {
					w.Sleep(w.TTL)
					b.Done()
				}
			})
			w.must(asking, "the end of B")
			holder.Done()
			return w.handedOver("A", "B")
		},
	}
}

// handedOver is the verdict on who had the lock when, with how long before the next
// holder came in the first one was told of its loss, or how long after.
func (w *World) handedOver(first, next string) verdict {
	v := w.exclusive()
	told, wasTold := w.trace.first(first, Lost)
	came, hasCome := w.trace.first(next, Hold)
	switch {
	case v.outcome == Holds && wasTold && hasCome:
		v.note = fmt.Sprintf("%s was told of its loss %s before %s had the lock", first, about(came-told), next)
	case v.outcome == Holds && !hasCome:
		v.note = "the lock does not run out, and nobody comes in"
	case v.outcome == Breaks && wasTold && hasCome:
		v.note += fmt.Sprintf(", and %s was told %s later", first, about(told-came))
	case v.outcome == Breaks && hasCome:
		v.note += fmt.Sprintf(", and %s was never told", first)
	}
	return v
}

func failover() Scenario {
	return Scenario{
		Anomaly: Anomaly{
			Name:     "failover",
			Sentence: "The Redis that granted the lock dies before its replica has heard of it: the replica takes over and grants the lock to somebody else.",
			Sequence: "A takes the lock. The lock's key is gone, as it is on a replica that never got it. B asks at once.",
			Source:   "redis.io, Distributed Locks with Redis: why failover-based implementations are not enough",
		},
		record:    "--- BBBBBBBBB BBB H--",
		requires:  []claim{had("A"), answered("B")},
		senseless: needsForgetful,
		run: func(w *World) verdict {
			a, b := w.Start("A").Holder(), w.Start("B").Holder()
			a.MustLock()
			w.Sleep(w.TTL / 20)
			w.loseKey(1, "a replica takes over that never heard of the lock")
			return w.overlap(a, b)
		},
	}
}

func restartForgets() Scenario {
	return Scenario{
		Anomaly: Anomaly{
			Name:     "restart-forgets-lock",
			Sentence: "The servers that granted the lock, or more than half of them where there are several, restart within its lease and have lost what was in their memory.",
			Sequence: "A takes the lock. Of the servers that keep it more than half are empty at once: one of one, three of five. B asks at once.",
			Source:   "redis.io, Distributed Locks with Redis: performance, crash recovery and fsync",
		},
		record:    "--- BBBBBBBBB BBB B--",
		requires:  []claim{had("A"), answered("B")},
		senseless: needsForgetful,
		run: func(w *World) verdict {
			a, b := w.Start("A").Holder(), w.Start("B").Holder()
			a.MustLock()
			w.Sleep(w.TTL / 20)
			n := w.majority()
			w.loseKey(n, w.servers(n)+" restarted, empty")
			return w.overlap(a, b)
		},
	}
}

// overlap has the second ask for the lock while the first works.
func (w *World) overlap(a, b *Holder) verdict {
	_ = b.Try()
	w.Sleep(w.TTL / 20)
	b.Done()
	a.Done()
	return w.exclusive()
}

// majority is how many of the servers that keep the lock decide.
func (w *World) majority() int { return len(w.sides)/2 + 1 }

// servers names the first n of the servers that keep the lock.
func (w *World) servers(n int) string {
	if len(w.sides) == 1 {
		return "the server"
	}
	var names []string
	for i := range n {
		names = append(names, strconv.Itoa(i))
	}
	return "nodes " + list(names)
}

// loseKey removes the lock from n of the servers that keep it, past its holder, with
// what its scripts keep beside it.
func (w *World) loseKey(n int, why string) {
	w.alone(func() {
		e := w.trace.add("", Fault, why)
		if s := w.server.service; s != nil {
			place, err := s.first(w.ctx, w.lockKey)
			need(err == nil && place != "", "the holder's place was not found: %v", err)
			err = s.lose(w.ctx, place)
			need(err == nil, "the holder's place could not be removed: %v", err)
			return
		}
		var gone int64
		for _, side := range w.sides[:n] {
			removed, err := side.Del(w.ctx, w.redisKey()).Result()
			need(err == nil, "the key could not be removed: %v", err)
			gone += removed
			for _, name := range w.spaces[0].known() {
				if strings.HasPrefix(name, w.redisKey()+":") {
					err := side.Del(w.ctx, name).Err()
					need(err == nil, "the key could not be removed: %v", err)
				}
			}
		}
		need(gone > 0, "Redis has no key of the lock that could be lost")
		w.show(e)
	})
}
