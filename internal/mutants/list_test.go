package mutants

import (
	"path"
	"slices"
)

// mutant is one fault that is put into the source of a lock.
type mutant struct {
	Stage    string // the name of a folder in internal/locks
	File     string // the name of the file in that folder
	Old, New string // the text to replace, which occurs once in the file, and its replacement
	Breaks   string // what goes wrong with the fault
}

// path returns the path of the mutated file, relative to the root of the module.
func (m mutant) path() string { return path.Join("internal/locks", m.Stage, m.File) }

func (m mutant) edit() edit { return edit{m.path(), m.Old, m.New} }

// carriedOver lists the files that a stage has copied byte for byte from the stage before. A test of
// package locktest fails if they differ. Faults are put only into the file of the earlier stage.
var carriedOver = map[string][]string{
	"v7_queue":  {"renewal.go", "renew.lua"},
	"v8_fenced": {"unlock.lua", "leave.lua", "sleep.go"},
	"v9_cohort": {"sleep.go"},
}

// all returns the mutants of all locks, without those of carried-over files.
func all() []mutant {
	return slices.DeleteFunc(each(), func(m mutant) bool { return slices.Contains(carriedOver[m.Stage], m.File) })
}

func each() []mutant {
	list := []mutant{
		{"v2_ttl", "mutex.go", `"held", m.ttl)`, `"held", 0)`, "the lock of a dead holder stays"},
		{"v2_ttl", "mutex.go", `if n == 0 {`, `if n < 0 {`, "an Unlock does not report that the lock had expired"},

		{"v3_uuid", "mutex.go", `token, m.ttl).Result()`, `token, 0).Result()`, "the lock of a dead holder stays"},
		{"v3_uuid", "mutex.go", `err == nil && token != m.token`, `token == ""`,
			"a late holder deletes the next holder's lock"},
		{"v3_uuid", "mutex.go", `if ok || err != nil {`, `if ok {`, "a lock whose reply was lost cannot be released"},

		{"v4_lua", "mutex.go", `token, m.ttl).Result()`, `token, 0).Result()`, "the lock of a dead holder stays"},
		{"v4_lua", "mutex.go", `if ok || err != nil {`, `if ok {`, "a lock whose reply was lost cannot be released"},
		{"v4_lua", "unlock.lua", `redis.call('GET', KEYS[1]) ~= ARGV[1]`, `redis.call('EXISTS', KEYS[1]) == 0`,
			"a late holder deletes the next holder's lock"},
		{"v4_lua", "mutex.go", `context.WithoutCancel(ctx)`, `ctx`, "a cancelled caller leaves the lock behind"},

		{"v5_reentrant", "lock.lua", ` and redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0`, ``,
			"the owner waits for itself"},
		{"v5_reentrant", "lock.lua", `redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2])`, `n == 1`,
			"a re-entry does not lengthen the lease"},
		{"v5_reentrant", "lock.lua", `redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2])`, `n > 1`,
			"the lock of a dead holder stays"},
		{"v5_reentrant", "lock.lua", `redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2])`, `true`,
			"a re-entry shortens the lease"},
		{"v5_reentrant", "unlock.lua", `if n == 0 then`, `if n >= 0 then`, "an inner Unlock frees the outer hold"},
		{"v5_reentrant", "unlock.lua", `redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0`,
			`redis.call('EXISTS', KEYS[1]) == 0`, "a late holder is counted in the next holder's lock"},
	}
	for _, stage := range []string{"v6_watchdog", "v7_queue", "v8_fenced"} {
		list = append(list, renewing(stage, "r", "renewal", "mutex.go", "r")...)
		list = append(list,
			mutant{stage, "renewal.go", `expires: sent.Add(ttl)}`, `expires: time.Now().Add(ttl)}`,
				"the lease is counted from the answer"},
			mutant{stage, "renew.lua", `if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then`,
				`if redis.call('EXISTS', KEYS[1]) == 0 then`, "the renewal extends another holder's lock"},
			mutant{stage, "renewal.go", "	delete(holds, h)\n	r.end(context.Canceled)\n", "	delete(holds, h)\n",
				"the renewal goes on after the Unlock"},
			mutant{stage, "renewal.go", `if r != nil && n == 1 {`, `if false {`,
				"a re-entry into a lost hold counts as one"},
			mutant{stage, "mutex.go", `		defer r.inFlight.Wait()`, `		_ = r`,
				"a renewal is in flight after the Unlock"},
		)
	}
	for _, stage := range []string{"v7_queue", "v8_fenced"} {
		list = append(list, queueing(stage)...)
	}
	list = append(list,
		mutant{"v8_fenced", "lock.lua", `math.max(token + 1, time[1] * 1000000 + time[2])`,
			`time[1] * 1000000 + time[2]`, "tokens repeat while the clock does not advance"},
		mutant{"v8_fenced", "lock.lua", `math.max(token + 1, time[1] * 1000000 + time[2])`, `token + 1`,
			"tokens restart when the last one has expired"},
		mutant{"v8_fenced", "lock.lua", `if n == 1 then`, `if n > 0 then`, "a re-entry has another token"},
		mutant{"v8_fenced", "lock.lua", `string.format('%.0f', token), 'PX', 2 * ARGV[2])`,
			`string.format('%.0f', token))`, "the token stays forever"},
		mutant{"v8_fenced", "renew.lua", `redis.call('PEXPIRE', KEYS[2], 2 * ARGV[2])`, ``,
			"the last token expires while the lock is held"},
	)
	for _, stage := range []string{"v7_queue", "v8_fenced", "v9_cohort"} {
		list = append(list, sleeping(stage)...)
	}
	list = append(list, renewing("v9_cohort", "h", "hold", "turn.go", "t")...)
	return append(list, cohort("v9_cohort")...)
}

