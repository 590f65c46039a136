// Be the scheduler: the reader chooses who takes the next step. The address has
// the whole schedule; what it leads to only the engine knows.

import { call, token, wantsToken } from "./api.js";
import { copy, el, put, say } from "./dom.js";
import { drawLanes, keyTable } from "./lanes.js";
import { rowsOf } from "./trace.js";
import { named, remember, remembered, t, told } from "./text.js";

const pace = 800; // milliseconds a move, while it is replayed
const wonLevels = "won"; // levels that were made to oversell, in this browser

const here = (strategy, buyers, moves) => `#/play/${strategy}/${moves.join(".")}${buyers === 2 ? "" : `?buyers=${buyers}`}`;

/** show shows the schedule of the address. */
export async function show(box, at, page) {
  const { signal } = page;
  const [{ levels }, { strategies }] = await Promise.all([call("/api/schedule/levels", { signal }), call("/api/strategies", { signal })]);
  const about = new Map(strategies.map((strategy) => [strategy.name, strategy]));
  let strategy = "";
  let buyers = 2;
  let moves = [];
  let asked = 0; // counts what was asked for, so that an old reply does not come over a newer one
  let timer = 0;
  let search = null; // under way: an AbortController
  let own = false; // the last move was the reader's, and not a link's or the engine's

  const frame = newFrame(levels, {
    level: (name) => { location.hash = here(name, buyers, []); },
    crowd: (n) => { location.hash = here(strategy, n, []); },
    move, undo: () => go(moves.slice(0, -1)), restart: () => go([]), replay, find,
    link: (button) => copy(button, location.href, t("page.copied"), t("page.copy.by.hand")),
  });
  box.append(...frame.nodes);
  signal.addEventListener("abort", () => {
    halt();
    asked++;
    search?.abort();
    frame.close();
  });

  /** go goes to another schedule: the address leads, and the back button undoes. */
  function go(next) {
    halt();
    location.hash = here(strategy, buyers, next);
  }

  function move(text) {
    if (timer) return;
    own = true;
    go([...moves, text]);
  }

  async function update({ of: [name = "none", text = ""], query }) {
    halt();
    const crowd = Number(query.get("buyers")) || 2;
    if (name !== strategy || crowd !== buyers) {
      search?.abort(); // its answer is another level's
      frame.blank();
    }
    strategy = name;
    buyers = crowd;
    moves = text === "" ? [] : text.split(".");
    page.title(`${t("nav.play")}: ${strategy}`);
    frame.level(strategy, buyers, about.get(strategy));
    await ask(moves);
  }

  /** ask has moves played, and shows what they lead to. */
  async function ask(played) {
    const mine = ++asked;
    frame.busy(true);
    try {
      const state = await call("/api/schedule", { method: "POST", body: { strategy, buyers, moves: played.join(".") } });
      if (mine !== asked) return;
      if (own && state.verdict.outcome === "won" && winLevel(strategy)) frame.level(strategy, buyers, about.get(strategy));
      frame.state(state, { replaying: timer !== 0, whole: moves.length });
    } catch (error) {
      if (mine === asked) frame.failed(error);
    }
    frame.busy(false);
  }

  /** replay plays the moves one after the other. */
  function replay() {
    if (timer) return void (halt(), ask(moves));
    const all = moves;
    let n = 0;
    const next = async () => {
      await ask(all.slice(0, n));
      if (timer === 0) return;
      if (++n > all.length) {
        halt();
        frame.replaying(false);
        return ask(all);
      }
      timer = setTimeout(next, pace);
    };
    timer = setTimeout(next, 0);
    frame.replaying(true);
  }

  function halt() {
    clearTimeout(timer);
    timer = 0;
    frame.replaying(false);
  }

  /** find asks the engine whether a goal can be reached, and by which moves. */
  async function find(goal) {
    search?.abort();
    search = new AbortController();
    const { signal } = search;
    frame.answer({ searching: true, stop: () => search.abort() });
    try {
      const result = await call(`/api/schedule/search?strategy=${encodeURIComponent(strategy)}&buyers=${buyers}&goal=${goal}`, { signal });
      frame.answer({ result, play: () => playFound(result) });
    } catch (error) {
      if (error.name !== "AbortError") frame.answer({ error, again: () => find(goal) });
      else if (search.signal === signal) frame.answer({});
    }
  }

  /** playFound replays what was found, on the level that it was found on. */
  function playFound(result) {
    const found = result.moves.split(".");
    own = false;
    const next = here(result.strategy, result.buyers, found);
    if (location.hash === next) return replay();
    history.pushState(null, "", next);
    moves = found;
    replay();
  }

  await update(at);
  return { update };
}

