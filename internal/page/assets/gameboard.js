// The board: the buyers, the shop between them, and the lock and the units, which change hands.

import { el, fact, put, scroll } from "./dom.js";
import { keyTable, svg } from "./lanes.js";
import { t, told } from "./text.js";

const moving = 450; // milliseconds that an object takes to its next place
const still = matchMedia("(prefers-reduced-motion: reduce)");

/** newGameBoard makes the board. move is called with the moves that the reader chooses. */
export function newGameBoard(move) {
  const board = el("div.gameboard");
  const objects = newObjects(board);
  const box = (name) => document.querySelector(`[data-focus="${CSS.escape(name)}"]:not(:disabled)`);
  return {
    node: board,
    /** show shows a state. The keyboard focus stays where it was, or moves to the next possible action. */
    show(state, spare) {
      const focus = document.activeElement?.dataset?.focus;
      const before = objects.seen();
      const places = { shop: shopOf(state, move) };
      const buyers = state.players.map((player, i) => buyerOf(player, i, state, move));
      for (const buyer of buyers) places[buyer.name] = buyer;
      board.className = `gameboard of${buyers.length}`;
      put(board, buyers[0].node, buyers.length === 3 && buyers[1].node, places.shop.node, buyers.at(-1).node);
      objects.place(state, places);
      objects.glide(before);
      if (!focus) return;
      (box(focus) ?? box(focus.replace(/\d*$/, "")) ?? board.querySelector(".step:not(:disabled)") ?? spare).focus();
    },
    blank: () => put(board),
    busy: (on) => board.setAttribute("aria-busy", String(on)),
  };
}

const shapes = {
  lock: ["M7 10V7a5 5 0 0 1 10 0v3", "M5 10h14v11H5z"],
  free: ["M7 10V6a5 5 0 0 1 9.8-1.4", "M5 10h14v11H5z"], // a lock that is open
  unit: ["M3 8l9-5 9 5v9l-9 5-9-5z", "M3 8l9 5 9-5", "M12 13v9"],
};

/** picture draws an object. */
function picture(kind) {
  const drawn = svg("svg", { viewBox: "0 0 24 24", "aria-hidden": "true" });
  for (const d of shapes[kind]) drawn.append(svg("path", { d }));
  return drawn;
}

/** newObjects keeps the lock and the units, so that they move from place to place and are not drawn anew. */
function newObjects(board) {
  const kept = new Map();
  const corner = () => board.getBoundingClientRect();

  function object(key, kind) {
    if (!kept.has(key)) kept.set(key, el(`span.object.${kind}`, picture(kind), el("span")));
    return kept.get(key);
  }

  return {
    /** seen returns where the objects are on the board. */
    seen: () => new Map([...kept].filter(([, o]) => o.isConnected).map(([key, o]) => [key, on(corner(), o)])),
    place(state, places) {
      for (const { key, kind, at, look, name } of [...locksOf(state), ...unitsOf(state)]) {
        const o = object(key, kind);
        o.className = `object ${kind} ${look ?? ""}`;
        o.firstChild.replaceWith(picture(look === "free" ? look : kind));
        o.lastChild.textContent = name;
        places[at][kind].append(o);
      }
    },
    glide(before) {
      if (still.matches) return;
      for (const [key, o] of kept) {
        if (!o.isConnected) continue;
        const [from, to] = [before.get(key), on(corner(), o)];
        const [x, y] = from ? [from.x - to.x, from.y - to.y] : [0, 0];
        if (from && Math.abs(x) + Math.abs(y) < 2) continue;
        const start = from ? { transform: `translate(${x}px, ${y}px)` } : { opacity: 0, transform: "scale(.4)" };
        o.animate([start, { opacity: 1, transform: "none" }], { duration: moving, easing: "ease-in-out" });
      }
    },
  };
}

/** on returns the position of an object, from a corner. */
function on({ x, y }, o) {
  const at = o.getBoundingClientRect();
  return { x: at.x - x, y: at.y - y };
}

/** locksOf returns where the lock is, and which buyers still believe that they hold it. */
function locksOf({ lock, players }) {
  if (!lock.redis) return [];
  const holder = players.find(({ name }) => name === lock.redis.split(" ")[0])?.name;
  const late = lock.inside.filter((name) => name !== holder);
  return [
    holder
      ? { key: "lock", kind: "lock", at: holder, name: t("play.object.lock") }
      : { key: "lock", kind: "lock", at: "shop", look: lock.redis === "free" ? "free" : "", name: t("moment.free") },
    ...late.map((at) => ({ key: `lock-${at}`, kind: "lock", at, look: "lost", name: t("play.object.believes") })),
  ];
}

/** unitsOf says where each unit is: on the shelf if it is in the stock, or with its buyer. A unit may be sold twice. */
function unitsOf({ sale, players, findings }) {
  const late = findings.filter(({ kind }) => kind === "oversold").map(({ actor }) => actor);
  const sold = players.filter((p) => p.sold).map(({ name }) => name);
  const at = [...sold.filter((name) => !late.includes(name)), ...late];
  const there = at.length + Math.max(0, sale.stock);
  return Array.from({ length: Math.max(there, sale.initial) }, (_, i) => {
    const look = i >= sale.initial ? "extra" : i >= there ? "gone" : "unit";
    return { key: `unit-${i}`, kind: "unit", at: at[i] ?? "shop", look, name: t(`play.object.${look}`, { n: i + 1 }) };
  });
}

