// A cell: its explanation, and its timeline in lanes, which can be played.

import { call, hasShop } from "./api.js";
import { copy, el, linked, put, say } from "./dom.js";
import { holdsWith, keysAt, keyTable, words } from "./lanes.js";
import { kindOf, sign, square } from "./square.js";
import { called, knows, named, t, titleOf, told } from "./text.js";
import { newTimeline } from "./timeline.js";

const pace = 1100; // milliseconds per step during playback
const ahead = 60; // pixels of the next steps that stay in sight

/** fetchStory fetches all events of a cell. */
export async function fetchStory(cell, signal) {
  const { story, note, message } = await call(`/api/lab/${cell.anomaly}/${cell.strategy}`, { signal });
  for (const row of story.rows) {
    if (row.kind !== "command") row.text = told(row.text, row.message); // commands are not translated
    if (row.again) row.again = told(row.again, row.again_message);
    if (row.left) row.left = told(row.left);
    if (row.reply?.startsWith("(")) row.reply = told(row.reply); // there was no reply, and this says why
  }
  return { ...story, note, message, free: told("free") };
}

/** showCell opens a cell over the whole window. page.leave goes back to the matrix. */
export function showCell(box, lab, cell, story, query, page) {
  const player = story.rows.length > 0 ? newPlayer(cell, story, page, document) : null;
  const anomaly = lab.anomalies.find(({ name }) => name === cell.anomaly);
  const body = el("div.cell", { tabindex: -1 }, about(anomaly, cell, page),
    player?.node ?? el("p.nothing", t("break.nothing")));
  const strip = siblings(lab, cell);
  const close = el("button.close", { onclick: page.leave, title: t("cell.close"), "aria-label": t("cell.close") }, "✕");
  const moves = neighbours(lab, cell);
  const title = titleOf(cell.anomaly);
  const dialog = el("dialog.cellbox", { "aria-labelledby": "cell-title" },
    el("header",
      el("h2", { id: "cell-title" }, title && `${title} `, el("span.name", cell.anomaly), " ",
        el("span.on", cell.strategy)),
      el("nav.pair", { "aria-label": t("cell.others") }, moves.buttons, close)), verdict(lab, cell), strip, body);
  dialog.addEventListener("cancel", (event) => {
    event.preventDefault(); // Escape: the address decides what is open
    page.leave();
  });
  dialog.addEventListener("keydown", moves.keys);
  box.append(dialog);
  dialog.showModal();
  body.focus();
  const here = strip.querySelector("[aria-current]");
  strip.scrollLeft = here.offsetLeft - strip.clientWidth / 2;
  player?.start(query);
  return {
    is: (other) => other === cell,
    address: addressOf(cell),
    update: (next) => player?.start(next),
    close() {
      player?.close();
      dialog.remove();
    },
  };
}

const addressOf = ({ anomaly, strategy }) => `#/break/${anomaly}/${strategy}`;

/** verdict shows the result of a cell, and the reason. */
function verdict(lab, cell) {
  const kind = kindOf(cell);
  const price = kind === "endless" && priceOf(lab, cell);
  return el(`p.ruling.${kind}`, sign(kind), " ", el("strong", t(`outcome.${kind}`)), " — ",
    told(cell.note, cell.message),
    price && el("span.price", t("cell.price"), " ", el("a", { href: addressOf(price) }, called(price.anomaly))));
}

/**
 * priceOf returns the cell in which a lock that never expires is stuck forever. If there are several, it returns the
 * one in which the fewest other locks are stuck.
 */
function priceOf(lab, { strategy }) {
  const stuck = lab.anomalies.filter(({ loss }) => loss === "stuck").map(({ name }) => name);
  const broken = lab.cells.filter(({ anomaly, outcome }) => outcome === "breaks" && stuck.includes(anomaly));
  const others = ({ anomaly }) => broken.filter((cell) => cell.anomaly === anomaly).length;
  return broken.filter((cell) => cell.strategy === strategy).sort((a, b) => others(a) - others(b))[0];
}

