// Be the scheduler: the reader chooses who takes the next step. The whole schedule is in
// the address; the engine works out what it leads to.

import { call } from "./api.js";
import { copy, el, put } from "./dom.js";
import { keyTable } from "./lanes.js";
import { newProof } from "./proof.js";
import { named, remember, remembered, t, told } from "./text.js";
import { newTimeline } from "./timeline.js";
import { rowsOf } from "./trace.js";

const pace = 800; // milliseconds a move, while it is replayed
const wonLevels = "won"; // the levels that were made to oversell, in this browser

/** here is the address of a schedule. */
const here = ({ strategy, buyers, moves }) =>
  `#/play/${strategy}/${moves.join(".")}${buyers === 2 ? "" : `?buyers=${buyers}`}`;

/** levelOf is the strategy, the number of buyers and the moves that an address names. */
const levelOf = ({ of: [strategy = "none", moves = ""], query }) => ({
  strategy,
  buyers: Number(query.get("buyers")) || 2,
  moves: moves === "" ? [] : moves.split("."),
});

/** show shows the schedule of the address. */
export async function show(box, at, page) {
  const { signal } = page;
  const asking = ["/api/schedule/levels", "/api/strategies", "/api/schedule/record"].map((at) => call(at, { signal }));
  const [{ levels }, { strategies }, record] = await Promise.all(asking);
  let level = { strategy: "", buyers: 2, moves: [] };
  let asked = 0; // counts the requests, so that an old reply does not replace a newer one
  let own = false; // the last move was the reader's, and not from a link or the engine

  const replayer = newReplayer(ask, (on) => frame.replaying(on));
  const replay = () => replayer.replay(level.moves);
  const frame = newFrame(levels, {
    level: (strategy) => location.hash = here({ ...level, strategy, moves: [] }),
    crowd: (buyers) => location.hash = here({ ...level, buyers, moves: [] }),
    move(text) {
      if (replayer.running()) return;
      own = true;
      go([...level.moves, text]);
    },
    undo: () => go(level.moves.slice(0, -1)),
    restart: () => go([]),
    replay,
    link: (button) => copy(button, location.href, t("page.copied"), t("page.copy.by.hand")),
  });
  const proof = newProof(record, playFound);
  box.append(...frame.nodes, proof.node);
  signal.addEventListener("abort", () => {
    replayer.halt();
    asked++;
    proof.close();
    frame.close();
  });

  /** go goes to another schedule by its address, so that the back button undoes. */
  function go(moves) {
    replayer.halt();
    location.hash = here({ ...level, moves });
  }

  const showLevel = () => frame.level(level, strategies.find(({ name }) => name === level.strategy));

  const update = (address) => ask(change(levelOf(address)).moves);

  /** change goes to a schedule, perhaps of another level, which is not shown yet. */
  function change(next) {
    replayer.halt();
    if (next.strategy !== level.strategy || next.buyers !== level.buyers) frame.blank();
    level = next;
    page.title(`${t("nav.play")}: ${level.strategy}`);
    showLevel();
    return proof.level(level);
  }

  /** ask has moves played, and shows what they lead to. */
  async function ask(moves) {
    const mine = ++asked;
    frame.busy(true);
    try {
      const state = await call("/api/schedule", { method: "POST", body: { ...level, moves: moves.join(".") } });
      if (mine !== asked) return;
      if (own && state.verdict.outcome === "won" && winLevel(level.strategy)) showLevel();
      frame.state(state, level.moves.length);
    } catch (error) {
      if (mine === asked) frame.failed(error);
    }
    frame.busy(false);
  }

  /** playFound replays what a search found, on its level. */
  function playFound({ strategy, buyers, moves }) {
    own = false;
    const found = { strategy, buyers, moves: moves.split(".") };
    if (location.hash !== here(found)) history.pushState(null, "", here(found));
    change(found);
    document.querySelector("h1").scrollIntoView();
    replay();
  }

  await update(at);
  return { update };
}

/** newReplayer replays moves one after the other. shown is told when it begins and ends. */
function newReplayer(ask, shown) {
  let timer = 0;
  function halt() {
    clearTimeout(timer);
    timer = 0;
    shown(false);
  }
  return {
    halt,
    running: () => timer !== 0,
    /** replay begins, or ends a replay that is under way. */
    replay(moves) {
      if (timer) return void (halt(), ask(moves));
      let n = 0;
      const next = async () => {
        await ask(moves.slice(0, n));
        if (timer === 0) return;
        if (++n > moves.length) {
          halt();
          return ask(moves);
        }
        timer = setTimeout(next, pace);
      };
      timer = setTimeout(next, 0);
      shown(true);
    },
  };
}