/** buyerOf makes a buyer: what they have, what they are doing, and the moves that they allow. */
function buyerOf(player, index, state, move) {
  const { name, status, result, says, message, until_ms: until, read, wrote } = player;
  const can = (text) => state.can.includes(text);
  const act = (text, label) =>
    el("button.act", { "data-focus": text, disabled: !can(text), onclick: () => move(text) }, label);
  const known = [read != null && t("play.read", { n: read }), wrote != null && t("play.wrote", { n: wrote })].filter(
    Boolean
  );
  const [lock, unit] = [el("span.spot"), el("span.spot")];
  const node = el(`section.buyer.panel.a${index}.${status}`, { "aria-label": t("play.buyer", { name }) },
    el("h2", el("span.who", name), el("span.hands", lock, unit),
      el("span.marks",
        el(`span.mark.status.${result ?? status}`, t(result ? `play.result.${result}` : `play.status.${status}`)),
        player.inside && el("span.mark.inside", t("play.inside")))),
    el("p.small.says", told(says, message), until != null && t("play.until", { ms: until })),
    el("ol.pending", { "aria-label": t("play.pending", { name }) }, player.pending.map((p) => pendingOf(p, can, move))),
    el("div.pair.acts", can(`t${name}`) ? act(`t${name}`, t("play.thaw")) : act(`f${name}`, t("play.freeze")),
      act(`k${name}`, t("play.kill")), el("span.small.memory", known.join(" "))));
  return { name, node, lock, unit };
}

/** pendingOf makes a command that a buyer is about to send, whose reply can be lost. */
function pendingOf({ move: own, text, from, script, given_up: givenUp }, can, move) {
  const lose = `l${own}`;
  const label = t("play.lose", { command: text });
  const send = () => move(own);
  return el("li",
    el("div.sending",
      el("button.step", { "data-focus": own, disabled: !can(own), title: text, onclick: send },
        el("span.command", el("span.go", { "aria-hidden": "true" }, "▸ "), el("code", text)),
        from === "watchdog" && el("span.small", ` ${t("play.watchdog")}`),
        givenUp && el("span.small", ` ${t("play.givenup")}`)),
      el("button.lose", {
        "data-focus": lose,
        disabled: !can(lose),
        title: t("play.losing"),
        "aria-label": label,
        onclick: () => move(lose),
      }, "✂")), script && el("details.script", el("summary", t("play.script")), el("pre", script)));
}

/** leaseless lists the strategies without a ttl. */
const leaseless = new Set(["none", "local", "watch", "v1_setnx"]);

/** shopOf makes the shop: its shelf, the lock while it is free, and the clock. */
function shopOf(state, move) {
  const { lock, sale } = state;
  const [free, unit] = [el("span.spot"), el("span.spot")];
  const by = { name: lock.redis.split(" ")[0], ms: lock.ttl_ms };
  const held = lock.redis !== "free" && t(by.ms > 0 ? "play.heldleft" : "play.heldby", by);
  const node = el("section.panel.shopdesk", { "aria-label": t("play.shop") },
    el("div.shelf", el("h2", t("play.shop")), el("span.small", t("play.shelf", { n: sale.stock })), unit),
    lock.redis && el("div.shelf", el("h2", t("moment.lock")), el("span.small", held), free),
    el("div.time", ...clock(state, move)));
  return { node, lock: free, unit };
}

/** clock makes the clock, and the moves that let time pass. */
function clock(state, move) {
  const can = state.can.some((text) => text.startsWith("p"));
  const lease = Math.ceil(state.lock.ttl_ms);
  const pass = ([ms, label]) => {
    const disabled = !can || ms > state.left_ms;
    return el("button", { "data-focus": `p-${label}`, disabled, onclick: () => move(`p${ms}`) }, label);
  };
  const amounts = [100, 1000].map((ms) => [ms, t("play.pass", { ms })]);
  if (!leaseless.has(state.strategy)) amounts.push([state.ttl_ms, t("play.pass.ttl", { ms: state.ttl_ms })]);
  if (lease > 0 && lease !== state.ttl_ms) amounts.push([lease, t("play.pass.lease", { ms: lease })]);
  return [el("h2", t("play.time"), " ", el("span.now", t("play.now", { ms: state.now_ms }))),
    el("div.pair", amounts.map(pass))];
}

/** booksOf shows the data in Redis, the sales, and what went wrong. */
export function booksOf({ lock, sale, keys, findings }) {
  const ttl = ({ ttl_ms: ms }) => (ms == null ? "–" : t("play.ms", { ms }));
  const finding = ({ at_ms: ms, kind, text, message }) =>
    el("li", { class: kind === "overlap" || kind === "refused" ? null : "alarm" }, t("play.ms", { ms }), " · ",
      told(text, message));
  return [el("h2", t("play.redis")),
    findings.length > 0 && el("ul.findings", findings.map(finding)),
    scroll(t("play.redis"), keyTable(keys.map((key) => ({ ...key, ttl: ttl(key) })), (name) => t(`play.key.${name}`))),
    el("dl.books", lock.redis && fact("moment.lock", lock.redis === "free" ? t("moment.free") : lock.redis),
      fact("play.inside.now", lock.inside.join(t("page.and")) || t("moment.nobody"), lock.inside.length > 1),
      fact("books.initial", sale.initial), fact("books.remaining", sale.stock),
      fact("books.sold", sale.sold, sale.oversold > 0), fact("books.oversold", sale.oversold, sale.oversold > 0),
      fact("books.lost", sale.lost_updates, sale.lost_updates > 0))];
}
