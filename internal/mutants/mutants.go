// Package mutants has a list of small faults: a check that is dropped, an expiry
// that is forgotten, two steps that are swapped. Each fault is put into one stage of
// the lock, and the tests of that stage must fail. If a user could see the fault,
// the lab must show it too.
//
//	go test -tags mutants -v ./internal/mutants
//
// builds each of them and prints what noticed it. It takes several minutes. Without
// the tag, the tests only check that each fault still applies to its file.
package mutants

import "path"

// A Mutant is one fault.
type Mutant struct {
	Stage    string // the folder in internal/locks
	File     string // in the folder
	Old, New string // the text to replace, which occurs once, and its replacement
	Breaks   string // what goes wrong
	Lab      bool   // the lab must notice it too, not only the tests of the stage
}

// Path is the mutated file, from the root of the module.
func (m Mutant) Path() string { return path.Join("internal/locks", m.Stage, m.File) }

// Package is the package whose tests must fail.
func (m Mutant) Package() string { return "./internal/locks/" + m.Stage }

// All returns the mutants, by stage.
func All() []Mutant {
	all := []Mutant{
		{"v2_ttl", "mutex.go", `"held", m.ttl)`, `"held", 0)`, "the lock of a dead holder stays", true},
		{"v2_ttl", "mutex.go", `if n == 0 {`, `if n < 0 {`, "nobody is told that the lock had expired", false},

		{"v3_uuid", "mutex.go", `token, m.ttl).Result()`, `token, 0).Result()`, "the lock of a dead holder stays", true},
		{"v3_uuid", "mutex.go", `err == nil && token != m.token`, `token == ""`, "a late holder removes the next one's lock", true},
		{"v3_uuid", "mutex.go", `if ok || err != nil {`, `if ok {`, "a lock whose reply was lost cannot be given back", false},

		{"v4_lua", "mutex.go", `token, m.ttl).Result()`, `token, 0).Result()`, "the lock of a dead holder stays", true},
		{"v4_lua", "mutex.go", `if ok || err != nil {`, `if ok {`, "a lock whose reply was lost cannot be given back", false},
		{"v4_lua", "unlock.lua", `redis.call('GET', KEYS[1]) ~= ARGV[1]`, `redis.call('EXISTS', KEYS[1]) == 0`, "a late holder removes the next one's lock", true},
		{"v4_lua", "mutex.go", `context.WithoutCancel(ctx)`, `ctx`, "a cancelled caller leaves the lock behind", false},

		{"v5_reentrant", "lock.lua", ` and redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0`, ``, "the owner waits for itself", false},
		{"v5_reentrant", "lock.lua", `redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2])`, `n == 1`, "a re-entry does not lengthen the lease", false},
		{"v5_reentrant", "lock.lua", `redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2])`, `n > 1`, "the lock of a dead holder stays", false},
		{"v5_reentrant", "lock.lua", `redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2])`, `true`, "a re-entry shortens the lease", false},
		{"v5_reentrant", "unlock.lua", `if n == 0 then`, `if n >= 0 then`, "an inner Unlock frees the outer hold", true},
		{"v5_reentrant", "unlock.lua", `redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0`, `redis.call('EXISTS', KEYS[1]) == 0`, "a late holder is counted in the next one's lock", false},
	}
	for _, stage := range []string{"v6_watchdog", "v7_queue", "v8_fenced"} {
		all = append(all, renewing(stage, "r", "renewal", "mutex.go", "r")...)
		all = append(all,
			Mutant{stage, "renewal.go", `expires: sent.Add(ttl)}`, `expires: time.Now().Add(ttl)}`, "the lease is counted from the answer", false},
			Mutant{stage, "renew.lua", `if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then`, `if redis.call('EXISTS', KEYS[1]) == 0 then`, "it renews another holder's lock", false},
			Mutant{stage, "renewal.go", "	delete(holds, h)\n	r.end(context.Canceled)\n", "	delete(holds, h)\n", "the renewal goes on after the Unlock", false},
			Mutant{stage, "renewal.go", `if r != nil && n == 1 {`, `if false {`, "a re-entry into a lost hold counts as one", false},
			Mutant{stage, "mutex.go", `		defer r.inFlight.Wait()`, `		_ = r`, "a renewal is on its way after the Unlock", false},
		)
	}
	for _, stage := range []string{"v7_queue", "v8_fenced"} {
		all = append(all, queueing(stage)...)
	}
	all = append(all,
		Mutant{"v8_fenced", "lock.lua", `math.max(token + 1, time[1] * 1000000 + time[2])`, `time[1] * 1000000 + time[2]`, "tokens repeat while the clock stands still", false},
		Mutant{"v8_fenced", "lock.lua", `math.max(token + 1, time[1] * 1000000 + time[2])`, `token + 1`, "tokens begin anew when the last one is forgotten", false},
		Mutant{"v8_fenced", "lock.lua", `if n == 1 then`, `if n > 0 then`, "a re-entry has another token", true},
		Mutant{"v8_fenced", "lock.lua", `string.format('%.0f', token), 'PX', 2 * ARGV[2])`, `string.format('%.0f', token))`, "the token stays for ever", false},
		Mutant{"v8_fenced", "renew.lua", `redis.call('PEXPIRE', KEYS[1] .. ':token', 2 * ARGV[2])`, ``, "the last token is forgotten while the lock is held", false},
	)
	all = append(all, renewing("v9_cohort", "h", "hold", "turn.go", "t")...)
	return append(all, cohort("v9_cohort")...)
}