const won = () => (remembered(wonLevels) ?? "").split(",").filter(Boolean);

/** winLevel remembers a level, and tells whether it was not known before. */
function winLevel(name) {
  const all = won();
  if (all.includes(name)) return false;
  remember(wonLevels, [...all, name].join(","));
  return true;
}

/** newFrame makes what is seen, and how to fill it. */
function newFrame(levels, act) {
  const level = el("div", { class: "levels", role: "group", "aria-label": t("play.level") });
  const adds = el("p", { class: "small adds" });
  const goal = el("p", { class: "goal" });
  const verdict = el("div", { class: "standingline", role: "status", "aria-live": "polite" });
  const columns = el("div", { class: "buyers" });
  const time = el("section", { class: "panel time", "aria-label": t("play.time") });
  const redis = el("section", { class: "panel redisstate", "aria-label": t("play.redis") });
  const lanes = el("div", { class: "lanes" });
  const stage = el("div", { class: "stage", tabindex: 0, role: "region", "aria-label": t("lanes.title") }, lanes);
  const undo = el("button", { type: "button", onclick: act.undo }, "↶ ", t("play.undo"));
  const restart = el("button", { type: "button", onclick: act.restart }, t("play.restart"));
  const replay = el("button", { type: "button", onclick: act.replay });
  const link = el("button", { type: "button", onclick: () => act.link(link) }, t("play.link"));
  const answer = el("div", { class: "answer", role: "status", "aria-live": "polite" });
  const crowd = el("select", { "aria-label": t("play.buyers"), onchange: () => act.crowd(Number(crowd.value)) },
    [2, 3].map((n) => el("option", { value: n }, t("play.crowd", { n, units: n - 1 }))));
  let shown = null; // the state that is shown
  let width = 0;

  function drawTimeline() {
    if (!shown || lanes.clientWidth < 100) return;
    width = stage.clientWidth;
    const story = rowsOf(shown.trace, shown.players.map(({ name }) => name), shown.now_ms);
    if (story.rows.length === 0) {
      lanes.className = "lanes";
      put(lanes, el("p", { class: "nothing" }, t("play.empty")));
      return;
    }
    drawLanes(lanes, story, () => {});
    for (const event of lanes.querySelectorAll(".event")) event.tabIndex = -1;
    stage.scrollTop = stage.scrollHeight;
  }
  const resized = new ResizeObserver(() => stage.clientWidth !== width && drawTimeline());
  resized.observe(stage);

  const nodes = [
    el("h1", {}, t("play.title")), el("p", { class: "lead" }, t("play.lead")),
    level, adds, el("div", { class: "pair" }, crowd, goal),
    verdict,
    el("div", { class: "pair tools", role: "group", "aria-label": t("play.tools") }, undo, restart, replay, link),
    el("div", { class: "desk" }, columns, el("div", { class: "beside" }, time, redis),
      el("section", { class: "story playstory", "aria-label": t("lanes.title") }, el("h2", {}, t("play.sofar")), stage)),
    el("section", { class: "panel finding", "aria-label": t("play.can") }, el("h2", {}, t("play.can")), el("p", { class: "small" }, t("play.can.about")),
      el("div", { class: "pair" }, ["oversell", "foreign_delete"].map((name) => el("button", { type: "button", onclick: () => act.find(name) }, t(`play.find.${name}`)))), answer),
  ];

  return {
    nodes,
    level(name, buyers, strategy) {
      const done = won();
      put(level, ...levels.map((l) => el("button", { type: "button", "aria-pressed": String(l === name), onclick: () => act.level(l) },
        l, done.includes(l) ? el("span", { class: "won", title: t("play.won") }, " ★") : null)));
      adds.textContent = strategy ? `${t("strategy.adds")} ${named(`strategy.${name}.adds`, strategy.adds)}` : name === "yours" ? t("play.yours") : "";
      crowd.value = buyers;
      goal.textContent = t("play.goal", { buyers, units: buyers - 1 });
    },
    state(state, { whole }) {
      shown = state;
      const count = state.moves === "" ? 0 : state.moves.split(".").length;
      const focus = document.activeElement?.dataset?.focus;
      undo.disabled = restart.disabled = replay.disabled = whole === 0;
      verdict.className = `standingline ${state.verdict.outcome}`;
      put(verdict, el("strong", {}, t(`play.outcome.${state.verdict.outcome}`)), " ", told(state.verdict.sentence),
        el("span", { class: "small" }, ` · ${t("play.moves", { n: count })}`));
      put(columns, ...state.players.map((player, i) => column(player, i, state, act.move)));
      put(time, ...clock(state, act.move));
      put(redis, ...keys(state));
      drawTimeline();
      if (focus) (box(focus) ?? box(focus.replace(/\d*$/, "")) ?? columns.querySelector(".step:not(:disabled)") ?? undo).focus();
    },
    replaying(on) {
      replay.textContent = on ? `❚❚ ${t("play.stop")}` : `▶ ${t("play.replay")}`;
    },
    /** blank shows nothing of another level any more. */
    blank() {
      shown = null;
      for (const node of [verdict, columns, time, redis, lanes, answer]) node.replaceChildren();
      verdict.className = "standingline";
    },
    busy(on) {
      columns.setAttribute("aria-busy", String(on));
    },
    failed(error) {
      undo.disabled = restart.disabled = false;
      verdict.className = "standingline failed";
      put(verdict, el("strong", {}, t("play.impossible")), " ", error.detail ?? error.message);
      shown = null;
      for (const node of [columns, time, redis, lanes]) node.replaceChildren();
    },
    answer(a) {
      if (a.searching) return put(answer, el("p", {}, t("play.searching")),
        el("p", { class: "pair" }, el("progress", { "aria-label": t("play.searching") }), el("button", { type: "button", onclick: a.stop }, t("play.search.stop"))));
      if (a.error) return put(answer, el("p", { class: "alarm" }, a.error.message), wantsToken(a.error) ? askToken(a.again) : null);
      if (!a.result) return answer.replaceChildren();
      const { result } = a;
      put(answer, 
        el("p", {}, el("span", { class: `mark ${result.found ? "breaks" : result.all ? "holds" : "unknown"}` }, t(result.found ? "play.found" : result.all ? "play.never" : "play.notfound")), " ", el("strong", {}, searched(result))),
        result.found ? el("p", { class: "pair" }, el("code", {}, result.moves), el("span", { class: "small" }, t("play.moves", { n: result.moves.split(".").length })), el("button", { type: "button", class: "primary", onclick: a.play }, "▶ ", t("play.playfound"))) : null);
      say(searched(result));
    },
    close: () => resized.disconnect(),
  };

  function box(name) {
    return document.querySelector(`[data-focus="${CSS.escape(name)}"]:not(:disabled)`);
  }
}