// renewing returns the faults in a stage's renewal. In the stage, the renewal is the
// receiver r of type kind. The method Context is in the file named context, where turn
// is the variable to register the cancellation with.
func renewing(stage, r, kind, context, turn string) []mutant {
	expire := "func (" + r + " *" + kind + ") expire() {\n\tmu.Lock()\n\tdefer mu.Unlock()\n"
	return []mutant{
		{stage, "renewal.go", r + `.expires = sent.Add(` + r + `.ttl)`, r + `.expires = time.Now().Add(` + r + `.ttl)`,
			"the lease is counted from the answer to a renewal"},
		{stage, "renewal.go", r + `.lease.Reset(time.Until(` + r + `.expires))`, ``,
			"a renewed lock is reported as lost"},
		{stage, "renewal.go", `	case err == nil && n == 0:`, `	case n == 0:`, "one error of Redis loses the lock"},
		{stage, "renewal.go", `	case err == nil && n == 0:`, `	case err == nil && n < 0:`,
			"the renewal of a lost lock counts"},
		{stage, "renewal.go", r + `.next.Reset(time.Until(sent.Add(` + r + `.ttl / 3)))`, ``,
			"the lease is renewed only once"},
		{stage, "renewal.go", expire + "\t" + r + ".over()\n", expire,
			"a holder is not told of the loss while Redis does not answer"},
		{stage, "renew.lua", `redis.call('PEXPIRE', KEYS[1], ARGV[2])`, ``, "nothing is renewed"},
		{stage, context, turn + `.onEnd = append(` + turn + `.onEnd, cancel)`, `_ = cancel`,
			"a holder is not told of the loss"},
	}
}