// renewing returns the faults of a stage with a renewal. The stage names it r, of
// type kind; its Context is in the file named context, where turn is the variable to
// register the cancellation with.
func renewing(stage, r, kind, context, turn string) []Mutant {
	expire := "func (" + r + " *" + kind + ") expire() {\n\tmu.Lock()\n\tdefer mu.Unlock()\n"
	return []Mutant{
		{stage, "renewal.go", r + `.expires = sent.Add(` + r + `.ttl)`, r + `.expires = time.Now().Add(` + r + `.ttl)`, "the lease is counted from the answer to a renewal", false},
		{stage, "renewal.go", r + `.lease.Reset(time.Until(` + r + `.expires))`, ``, "a renewed lock is given up for lost", false},
		{stage, "renewal.go", `	case err == nil && n == 0:`, `	case n == 0:`, "one error of Redis loses the lock", false},
		{stage, "renewal.go", `	case err == nil && n == 0:`, `	case err == nil && n < 0:`, "the renewal of a lost lock counts", false},
		{stage, "renewal.go", r + `.next.Reset(time.Until(sent.Add(` + r + `.ttl / 3)))`, ``, "it is renewed once", false},
		{stage, "renewal.go", expire + "\t" + r + ".over()\n", expire, "a holder that Redis does not answer is not told of the loss", false},
		{stage, "renew.lua", `redis.call('PEXPIRE', KEYS[1], ARGV[2])`, ``, "nothing is renewed", true},
		{stage, context, turn + `.onEnd = append(` + turn + `.onEnd, cancel)`, `_ = cancel`, "nobody is told of a loss", true},
	}
}

// queueing returns the faults of the queue, which v7 and v8 share.
func queueing(stage string) []Mutant {
	return []Mutant{
		{stage, "lock.lua", `(first and first ~= ARGV[1])`, `false`, "a newcomer overtakes those in the queue", true},
		{stage, "lock.lua", `or 0) <= now do`, `or 0) < 0 do`, "dead waiters stay in the queue", false},
		{stage, "lock.lua", `redis.call('HSET', KEYS[3], ARGV[1], now + ARGV[2]) == 1 then`, `redis.call('HSET', KEYS[3], ARGV[1], now + ARGV[2]) >= 0 then`, "an owner is in the queue many times", false},
		{stage, "lock.lua", `      redis.call('PEXPIRE', KEYS[2], 2 * ARGV[2])`, ``, "the queue stays for ever", false},
		{stage, "lock.lua", `  redis.call('LPOP', KEYS[2]) --`, `  --`, "an owner that has the lock is in the queue still", false},
		{stage, "lock.lua", `redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2])`, `false`, "the lock of a dead holder stays", false},
		{stage, "unlock.lua", `redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0`, `redis.call('EXISTS', KEYS[1]) == 0`, "a late holder gives away the next one's lock", false},
		{stage, "unlock.lua", `until not first or left > 0`, `until true`, "the lock is handed to the dead", false},
		{stage, "unlock.lua", `redis.call('HSET', KEYS[1], first, 0)`, `redis.call('HSET', KEYS[1], first, 1)`, "the waiter that is handed the lock counts twice", true},
		{stage, "unlock.lua", `    redis.call('PEXPIRE', KEYS[1], left) --`, `    --`, "a waiter that is dead keeps the lock", false},
		{stage, "unlock.lua", `    redis.call('RPUSH', KEYS[1] .. ':wake:' .. first, 'held')`, ``, "nobody is woken", false},
		{stage, "leave.lua", `redis.call('LREM', KEYS[2], 1, ARGV[1])`, ``, "one who has left stays in the queue", false},
		{stage, "leave.lua", `redis.call('HGET', KEYS[1], ARGV[1]) ~= '0'`, `true`, "a lock that was handed to one who has left stays for a ttl", false},
		{stage, "leave.lua", `redis.call('HGET', KEYS[1], ARGV[1]) ~= '0'`, `redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0`, "an owner that has left and come back loses its lock", false},
		{stage, "leave.lua", `until not first or left > 0`, `until true`, "one who leaves hands the lock to nobody", false},
		{stage, "queue.go", `m.ask(context.WithoutCancel(ctx), owner, 1)`, `m.ask(ctx, owner, 1)`, "a question that was cut off is granted the lock, and nobody knows", false},
		{stage, "queue.go", `			go m.quit(owner) //`, `			//`, "one who left with its question on the way stays in the queue", false},
		{stage, "queue.go", `context.AfterFunc(ctx, func() { m.quit(owner) })()`, `func() {}()`, "one who is cancelled waits on", true},
		{stage, "queue.go", `min(m.ttl/3, time.Second, left)`, `min(time.Second, left)`, "a waiter gives no sign of life within a short ttl", false},
		{stage, "queue.go", `min(m.ttl/3, time.Second, left)`, `min(m.ttl/3, time.Second)`, "a lock that has expired waits for a look of the first in the queue", false},
		{stage, "queue.go", `		return // so many fail`, `		// so many fail`, "all who leave try again at once while Redis is away", false},
		{stage, "queue.go", `err == nil || errors.Is(err, redis.ErrClosed)`, `err == nil || !errors.Is(err, redis.ErrClosed)`, "a waiter that could not leave does not try again", false},
	}
}