/** askToken is a form for the token that a search asks for. */
function askToken(again) {
  const secret = el("input", { id: "search-token", type: "password", autocomplete: "off", value: token(), oninput: () => token(secret.value) });
  return el("form", { class: "pair", onsubmit: (event) => { event.preventDefault(); again(); } },
    el("label", { for: "search-token" }, t("page.token")), secret, el("button", { type: "submit" }, t("play.search.again")));
}

/** searched is what came of a search. */
function searched(result) {
  const key = result.found ? "play.search.found" : result.all ? "play.search.never" : "play.search.none";
  return t(key, { steps: result.steps, plays: result.plays, states: result.states });
}

/** column is a buyer: what it is at, and what can be done with it. */
function column(player, index, state, move) {
  const can = (text) => state.can.includes(text);
  const act = (text, label) => el("button", { type: "button", class: "act", "data-focus": text, disabled: !can(text), onclick: () => move(text) }, label);
  return el("section", { class: `buyer panel a${index} ${player.status}`, "aria-label": t("play.buyer", { name: player.name }) },
    el("h2", {}, el("span", { class: "who" }, player.name), " ",
      player.inside ? el("span", { class: "mark inside" }, t("play.inside")) : null,
      el("span", { class: `mark status ${player.result ?? player.status}` }, player.result ? t(`play.result.${player.result}`) : t(`play.status.${player.status}`))),
    el("p", { class: "small says" }, told(player.says), player.until_ms != null ? t("play.until", { ms: player.until_ms }) : ""),
    el("p", { class: "small memory" }, player.read != null ? t("play.read", { n: player.read }) : "", player.wrote != null ? ` ${t("play.wrote", { n: player.wrote })}` : ""),
    el("ol", { class: "pending", "aria-label": t("play.pending", { name: player.name }) }, player.pending.map((pending) => el("li", {},
      el("button", { type: "button", class: "step", "data-focus": pending.move, disabled: !can(pending.move), onclick: () => move(pending.move) },
        el("span", { class: "go", "aria-hidden": "true" }, "▸ "), el("code", {}, pending.text),
        pending.from === "watchdog" ? el("span", { class: "small" }, ` ${t("play.watchdog")}`) : null,
        pending.given_up ? el("span", { class: "small" }, ` ${t("play.givenup")}`) : null),
      pending.script ? el("details", { class: "script" }, el("summary", {}, t("play.script")), el("pre", {}, pending.script)) : null))),
    el("div", { class: "pair acts" },
      can(`t${player.name}`) ? act(`t${player.name}`, t("play.thaw")) : act(`f${player.name}`, t("play.freeze")),
      act(`k${player.name}`, t("play.kill"))));
}