// queueing returns the faults in the queue that v7 and v8 have.
func queueing(stage string) []mutant {
	return []mutant{
		{stage, "lock.lua", `(first and first ~= ARGV[1])`, `false`, "a newcomer overtakes those in the queue"},
		{stage, "lock.lua", `or 0) <= now do`, `or 0) < 0 do`, "crashed waiters stay in the queue"},
		{stage, "lock.lua", `redis.call('HSET', KEYS[3], ARGV[1], now + ARGV[2]) == 1 then`,
			`redis.call('HSET', KEYS[3], ARGV[1], now + ARGV[2]) >= 0 then`, "an owner is in the queue many times"},
		{stage, "lock.lua", `      redis.call('PEXPIRE', KEYS[2], 2 * ARGV[2])`, ``, "the queue stays forever"},
		{stage, "lock.lua", `  redis.call('LPOP', KEYS[2]) --`, `  --`,
			"an owner that got the lock is still in the queue"},
		{stage, "lock.lua", `redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2])`, `false`,
			"the lock of a dead holder stays"},
		{stage, "unlock.lua", `redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0`, `redis.call('EXISTS', KEYS[1]) == 0`,
			"a late holder releases the next holder's lock"},
		{stage, "unlock.lua", `until not first or left > 0`, `until true`,
			"the lock is handed to a waiter that has crashed"},
		{stage, "unlock.lua", `redis.call('HSET', KEYS[1], first, 0)`, `redis.call('HSET', KEYS[1], first, 1)`,
			"the waiter that is handed the lock counts twice"},
		{stage, "unlock.lua", `    redis.call('PEXPIRE', KEYS[1], left) --`, `    --`,
			"a crashed waiter that is handed the lock keeps it"},
		{stage, "unlock.lua", `    redis.call('RPUSH', KEYS[1] .. ':wake:' .. first, 'held')`, ``,
			"the next waiter is not woken"},
		{stage, "leave.lua", `redis.call('LREM', KEYS[2], 1, ARGV[1])`, ``,
			"a waiter that has left stays in the queue"},
		{stage, "leave.lua", `redis.call('HGET', KEYS[1], ARGV[1]) ~= '0'`, `true`,
			"a lock that was handed to a waiter that has left stays for a ttl"},
		{stage, "leave.lua", `redis.call('HGET', KEYS[1], ARGV[1]) ~= '0'`,
			`redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0`, "an owner that left and came back loses its lock"},
		{stage, "leave.lua", `until not first or left > 0`, `until true`,
			"a waiter that leaves does not hand the lock on"},
		{stage, "queue.go", `m.ask(context.WithoutCancel(ctx), owner, 1)`, `m.ask(ctx, owner, 1)`,
			"a request that was cancelled gets the lock, and its caller does not know"},
		{stage, "queue.go", `			go m.quit(owner) //`, `			//`,
			"a waiter that leaves during a request stays in the queue"},
		{stage, "queue.go", `context.AfterFunc(ctx, func() { m.quit(owner) })()`, `func() {}()`,
			"a cancelled waiter goes on waiting"},
		{stage, "queue.go", `min(m.ttl/3, time.Second, left)`, `min(time.Second, left)`,
			"a waiter does not refresh its place within a short ttl"},
		{stage, "queue.go", `min(m.ttl/3, time.Second, left)`, `min(m.ttl/3, time.Second)`,
			"the first waiter does not ask as soon as the lock has expired"},
		{stage, "queue.go", `		return // so many attempts`, `		// so many attempts`,
			"all waiters that leave retry at once while Redis is unavailable"},
		{stage, "queue.go", `err == nil || errors.Is(err, redis.ErrClosed)`,
			`err == nil || !errors.Is(err, redis.ErrClosed)`, "a waiter that could not leave does not retry"},
	}
}

// sleeping returns the faults in the code by which the waiters of v7, v8 and v9 sleep.
func sleeping(stage string) []mutant {
	return []mutant{
		{stage, "sleep.go", `s.blocking < poolSize(rdb)/2`, `true`, "waiters block the whole pool"},
		{stage, "sleep.go", `	s.blocking--`, ``,
			"a connection that was once blocked is never used by a waiter again"},
		{stage, "sleep.go", ` && now.Before(w.until)`, ` && now.Before(w.until) && false`,
			"a polled waiter asks for the lock after each poll"},
		{stage, "sleep.go", ` && now.Before(w.until)`, ` && (true || now.Before(w.until))`,
			"a polled waiter does not refresh its place"},
		{stage, "sleep.go", `s.polled[len(asked):]`, `s.polled[:0]`,
			"a waiter that comes during a poll is never woken"},
		{stage, "sleep.go", `			pause = 0`, ``, "polls are slow although messages come"},
		{stage, "sleep.go", `min(max(2*pause, minPause), maxPause)`, `max(2*pause, minPause)`,
			"a message is found long after it came"},
		{stage, "sleep.go", `max(pause, time.Duration(len(s.polled))*pausePerWaiter)`, `pause`,
			"thousands of polled waiters keep Redis busy"},
		{stage, "sleep.go", `, time.Until(first.until))`, `, max(time.Hour, time.Until(first.until)))`,
			"a polled waiter with little time refreshes its place late"},
	}
}