/** siblings makes a strip with the same anomaly for all strategies. */
function siblings(lab, cell) {
  const one = (other) => {
    const here = other === cell;
    const name = other.strategy.replace(/^(v\d+)_.*/, "$1");
    return el("span", { class: here ? "sibling here" : "sibling", title: other.strategy }, el("span.name", name),
      square(other, here ? { "aria-current": "page" } : {}));
  };
  return el("nav.siblings", { "aria-label": t("break.siblings") },
    lab.cells.filter(({ anomaly }) => anomaly === cell.anomaly).map(one));
}

/** neighbours makes the links to the adjacent cells, in the order of the matrix. */
function neighbours(lab, cell) {
  const names = lab.losses.flatMap((loss) => lab.anomalies.filter((a) => a.loss === loss)).map((a) => a.name);
  const { strategies } = lab.manifest;
  const at = (down, right) => {
    const anomaly = names[names.indexOf(cell.anomaly) + down];
    const strategy = strategies[strategies.indexOf(cell.strategy) + right];
    return lab.cells.find((other) => other.anomaly === anomaly && other.strategy === strategy);
  };
  const ways = {
    h: { sign: "←", key: "cell.left", to: at(0, -1) },
    l: { sign: "→", key: "cell.right", to: at(0, 1) },
    k: { sign: "↑", key: "cell.up", to: at(-1, 0) },
    j: { sign: "↓", key: "cell.down", to: at(1, 0) },
  };
  const go = (to) => to && (location.hash = addressOf(to));
  const button = ({ sign, key, to }) =>
    el("button.way", { title: t(key), "aria-label": t(key), disabled: !to, onclick: () => go(to) }, sign);
  return {
    buttons: Object.values(ways).map(button),
    keys(event) {
      if (event.altKey || event.ctrlKey || event.metaKey) return;
      if (ways[event.key]) go(ways[event.key].to);
    },
  };
}

/** about explains the anomaly and the lanes, and links to the strategy's code and its game. */
function about(anomaly, cell, { signal }) {
  const { name, loss } = anomaly;
  const { strategy } = cell;
  const command = `go run ./cmd/lab -run ${name} -strategies ${strategy}`;
  const button = el("button", { onclick: () => copy(button, command) },
    t("page.copy"));
  const link = (part) => el("a", { href: `#/${part}/${strategy}` }, t(`break.${part}`, { name: strategy }));
  return el("section.about", { "aria-label": t("break.about") },
    el("p.sentence", named(`anomaly.${name}.sentence`, anomaly.sentence)),
    el("p.small", el("strong", t(`break.loss.${loss}`)), " ", t(`break.costs.${loss}`)),
    part(t("break.sequence"), named(`anomaly.${name}.sequence`, anomaly.sequence)),
    part(t("break.real"), ...linked(told(anomaly.source))),
    el("p.pair", /^v\d/.test(strategy) && link("read"), /^(none|local|watch|v\d_\w+)$/.test(strategy) && link("play")),
    part(t("break.run"), el("code.shell", command), button), !hasShop && newAgain(cell, signal),
    el("details.key", el("summary", t("lanes.key")),
      el("ul.small", el("li", t("lanes.time")),
        ["holds", "believes", "alone", "two"].map((kind) => el("li", el(`i.swatch.${kind}`), " ", t(`lanes.${kind}`))),
        el("li", t("lanes.lease")), el("li", t("lanes.arc")), el("li", t("lanes.later")))));
}