/** leaseless are the strategies that know no ttl. */
const leaseless = new Set(["none", "local", "watch", "v1_setnx"]);

/** clock is the time, and by how much it can pass. */
function clock(state, move) {
  const can = state.can.some((text) => text.startsWith("p"));
  const lease = state.lock.ttl_ms;
  const pass = (ms, label) => el("button", { type: "button", "data-focus": `p-${label}`, disabled: !can || ms > state.left_ms, onclick: () => move(`p${ms}`) }, label);
  const amounts = [[100, t("play.pass", { ms: 100 })], [1000, t("play.pass", { ms: 1000 })]];
  if (!leaseless.has(state.strategy)) amounts.push([state.ttl_ms, t("play.pass.ttl", { ms: state.ttl_ms })]);
  if (lease > 0) amounts.push([Math.max(1, Math.ceil(lease)), t("play.pass.lease", { ms: Math.ceil(lease) })]);
  return [
    el("h2", {}, t("play.time"), " ", el("span", { class: "now" }, t("play.now", { ms: state.now_ms }))),
    el("div", { class: "pair" }, amounts.map(([ms, label]) => pass(ms, label))),
  ];
}

/** keys is what Redis has, and the books. */
function keys(state) {
  const { lock, sale } = state;
  const two = lock.inside.length > 1;
  const fact = (name, value, alarm) => el("div", { class: alarm ? "alarm" : "" }, el("dt", {}, t(name)), el("dd", {}, value));
  return [
    el("h2", {}, t("play.redis")),
    el("div", { class: "scroll" }, keyTable(state.keys.map((key) => ({ ...key, ttl: key.ttl_ms == null ? "–" : t("play.ms", { ms: key.ttl_ms }) })), (name) => t(`play.key.${name}`))),
    el("dl", { class: "books" },
      lock.redis ? fact("moment.lock", lock.redis === "free" ? t("moment.free") : lock.redis) : null,
      fact("play.inside.now", lock.inside.join(t("page.and")) || t("moment.nobody"), two),
      fact("books.initial", sale.initial), fact("books.remaining", sale.stock), fact("books.sold", sale.sold, sale.oversold > 0),
      fact("books.oversold", sale.oversold, sale.oversold > 0), fact("books.lost", sale.lost_updates, sale.lost_updates > 0)),
    state.findings.length > 0 ? el("ul", { class: "findings" }, state.findings.map(({ at_ms: ms, kind, text }) =>
      el("li", { class: kind === "overlap" || kind === "refused" ? "" : "alarm" }, t("play.ms", { ms }), " · ", told(text)))) : null,
  ];
}
