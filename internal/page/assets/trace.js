// Rows for the lanes, from a trace of the scheduler.

import { t, told } from "./text.js";

/** rowsOf returns the events, each with the state after it. */
export function rowsOf(trace, actors, now) {
  const rows = [];
  let lock = { holder: undefined, holding: -1, ttl: null, since: 0 };
  const believe = new Set();

  const add = (at, row) => {
    const ttl = lock.ttl == null ? undefined : lock.since + lock.ttl - at;
    const left = ttl === undefined ? undefined : time(ttl);
    const { holder, holding } = lock;
    const after = { holder, holding, ttl, left, believe: [...believe].sort() };
    rows.push({ at, time: time(at), ...row, ...after });
  };
  const expire = (at) => {
    if (lock.ttl == null || lock.since + lock.ttl > at) return;
    const { since, ttl, holding } = lock;
    lock = { holder: "free", holding: -1, ttl: null, since: 0 };
    add(since + ttl, { actor: holding, kind: "expiry", text: t("play.expired") });
  };

  const sent = new Map(); // the indices of the rows that wait for a reply, by event
  for (const { at, event, waits, answers } of moments(trace)) {
    expire(at);
    const { kind, text, message, reply, ttl_ms: ttl = null, lock: holder } = event;
    const actor = actors.indexOf(event.actor);
    if (holder && !answers) lock = { holder, holding: actors.indexOf(holder.split(" ")[0]), ttl, since: at };
    if (kind === "hold") believe.add(actor);
    if (["release", "lost"].includes(kind) || (kind === "fault" && text === "killed")) believe.delete(actor);
    const said = kind === "command" ? text : told(text, message);
    const answer = reply?.startsWith("(") ? told(reply) : reply;
    if (waits) sent.set(event, rows.length);
    if (answers) rows[sent.get(event)].arrives = rows.length;
    add(at, { actor, kind, text: said, reply: waits ? undefined : answer, waits, answers });
  }
  expire(now);
  if (now > (rows.at(-1)?.at ?? 0)) add(now, { actor: -1, kind: "note", text: t("play.nowrow") });
  return { actors, unit: "ms", lock: trace.some(({ lock: seen }) => seen), free: told("free"), rows };
}

/**
 * moments returns the events in chronological order. A command that blocked in Redis while others acted is there twice:
 * when it was sent, and when its reply arrived, which is before its actor's next event.
 */
function moments(trace) {
  return trace.flatMap((event, i) => {
    const { at_ms: at, until_ms: until = 0, actor } = event;
    const overtaken = trace.some((other) => other.actor !== actor && other.at_ms > at && other.at_ms <= until);
    if (!overtaken) return [{ at, event, order: i }];
    const next = trace.findIndex((other) => other.actor === actor && other.at_ms === until);
    const order = (next < 0 ? trace.length : next) - 0.5;
    return [{ at, event, order: i, waits: true }, { at: until, event, order, answers: true }];
  }).sort((a, b) => a.at - b.at || a.order - b.order);
}

const time = (ms) => String(Math.round(ms * 10) / 10);