/** newAgain makes the button that runs a cell again, and shows whether the result matches the recording. */
function newAgain({ anomaly, strategy }, signal) {
  const found = el("p.small", { role: "status" });
  const button = el("button", { onclick: run }, t("site.again"));

  async function run() {
    button.disabled = true;
    put(found);
    try {
      const path = `/api/lab/${anomaly}/${strategy}`;
      const { note, message, story } = await call(path, { method: "POST", body: {}, signal });
      const recording = await call(path, { signal });
      const same = note === recording.note && JSON.stringify(story.rows) === JSON.stringify(recording.story.rows);
      const n = story.rows.length;
      tell(t(same ? "site.again.same" : "site.again.other", { outcome: told(note, message), n }));
    } catch (error) {
      if (error.name !== "AbortError") tell(error.message);
    }
    button.disabled = false;
  }

  function tell(sentence) {
    put(found, sentence);
    say(sentence);
  }

  return el("div.again", el("p", button), found);
}

const part = (title, ...content) => content.some((c) => c !== "") && el("div", el("h3", title), el("p", ...content));

/**
 * newCurtain makes the lanes of a story, in which everything after the current step is faded. A click on a row calls
 * chosen with the step of the row.
 */
function newCurtain(story, chosen) {
  const timeline = newTimeline(draw);
  const stage = timeline.node;
  const rows = () => [...stage.querySelectorAll(".row")];
  const veil = el("div.veil", { "aria-hidden": "true" });
  let step = 1;

  function draw() {
    const all = rows();
    if (all.length === 0) return;
    all.forEach((row, i) => {
      row.classList.toggle("later", i >= step);
      row.classList.toggle("current", i === step - 1);
    });
    const current = all[step - 1];
    const end = current.offsetTop + current.offsetHeight;
    const lanes = current.parentElement;
    if (veil.parentElement !== lanes) lanes.append(veil);
    veil.style.top = `${end}px`;
    veil.style.width = `${lanes.scrollWidth}px`;
    if (current.offsetTop - 50 < stage.scrollTop) stage.scrollTop = current.offsetTop - 50;
    if (end + ahead > stage.scrollTop + stage.clientHeight) stage.scrollTop = end + ahead - stage.clientHeight;
  }

  stage.addEventListener("click", ({ target }) => {
    const row = target.closest(".row");
    if (row) chosen(rows().indexOf(row) + 1);
  });
  timeline.show(story);
  return {
    node: stage,
    show(next) {
      step = next;
      draw();
    },
    close: timeline.close,
  };
}

/** newPlayer makes the timeline and its controls. The keys work where their events pass through keyed. */
export function newPlayer(cell, story, page, keyed) {
  const last = story.rows.length;
  const breaks = story.rows.findIndex((row) => row.kind === "break") + 1; // a step, or 0
  let step = 1;
  let timer = 0;

  const timeline = newCurtain(story, to);
  const moment = el("div.moment", { "aria-live": "polite" });
  const keysThere = el("div.inredis", { role: "region", tabindex: 0, "aria-label": t("moment.keys") });
  const range = { type: "range", min: 1, max: last, value: 1, "aria-label": t("player.step") };
  const slider = el("input", { ...range, oninput: () => to(Number(slider.value)) });
  const place = el("output.place");
  const button = (name, sign, onclick) =>
    el(`button.${name}`, { title: t(`player.${name}`), "aria-label": t(`player.${name}`), onclick }, sign);
  const play = button("play", "▶", () => (timer ? stop() : run()));
  const controls = el("div.player", { role: "group", "aria-label": t("player.title") },
    button("first", "⇤", () => to(1)), button("back", "←", () => to(step - 1)), play,
    button("next", "→", () => to(step + 1)), button("last", "⇥", () => to(last)), slider, place,
    breaks > 0 && el("button.breaks", { onclick: () => to(breaks) }, "✗ ", t("player.break")));
  const node = el("section.story", { "aria-label": t("lanes.title") }, controls, timeline.node,
    el("div.still", moment, keysThere));

  /** to goes to a step, and puts it into the address. */
  function to(next, playing = false) {
    if (!playing) stop();
    step = Math.min(last, Math.max(1, next));
    slider.value = step;
    place.textContent = t("player.place", { step, last });
    slider.setAttribute("aria-valuetext", place.textContent);
    tell(moment, cell, story, story.rows[step - 1]);
    showKeys(keysThere, story, story.rows[step - 1]);
    timeline.show(step);
    page.replace(`#/break/${cell.anomaly}/${cell.strategy}?step=${step}`);
  }

  function label(sign, name) {
    play.textContent = sign;
    play.title = t(name);
    play.setAttribute("aria-label", play.title);
  }

  function run() {
    if (step === last) to(1);
    label("❚❚", "player.pause");
    timer = setInterval(() => {
      to(step + 1, true);
      if (step === last) stop();
    }, pace);
  }

  function stop() {
    clearInterval(timer);
    timer = 0;
    label("▶", "player.play");
  }

  const keys = (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
    const next = { ArrowLeft: step - 1, ArrowRight: step + 1, Home: 1, End: last }[event.key];
    if (next === undefined || event.target.matches("input, select, textarea")) return;
    event.preventDefault();
    to(next);
  };
  keyed.addEventListener("keydown", keys);
  return {
    node,
    play: run,
    start: (query) => to(Number.parseInt(query.get("step") ?? "1", 10) || 1),
    close() {
      stop();
      node.inert = true; // it stays visible until the next one is ready
      timeline.close();
      keyed.removeEventListener("keydown", keys);
    },
  };
}