const won = () => (remembered(wonLevels) ?? "").split(",").filter(Boolean);

/** winLevel remembers a level, and tells whether it is new. */
function winLevel(name) {
  const all = won();
  if (all.includes(name)) return false;
  remember(wonLevels, [...all, name].join(","));
  return true;
}

/** newFrame makes what is seen, and how to fill it. */
function newFrame(levels, act) {
  const level = el("div.levels", { role: "group", "aria-label": t("play.level") });
  const adds = el("p.small.adds");
  const goal = el("p.goal");
  const verdict = el("div.standingline", { role: "status", "aria-live": "polite" });
  const columns = el("div.buyers");
  const time = el("section.panel.time", { "aria-label": t("play.time") });
  const redis = el("section.panel.redisstate", { "aria-label": t("play.redis") });
  const timeline = newTimeline((stage) => stage.scrollTop = stage.scrollHeight);
  const undo = el("button", { onclick: act.undo }, "↶ ", t("play.undo"));
  const restart = el("button", { onclick: act.restart }, t("play.restart"));
  const replay = el("button", { onclick: act.replay });
  const link = el("button", { onclick: () => act.link(link) }, t("play.link"));
  const crowd = el("select", { "aria-label": t("play.buyers"), onchange: () => act.crowd(Number(crowd.value)) },
    [2, 3].map((n) => el("option", { value: n }, t("play.crowd", { n, units: n - 1 }))));
  const box = (name) => document.querySelector(`[data-focus="${CSS.escape(name)}"]:not(:disabled)`);

  function blank(...more) {
    for (const node of [columns, time, redis, ...more]) put(node);
    timeline.show(null);
  }

  return {
    nodes: [el("h1", t("play.title")), el("p.lead", t("play.lead")), level, adds, el("div.pair", crowd, goal), verdict,
      el("div.pair.tools", { role: "group", "aria-label": t("play.tools") }, undo, restart, replay, link),
      el("div.desk", columns, el("div.beside", time, redis),
        el("section.story.playstory", { "aria-label": t("lanes.title") }, el("h2", t("play.sofar")), timeline.node))],
    level({ strategy: name, buyers }, strategy) {
      const done = won();
      const star = () => el("span.won", { title: t("play.won") }, " ★");
      put(level,
        levels.map((l) =>
          el("button", { "aria-pressed": String(l === name), onclick: () => act.level(l) }, l,
            done.includes(l) && star())
        ));
      const added = strategy && `${t("strategy.adds")} ${named(`strategy.${name}.adds`, strategy.adds)}`;
      adds.textContent = added ?? (name === "yours" ? t("play.yours") : "");
      crowd.value = buyers;
      goal.textContent = t("play.goal", { buyers, units: buyers - 1 });
    },
    /** state shows where a schedule of so many moves has led. */
    state(state, whole) {
      const { outcome, sentence } = state.verdict;
      const n = state.moves === "" ? 0 : state.moves.split(".").length;
      const focus = document.activeElement?.dataset?.focus;
      undo.disabled = restart.disabled = replay.disabled = whole === 0;
      verdict.className = `standingline ${outcome}`;
      put(verdict, el("strong", t(`play.outcome.${outcome}`)), " ", told(sentence),
        el("span.small", ` · ${t("play.moves", { n })}`));
      put(columns, state.players.map((player, i) => column(player, i, state, act.move)));
      put(time, clock(state, act.move));
      put(redis, books(state));
      timeline.show(rowsOf(state.trace, state.players.map(({ name }) => name), state.now_ms));
      if (focus) {
        (box(focus) ?? box(focus.replace(/\d*$/, "")) ?? columns.querySelector(".step:not(:disabled)") ?? undo).focus();
      }
    },
    replaying: (on) => replay.textContent = on ? `❚❚ ${t("play.stop")}` : `▶ ${t("play.replay")}`,
    /** blank clears what belongs to another level. */
    blank() {
      blank(verdict);
      verdict.className = "standingline";
    },
    busy: (on) => columns.setAttribute("aria-busy", String(on)),
    failed(error) {
      blank();
      undo.disabled = restart.disabled = false;
      verdict.className = "standingline failed";
      put(verdict, el("strong", t("play.impossible")), " ", error.detail ?? error.message);
    },
    close: timeline.close,
  };
}

