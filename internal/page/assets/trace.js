// A trace of the scheduler, where each command is answered at once, as rows for
// the lanes.

import { t, told } from "./text.js";

const longScript = /«([^»]{22})[^»]{4,}»/g;

/** rowsOf tells events one by one, each with how things stand after it. */
export function rowsOf(trace, actors, now) {
  const rows = [];
  let lock = { holder: undefined, holding: -1, ttl: null, since: 0 };
  const believe = new Set();

  const add = (at, row) => {
    const ttl = lock.ttl == null ? undefined : lock.since + lock.ttl - at;
    const short = row.text.replace(longScript, "«$1…»");
    rows.push({
      at, time: time(at), ...row, short: short === row.text ? undefined : short,
      holder: lock.holder, holding: lock.holding, ttl, left: ttl === undefined ? undefined : time(ttl), believe: [...believe].sort(),
    });
  };
  const expire = (at) => {
    if (lock.ttl == null || lock.since + lock.ttl > at) return;
    const { since, ttl, holding } = lock;
    lock = { holder: "free", holding: -1, ttl: null, since: 0 };
    add(since + ttl, { actor: holding, kind: "expiry", text: t("play.expired") });
  };

  for (const event of trace) {
    expire(event.at_ms);
    const actor = actors.indexOf(event.actor);
    if (event.lock) lock = { holder: event.lock, holding: actors.indexOf(event.lock.split(" ")[0]), ttl: event.ttl_ms ?? null, since: event.at_ms };
    if (event.kind === "hold") believe.add(actor);
    if (event.kind === "release" || event.kind === "lost" || (event.kind === "fault" && event.text.includes("killed"))) believe.delete(actor);
    add(event.at_ms, { actor, kind: event.kind, text: event.kind === "command" ? event.text : told(event.text), reply: event.reply?.startsWith("(") ? told(event.reply) : event.reply });
  }
  expire(now);
  if (now > (rows.at(-1)?.at ?? 0)) add(now, { actor: -1, kind: "note", text: t("play.nowrow") });
  return { actors, unit: "ms", lock: trace.some(({ lock: seen }) => seen), free: told("free"), rows };
}

const time = (ms) => String(Math.round(ms * 10) / 10);