/** tell fills box with everything known about a moment. */
function tell(box, cell, story, row) {
  const { text, reply } = words(row);
  const actor = row.actor >= 0 ? ` · ${story.actors[row.actor]}` : "";
  const kind = knows(`kind.${row.kind}`) ? t(`kind.${row.kind}`) : row.kind;
  const broke = row.kind === "break";
  const note = told(cell.note, cell.message);
  box.className = `moment ${row.kind}`;
  put(box, el("p.when", el("strong", `${row.time} ${story.unit}`), actor, ` · ${kind}`),
    broke ? el("p.wrong", el("strong", `✗ ${t("moment.wrong")} `), row.text) : el("pre", text, el("span.reply", reply)),
    broke && note !== row.text && el("p.note", note), standing(story, row));
}

/** showKeys fills box with the keys in Redis after a moment. */
function showKeys(box, story, row) {
  box.hidden = !story.rows.some(({ keys }) => keys);
  const table = () => keyTable(keysAt(story, row), (name) => t(`play.key.${name}`));
  put(box, row.blind ? el("p.small", t("moment.unknown")) : table());
}

/** standing shows the state after a moment: the lock, its lease, and which callers believe that they hold it. */
function standing(story, row) {
  const { lock, rows, actors, unit } = story;
  const believe = (row.believe ?? []).map((actor) => actors[actor]);
  const list = el("dl.standing");
  const say = (name, ...value) => list.append(el("div", el("dt", t(name)), el("dd", ...value)));
  if (lock) {
    const held = row.holder === "free" ? t("moment.free") : t("moment.held", { holder: row.holder });
    say("moment.lock", row.holder ? held : t("moment.unasked"));
    const max = Math.max(1, ...rows.map(({ ttl }) => ttl ?? 0));
    const meter = () => el("meter", { min: 0, max, value: row.ttl, "aria-hidden": "true" });
    if (row.ttl != null) say("moment.ttl", meter(), ` ${row.left} ${unit}`);
    else if (row.left) say("moment.ttl", t("moment.endless"));
  }
  if (lock || row.believe) {
    const two = believe.length > 1;
    const alone = lock && believe.length === 1 && row.holder && !holdsWith(actors, row.holding, row.believe[0]);
    say("moment.believe",
      el("span", { class: two || alone ? "alarm" : null }, believe.join(t("page.and")) || t("moment.nobody"),
        two ? ` · ${t("moment.two")}` : alone ? ` · ${t("moment.alone")}` : ""));
  }
  return list;
}
