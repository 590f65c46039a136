package stages

// A fixingLine is a line by which a stage fixes an anomaly. It is named by a
// text that is in no other line of the stage.
type fixingLine struct{ stage, anomaly, text string }

// fixingLines returns the lines that fix something. Which anomalies a stage
// fixes is on the lab's record; by which of its lines it does so, only a reader
// of the source can say. An anomaly may have several lines.
func fixingLines() []fixingLine {
	return []fixingLine{
		{"v1_setnx", "lost-update", `m.rdb.SetNX(ctx, m.key, "held", 0)`},
		{"v1_setnx", "local-mutex-across-instances", `m.rdb.SetNX(ctx, m.key, "held", 0)`},
		{"v1_setnx", "paused-writer", `m.rdb.SetNX(ctx, m.key, "held", 0)`}, // 0: it never runs out
		{"v1_setnx", "cache-stampede", `m.rdb.SetNX(ctx, m.key, "held", 0)`},
		{"v1_setnx", "cache-load-per-instance", `m.rdb.SetNX(ctx, m.key, "held", 0)`},
		{"v1_setnx", "cache-load-outlives-lease", `m.rdb.SetNX(ctx, m.key, "held", 0)`},

		{"v2_ttl", "orphan-after-crash", `m.rdb.SetNX(ctx, m.key, "held", m.ttl)`},
		{"v2_ttl", "crash-before-expire", `m.rdb.SetNX(ctx, m.key, "held", m.ttl)`},
		{"v2_ttl", "handed-on-holder-dies", `m.rdb.SetNX(ctx, m.key, "held", m.ttl)`},
		{"v2_ttl", "forgotten-unlock", `m.rdb.SetNX(ctx, m.key, "held", m.ttl)`},

		{"v3_uuid", "foreign-delete", `err == nil && token != m.token`},
		{"v3_uuid", "foreign-delete-chain", `err == nil && token != m.token`},
		{"v3_uuid", "foreign-unlock", `err == nil && token != m.token`},
		{"v3_uuid", "late-unlock-not-told", `err == nil && token != m.token`},
		{"v3_uuid", "lost-hold-handed-on", `err == nil && token != m.token`},
		{"v3_uuid", "unlock-after-failed-acquire", `err == nil && token != m.token`},
		{"v3_uuid", "repeated-unlock", `err == nil && token != m.token`},
		{"v3_uuid", "failed-re-entry-frees-outer", `token := uuid.NewString()`},
		{"v3_uuid", "failed-re-entry-frees-outer", `err == nil && token != m.token`},
		{"v3_uuid", "token-not-unique", `token := uuid.NewString()`},
		{"v3_uuid", "token-not-unique", `err == nil && token != m.token`},

		{"v4_lua", "check-then-delete", `unlockScript.Run(`},
		{"v4_lua", "check-then-delete", `if redis.call('GET', KEYS[1]) ~= ARGV[1] then`},
		{"v4_lua", "check-then-delete", `redis.call('DEL', KEYS[1])`},

		{"v5_reentrant", "nested-acquire", `redis.call('EXISTS', KEYS[1]) == 1 and`},
		{"v5_reentrant", "nested-acquire", `redis.call('HINCRBY', KEYS[1], ARGV[1], 1)`},

		{"v6_watchdog", "expires-while-held", `time.AfterFunc(ttl/3, r.renew)`},
		{"v6_watchdog", "expires-while-held", `renewScript.Run(`},
		{"v6_watchdog", "long-work", `time.AfterFunc(ttl/3, r.renew)`},
		{"v6_watchdog", "long-work", `renewScript.Run(`},
		{"v6_watchdog", "cache-load-outlives-lease", `time.AfterFunc(ttl/3, r.renew)`},
		{"v6_watchdog", "cache-load-outlives-lease", `renewScript.Run(`},
		{"v6_watchdog", "late-reply", `ttl: ttl, expires: sent.Add(ttl)}`},
		{"v6_watchdog", "late-reply", `if !time.Now().Before(r.expires) {`},
		{"v6_watchdog", "cut-off-holder", `if !time.Now().Before(r.expires) {`},
		{"v6_watchdog", "cut-off-holder", `r.end(errors.Join(ErrLost, r.failed))`},
		{"v6_watchdog", "loss-not-told", `case err == nil && n == 0:`},
		{"v6_watchdog", "loss-not-told", `r.onEnd = append(r.onEnd, cancel)`},

		{"v7_queue", "starvation", `(first and first ~= ARGV[1])`},
		{"v7_queue", "starvation", `redis.call('RPUSH', KEYS[2], ARGV[1])`},
		{"v7_queue", "starvation", `    redis.call('HSET', KEYS[1], first, 0)`},
		{"v7_queue", "retry-storm", `"blpop", m.key+":wake:"+owner`},
		{"v7_queue", "retry-storm", `    redis.call('RPUSH', KEYS[1] .. ':wake:' .. first, 'held')`},

		{"v8_fenced", "paused-writer", `token = math.max(token + 1,`},
		{"v8_fenced", "paused-writer", `m.token = grant[1]`},
		{"v8_fenced", "paused-writer", `func (m *Mutex) Token() int64 {`},

		{"v9_cohort", "lost-reply-asks-again", `go c.giveUp(ticket, m.ttl) // it may have been taken`},
		{"v9_cohort", "failed-re-entry-frees-outer", `t.depth++`},
		{"v9_cohort", "failed-re-entry-frees-outer", `if t.depth--; t.depth > 0 {`},
		{"v9_cohort", "token-not-unique", `func newTicket() string`},
	}
}