// cohort returns the faults of v9.
func cohort(stage string) []Mutant {
	return []Mutant{
		{stage, "renewal.go", `expires: sent.Add(ttl)}`, `expires: time.Now().Add(ttl)}`, "the lease is counted from the answer", false},
		{stage, "renew.lua", `if redis.call('GET', KEYS[1]) ~= ARGV[1] then`, `if redis.call('EXISTS', KEYS[1]) == 0 then`, "it renews another holder's lock", false},
		{stage, "cohort.go", `lost := h.over()`, `lost := false`, "a hold that is lost is handed on", false},
		{stage, "cohort.go", `c.hold != nil && c.hold.over()`, `false`, "a grant that came too late lets somebody in", false},
		{stage, "cohort.go", `h.passes < maxPasses`, `true`, "a process keeps the lock for itself for a ttl", false},
		{stage, "cohort.go", ` && time.Since(h.since) < c.ttl`, ``, "a process keeps the lock for 64 long turns", false},
		{stage, "cohort.go", `		go c.giveUp(c.ticket, c.ttl)`, ``, "the lock is handed to a process in which nobody waits", false},
		{stage, "cohort.go", `c.waiting.PushBack(w)`, `c.waiting.PushFront(w)`, "last come, first served", false},
		{stage, "cohort.go", `		go c.giveUp(h.ticket, h.ttl) //`, `		//`, "a lock that only the process believes lost stays for a ttl", false},
		{stage, "turn.go", `	case t.hold.over():`, `	case false:`, "an owner enters again into a lock that is lost", false},
		{stage, "turn.go", `	t.depth++`, ``, "an inner Unlock frees the outer hold", false},
		{stage, "turn.go", `t.hold.over() || t.cause != nil`, `t.hold.over()`, "the context of a former holder is alive", false},
		{stage, "renewal.go", `	if c := h.cohort; c.hold == h {`, `	if c := h.cohort; false && c.hold == h {`, "a lost hold shuts its own process out", false},
		{stage, "renewal.go", `			c.holder.end(cause)`, `			_ = cause`, "nobody is told of a loss", false},
		{stage, "handover.go", `		go c.giveUp(ticket, m.ttl) //`, `		//`, "a lock whose reply was lost stays for a ttl", false},
		{stage, "handover.go", `		go c.giveUp(h.ticket, h.ttl)`, ``, "an Unlock that failed is not tried again", false},
		{stage, "handover.go", `		go c.giveUp(again, ttl) //`, `		//`, "the lock comes back to a process in which nobody waits any more", false},
		{stage, "handover.go", `	h.end(context.Canceled) //`, `	//`, "the renewal goes on after the Unlock", false},
		{stage, "handover.go", `	h.inFlight.Wait()`, ``, "a renewal is on its way after the Unlock", false},
		{stage, "handover.go", `newHold(c, ticket, token, m.ttl, sent)`, `newHold(c, ticket, token, m.ttl, time.Now().Add(0*time.Until(sent)))`, "the lease is counted from the answer to TryLock", false},
		{stage, "handover.go", `newHold(c, again, n, ttl, sent)`, `newHold(c, h.ticket, n, ttl, sent)`, "a process works on by a ticket that is given back", false},
		{stage, "queue.go", `newHold(c, ticket, token, ttl, sent)`, `newHold(c, ticket, token, ttl, time.Now().Add(0*time.Until(sent)))`, "the lease of a waiter is counted from when it was woken", false},
		{stage, "queue.go", `min(ttl/3, time.Second)`, `time.Second`, "a waiter gives no sign of life within a short ttl", false},
		{stage, "queue.go", `			go c.giveUp(ticket, ttl) //`, `			//`, "the ticket of one who left is queued after it was given up", false},
		{stage, "queue.go", `		return // so many fail`, `		// so many fail`, "all tickets are tried again at once while Redis is away", false},
		{stage, "queue.go", `err == nil || errors.Is(err, redis.ErrClosed)`, `err == nil || !errors.Is(err, redis.ErrClosed)`, "a ticket that could not be given up is not tried again", false},
		{stage, "queue.go", `done := ticket, gone || err != nil || token > 0`, `done := ticket, gone || err != nil`, "two ask for one process", false},
		{stage, "lock.lua", `(not first or first == ARGV[1])`, `true`, "a newcomer overtakes those in the queue", false},
		{stage, "lock.lua", `ARGV[1], 'PX', ARGV[2])`, `ARGV[1])`, "the lock of a dead holder stays", false},
		{stage, "lock.lua", `  redis.call('PEXPIRE', KEYS[1], ARGV[2])`, ``, "the lease of a ticket that asks twice is counted from the second time, and Redis counts from the first", false},
		{stage, "lock.lua", `or 0) <= now do`, `or 0) < 0 do`, "dead waiters stay in the queue", false},
		{stage, "lock.lua", `  if redis.call('HEXISTS', KEYS[3], ARGV[1]) == 0 then`, `  if true then`, "a ticket stands in the queue many times", false},
		{stage, "lock.lua", `  redis.call('PEXPIRE', KEYS[2], 2 * ARGV[2])`, ``, "the queue stays for ever", false},
		{stage, "unlock.lua", `if redis.call('GET', KEYS[1]) ~= ARGV[1] then`, `if redis.call('EXISTS', KEYS[1]) == 0 then`, "a late holder gives away the next one's lock", false},
		{stage, "unlock.lua", `first, 'PX', left)`, `first, 'PX', ARGV[2])`, "the next one relies on more than Redis keeps", false},
		{stage, "unlock.lua", `until not first or left > 0`, `until true`, "the lock is handed to the dead", false},
		{stage, "unlock.lua", `  redis.call('RPUSH', KEYS[2], ARGV[3])`, ``, "those who wait in the process lose their place", false},
		{stage, "leave.lua", `redis.call('LREM', KEYS[2], 1, ARGV[1])`, ``, "one who has left stays in the queue", false},
		{stage, "leave.lua", `if redis.call('GET', KEYS[1]) == ARGV[1] then`, `if false then`, "a lock that was handed to one who has left stays for a ttl", false},
		{stage, "unlock.lua", `first, 'PX', left)`, `first)`, "a waiter that is dead keeps the lock", false},
		{stage, "unlock.lua", `ARGV[3], 'PX', ARGV[2])`, `ARGV[3])`, "a lock that a process keeps has no expiry", false},
		{stage, "lock.lua", `math.max(last + ARGV[4], time[1] * 1000000 + time[2])`, `time[1] * 1000000 + time[2]`, "tokens repeat while the clock stands still", false},
		{stage, "lock.lua", `math.max(last + ARGV[4], time[1] * 1000000 + time[2])`, `last + ARGV[4]`, "tokens begin anew when the last one is forgotten", false},
		{stage, "unlock.lua", `math.max(last + ARGV[4], time[1] * 1000000 + time[2])`, `last`, "the next process gets the token of the one before", false},
		{stage, "lock.lua", `string.format('%.0f', token), 'PX', 2 * ARGV[2])`, `string.format('%.0f', token))`, "the token stays for ever", false},
		{stage, "token.go", `h.first + int64(h.passes)`, `h.first`, "holders of a process have the same token", false},
		{stage, "queue.go", `wait, maxPasses+1).Int64()`, `wait, 1).Int64()`, "tokens of two processes overlap", false},
		{stage, "renew.lua", `redis.call('PEXPIRE', KEYS[2], 2 * ARGV[2])`, ``, "the last token is forgotten while the lock is held", false},
	}
}