// cohort returns the faults in v9.
func cohort(stage string) []mutant {
	return []mutant{
		{stage, "renewal.go", `expires: sent.Add(ttl)}`, `expires: time.Now().Add(ttl)}`,
			"the lease is counted from the answer"},
		{stage, "renew.lua", `if redis.call('GET', KEYS[1]) ~= ARGV[1] then`,
			`if redis.call('EXISTS', KEYS[1]) == 0 then`, "the renewal extends another holder's lock"},
		{stage, "cohort.go", `lost := h.over()`, `lost := false`, "a lost hold is handed on"},
		{stage, "cohort.go", `c.hold != nil && c.hold.over()`, `false`,
			"a grant that arrives too late lets a waiter in"},
		{stage, "cohort.go", `h.passes < maxPasses`, `true`,
			"a process passes the lock among its own waiters for a whole ttl"},
		{stage, "cohort.go", ` && time.Since(h.since) < c.ttl`, ``, "a process passes the lock on for 64 long turns"},
		{stage, "cohort.go", `		go c.giveUp(c.ticket, c.ttl)`, ``,
			"the lock is handed to a process without waiters"},
		{stage, "cohort.go", `c.waiting.PushBack(w)`, `c.waiting.PushFront(w)`, "last come, first served"},
		{stage, "cohort.go", `		go c.giveUp(h.ticket, h.ttl) //`, `		//`,
			"a lock that only the process believes to be lost stays for a ttl"},
		{stage, "turn.go", `	case t.hold.over():`, `	case false:`, "an owner enters a lost lock again"},
		{stage, "turn.go", `	t.depth++`, ``, "an inner Unlock frees the outer hold"},
		{stage, "turn.go", `t.hold.over() || t.cause != nil`, `t.hold.over()`,
			"the context of a former holder does not end"},
		{stage, "renewal.go", `	if c := h.cohort; c.hold == h {`, `	if c := h.cohort; false && c.hold == h {`,
			"a lost hold shuts its own process out"},
		{stage, "renewal.go", `			c.holder.end(cause)`, `			_ = cause`, "a holder is not told of the loss"},
		{stage, "handover.go", `		go c.giveUp(ticket, m.ttl) //`, `		//`,
			"a lock whose reply was lost stays for a ttl"},
		{stage, "handover.go", `		go c.giveUp(h.ticket, h.ttl)`, ``, "a failed Unlock is not retried"},
		{stage, "handover.go", `		go c.giveUp(again, ttl) //`, `		//`,
			"the lock comes back to a process without waiters"},
		{stage, "handover.go", `	h.end(context.Canceled) //`, `	//`, "the renewal goes on after the Unlock"},
		{stage, "handover.go", `	h.inFlight.Wait()`, ``, "a renewal is in flight after the Unlock"},
		{stage, "handover.go", `newHold(c, ticket, token, m.ttl, sent)`,
			`newHold(c, ticket, token, m.ttl, time.Now().Add(0*time.Until(sent)))`,
			"the lease is counted from the answer to TryLock"},
		{stage, "handover.go", `newHold(c, again, n, ttl, sent)`, `newHold(c, h.ticket, n, ttl, sent)`,
			"a process goes on with a ticket that it has given back"},
		{stage, "queue.go", `newHold(c, ticket, token, ttl, sent)`,
			`newHold(c, ticket, token, ttl, time.Now().Add(0*time.Until(sent)))`,
			"the lease of a waiter is counted from when it was woken"},
		{stage, "queue.go", `min(ttl/3, time.Second)`, `time.Second`,
			"a waiter does not refresh its place within a short ttl"},
		{stage, "queue.go", `			go c.giveUp(ticket, ttl) //`, `			//`,
			"a ticket is queued after it was given up"},
		{stage, "queue.go", `		return // so many attempts`, `		// so many attempts`,
			"all tickets are retried at once while Redis is unavailable"},
		{stage, "queue.go", `err == nil || errors.Is(err, redis.ErrClosed)`,
			`err == nil || !errors.Is(err, redis.ErrClosed)`, "a ticket that could not be given up is not retried"},
		{stage, "queue.go", `done := ticket, gone || err != nil || token > 0`, `done := ticket, gone || err != nil`,
			"two waiters of one process ask at the same time"},
		{stage, "lock.lua", `(not first or first == ARGV[1])`, `true`, "a newcomer overtakes those in the queue"},
		{stage, "lock.lua", `ARGV[1], 'PX', ARGV[2])`, `ARGV[1])`, "the lock of a dead holder stays"},
		{stage, "lock.lua", `  redis.call('PEXPIRE', KEYS[1], ARGV[2])`, ``,
			"the lease of a ticket that asks twice is counted from the second time, and Redis counts from the first"},
		{stage, "lock.lua", `or 0) <= now do`, `or 0) < 0 do`, "crashed waiters stay in the queue"},
		{stage, "lock.lua", `  if redis.call('HEXISTS', KEYS[3], ARGV[1]) == 0 then`, `  if true then`,
			"a ticket is in the queue many times"},
		{stage, "lock.lua", `  redis.call('PEXPIRE', KEYS[2], 2 * ARGV[2])`, ``, "the queue stays forever"},
		{stage, "unlock.lua", `if redis.call('GET', KEYS[1]) ~= ARGV[1] then`,
			`if redis.call('EXISTS', KEYS[1]) == 0 then`, "a late holder releases the next holder's lock"},
		{stage, "unlock.lua", `first, 'PX', left)`, `first, 'PX', ARGV[2])`,
			"the next process counts on a longer lease than Redis grants"},
		{stage, "unlock.lua", `until not first or left > 0`, `until true`,
			"the lock is handed to a waiter that has crashed"},
		{stage, "unlock.lua", `  redis.call('RPUSH', KEYS[2], ARGV[3])`, ``,
			"the waiters in the process lose their place"},
		{stage, "leave.lua", `redis.call('LREM', KEYS[2], 1, ARGV[1])`, ``,
			"a waiter that has left stays in the queue"},
		{stage, "leave.lua", `if redis.call('GET', KEYS[1]) == ARGV[1] then`, `if false then`,
			"a lock that was handed to a waiter that has left stays for a ttl"},
		{stage, "unlock.lua", `first, 'PX', left)`, `first)`, "a crashed waiter that is handed the lock keeps it"},
		{stage, "unlock.lua", `ARGV[3], 'PX', ARGV[2])`, `ARGV[3])`, "a lock that a process keeps has no expiry"},
		{stage, "lock.lua", `math.max(last + ARGV[4], time[1] * 1000000 + time[2])`, `time[1] * 1000000 + time[2]`,
			"tokens repeat while the clock does not advance"},
		{stage, "lock.lua", `math.max(last + ARGV[4], time[1] * 1000000 + time[2])`, `last + ARGV[4]`,
			"tokens restart when the last one has expired"},
		{stage, "unlock.lua", `math.max(last + ARGV[4], time[1] * 1000000 + time[2])`, `last`,
			"the next process gets the token of the one before"},
		{stage, "lock.lua", `string.format('%.0f', token), 'PX', 2 * ARGV[2])`, `string.format('%.0f', token))`,
			"the token stays forever"},
		{stage, "token.go", `h.first + int64(h.passes)`, `h.first`, "holders of a process have the same token"},
		{stage, "queue.go", `wait, maxPasses+1).Int64()`, `wait, 1).Int64()`, "tokens of two processes overlap"},
		{stage, "renew.lua", `redis.call('PEXPIRE', KEYS[2], 2 * ARGV[2])`, ``,
			"the last token expires while the lock is held"},
	}
}
