// Rows for the lanes, from a trace of the scheduler, where each command is answered at once.

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

  for (const { at_ms: at, kind, text, message, reply, ttl_ms: ttl = null, ...event } of trace) {
    expire(at);
    const actor = actors.indexOf(event.actor);
    const holder = event.lock;
    if (holder) lock = { holder, holding: actors.indexOf(holder.split(" ")[0]), ttl, since: at };
    if (kind === "hold") believe.add(actor);
    if (["release", "lost"].includes(kind) || (kind === "fault" && text === "killed")) believe.delete(actor);
    const said = kind === "command" ? text : told(text, message);
    add(at, { actor, kind, text: said, reply: reply?.startsWith("(") ? told(reply) : reply });
  }
  expire(now);
  if (now > (rows.at(-1)?.at ?? 0)) add(now, { actor: -1, kind: "note", text: t("play.nowrow") });
  return { actors, unit: "ms", lock: trace.some(({ lock: seen }) => seen), free: told("free"), rows };
}

const time = (ms) => String(Math.round(ms * 10) / 10);