/** column is a buyer: what they are doing, and what can be done with them. */
function column(player, index, state, move) {
  const { name, status, result, says, until_ms: until, read, wrote } = player;
  const can = (text) => state.can.includes(text);
  const act = (text, label) =>
    el("button.act", { "data-focus": text, disabled: !can(text), onclick: () => move(text) }, label);
  const known = [read != null && t("play.read", { n: read }), wrote != null && t("play.wrote", { n: wrote })].filter(
    Boolean
  );
  const pending = (p) =>
    el("li", el("button.step", {
      "data-focus": p.move,
      disabled: !can(p.move),
      onclick: () => move(p.move),
    }, el("span.go", { "aria-hidden": "true" }, "▸ "), el("code", p.text),
      p.from === "watchdog" && el("span.small", ` ${t("play.watchdog")}`),
      p.given_up && el("span.small", ` ${t("play.givenup")}`)),
      p.script && el("details.script", el("summary", t("play.script")), el("pre", p.script)));
  return el(`section.buyer.panel.a${index}.${status}`, { "aria-label": t("play.buyer", { name }) },
    el("h2", el("span.who", name), " ", player.inside && el("span.mark.inside", t("play.inside")),
      el(`span.mark.status.${result ?? status}`, result ? t(`play.result.${result}`) : t(`play.status.${status}`))),
    el("p.small.says", told(says), until != null && t("play.until", { ms: until })),
    el("p.small.memory", known.join(" ")),
    el("ol.pending", { "aria-label": t("play.pending", { name }) }, player.pending.map(pending)),
    el("div.pair.acts", can(`t${name}`) ? act(`t${name}`, t("play.thaw")) : act(`f${name}`, t("play.freeze")),
      act(`k${name}`, t("play.kill"))));
}

/** leaseless are the strategies without a ttl. */
const leaseless = new Set(["none", "local", "watch", "v1_setnx"]);

/** clock is the time, and by how much it can pass. */
function clock(state, move) {
  const can = state.can.some((text) => text.startsWith("p"));
  const lease = Math.ceil(state.lock.ttl_ms);
  const pass = ([ms, label]) => {
    const disabled = !can || ms > state.left_ms;
    return el("button", { "data-focus": `p-${label}`, disabled, onclick: () => move(`p${ms}`) }, label);
  };
  const amounts = [100, 1000].map((ms) => [ms, t("play.pass", { ms })]);
  if (!leaseless.has(state.strategy)) amounts.push([state.ttl_ms, t("play.pass.ttl", { ms: state.ttl_ms })]);
  if (lease > 0) amounts.push([lease, t("play.pass.lease", { ms: lease })]);
  return [el("h2", t("play.time"), " ", el("span.now", t("play.now", { ms: state.now_ms }))),
    el("div.pair", amounts.map(pass))];
}

/** books is what Redis has, what was sold, and what went wrong. */
function books({ lock, sale, keys, findings }) {
  const fact = (name, value, alarm) => el("div", { class: alarm ? "alarm" : null }, el("dt", t(name)), el("dd", value));
  const ttl = ({ ttl_ms: ms }) => (ms == null ? "–" : t("play.ms", { ms }));
  const finding = ({ at_ms: ms, kind, text }) =>
    el("li", { class: kind === "overlap" || kind === "refused" ? null : "alarm" }, t("play.ms", { ms }), " · ",
      told(text));
  return [el("h2", t("play.redis")),
    el("div.scroll", keyTable(keys.map((key) => ({ ...key, ttl: ttl(key) })), (name) => t(`play.key.${name}`))),
    el("dl.books", lock.redis && fact("moment.lock", lock.redis === "free" ? t("moment.free") : lock.redis),
      fact("play.inside.now", lock.inside.join(t("page.and")) || t("moment.nobody"), lock.inside.length > 1),
      fact("books.initial", sale.initial), fact("books.remaining", sale.stock),
      fact("books.sold", sale.sold, sale.oversold > 0), fact("books.oversold", sale.oversold, sale.oversold > 0),
      fact("books.lost", sale.lost_updates, sale.lost_updates > 0)),
    findings.length > 0 && el("ul.findings", findings.map(finding))];
}
