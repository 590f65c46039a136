// A cell: what it is about, and its timeline in lanes, which is played back and forth.

import { call } from "./api.js";
import { copy, el, linked, put } from "./dom.js";
import { drawLanes, holdsWith, keysAt, keyTable, words } from "./lanes.js";
import { knows, named, t, told } from "./text.js";

const pace = 1100; // milliseconds a step, while it is played

/** fetchStory asks for all that happened in a cell. */
export async function fetchStory(cell, signal) {
  const { story } = await call(`/api/lab/${cell.anomaly}/${cell.strategy}`, { signal });
  for (const row of story.rows) {
    const ours = row.kind === "command" ? ["again", "left"] : ["text", "short", "left"]; // commands and replies are told as they are
    for (const name of ours) if (row[name]) row[name] = told(row[name]);
    if (row.reply?.startsWith("(")) row.reply = told(row.reply); // there was none, and this is why
  }
  return { ...story, free: told("free") };
}

/** showCell fills box with a cell. outcome makes the mark of one. */
export function showCell(box, lab, cell, story, query, outcome, page) {
  const note = told(cell.note);
  const anomaly = lab.anomalies.find(({ name }) => name === cell.anomaly);
  const row = lab.cells.filter((other) => other.anomaly === cell.anomaly);
  const command = `go run ./cmd/lab -run ${cell.anomaly} -strategy ${cell.strategy}`;
  const copying = el("button", { type: "button", onclick: () => copy(copying, command, t("page.copied"), t("page.copy.by.hand")) }, t("page.copy"));
  const player = story.rows.length > 0 ? newPlayer(cell, story, page) : null;
  put(box, 
    el("p", { class: "back" }, el("a", { href: "#/break" }, "← ", t("break.all"))),
    el("h1", {}, t("break.on", { anomaly: cell.anomaly, strategy: cell.strategy })),
    el("p", { class: "verdict" }, outcome(cell, { "aria-current": "true", tabindex: -1 }), " ", el("strong", { class: "note" }, note)),
    el("nav", { class: "siblings", "aria-label": t("break.siblings") }, el("span", { class: "small" }, t("break.siblings")),
      row.map((other) => el("span", { class: other === cell ? "sibling here" : "sibling" }, el("span", { class: "name" }, other.strategy),
        outcome(other, other === cell ? { "aria-current": "page" } : {})))),
    el("div", { class: "cell" },
      el("section", { class: "about", "aria-label": t("break.about") },
        el("p", { class: "sentence" }, named(`anomaly.${anomaly.name}.sentence`, anomaly.sentence)),
        part(t("break.sequence"), named(`anomaly.${anomaly.name}.sequence`, anomaly.sequence)),
        part(t("break.real"), ...linked(told(anomaly.source))),
        el("p", { class: "pair" }, /^v\d/.test(cell.strategy) ? el("a", { href: `#/read/${cell.strategy}` }, t("break.read", { name: cell.strategy })) : null,
          /^(none|local|watch|v\d_\w+)$/.test(cell.strategy) ? el("a", { href: `#/play/${cell.strategy}` }, t("break.play", { name: cell.strategy })) : null),
        part(t("break.run"), el("code", { class: "shell" }, command), copying),
        el("details", { class: "key" }, el("summary", {}, t("lanes.key")), el("ul", { class: "small" },
          el("li", {}, t("lanes.time")),
          ...["holds", "believes", "alone", "two"].map((kind) => el("li", {}, el("i", { class: `swatch ${kind}` }), " ", t(`lanes.${kind}`))),
          el("li", {}, t("lanes.lease"))))),
      player?.node ?? el("p", { class: "nothing" }, t("break.nothing"))));
  scrollTo(0, 0);
  player?.start(query);
  return {
    is: (other) => other === cell,
    update: (next) => player?.start(next),
    close: () => player?.close(),
  };
}

const part = (head, ...content) => (content.every((c) => c === "") ? null : el("div", {}, el("h3", {}, head), el("p", {}, ...content)));

/** newPlayer makes the timeline, and what it is played with. */
function newPlayer(cell, story, page) {
  const last = story.rows.length;
  const breaks = story.rows.findIndex((row) => row.kind === "break") + 1; // a step, or 0
  let step = 1;
  let timer = 0;

  const lanes = el("div", { class: "lanes" });
  const stage = el("div", { class: "stage", tabindex: 0, role: "region", "aria-label": t("lanes.title") }, lanes);
  const moment = el("div", { class: "moment", "aria-live": "polite" });
  const keysThere = el("div", { class: "inredis", role: "region", tabindex: 0, "aria-label": t("moment.keys") });
  const slider = el("input", { type: "range", min: 1, max: last, value: 1, "aria-label": t("player.step"), oninput: () => to(Number(slider.value)) });
  const place = el("output", { class: "place" });
  const button = (name, sign, act) => el("button", { type: "button", class: name, title: t(`player.${name}`), "aria-label": t(`player.${name}`), onclick: act }, sign);
  const play = button("play", "▶", () => (timer ? stop() : run()));
  const controls = el("div", { class: "player", role: "group", "aria-label": t("player.title") },
    button("first", "⇤", () => to(1)), button("back", "←", () => to(step - 1)), play,
    button("next", "→", () => to(step + 1)), button("last", "⇥", () => to(last)),
    slider, place,
    breaks ? el("button", { type: "button", class: "breaks", onclick: () => to(breaks) }, "✗ ", t("player.break")) : null);
  const node = el("section", { class: "story", "aria-label": t("lanes.title") }, controls, el("div", { class: "still" }, moment, keysThere), stage);

  /** to goes to a step, and keeps it in the address. */
  function to(next, { keep = false } = {}) {
    if (!keep) stop();
    step = Math.min(last, Math.max(1, next));
    slider.value = step;
    slider.setAttribute("aria-valuetext", t("player.place", { step, last }));
    place.textContent = t("player.place", { step, last });
    tell(moment, cell, story, story.rows[step - 1]);
    showKeys(keysThere, story, story.rows[step - 1]);
    curtain();
    page.replace(`#/break/${cell.anomaly}/${cell.strategy}?step=${step}`);
  }

  /** curtain hides what comes after the step. */
  function curtain() {
    const rows = [...lanes.querySelectorAll(".row")];
    if (rows.length === 0) return;
    rows.forEach((row, i) => {
      row.classList.toggle("later", i >= step);
      row.classList.toggle("current", i === step - 1);
    });
    const current = rows[step - 1];
    const bottom = current.offsetTop + current.offsetHeight;
    lanes.querySelector("svg").setAttribute("height", step === last ? rows.at(-1).offsetTop + rows.at(-1).offsetHeight : bottom);
    if (current.offsetTop - 50 < stage.scrollTop) stage.scrollTop = current.offsetTop - 50;
    if (bottom + 12 > stage.scrollTop + stage.clientHeight) stage.scrollTop = bottom + 12 - stage.clientHeight;
  }

  function run() {
    if (step === last) to(1);
    play.textContent = "❚❚";
    play.setAttribute("aria-label", t("player.pause"));
    play.title = t("player.pause");
    timer = setInterval(() => {
      to(step + 1, { keep: true });
      if (step === last) stop();
    }, pace);
  }

  function stop() {
    clearInterval(timer);
    timer = 0;
    play.textContent = "▶";
    play.setAttribute("aria-label", t("player.play"));
    play.title = t("player.play");
  }

  const keys = (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey || event.shiftKey || event.target.matches("input, select, textarea")) return;
    const next = { ArrowLeft: step - 1, ArrowRight: step + 1, Home: 1, End: last }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    to(next);
  };
  document.addEventListener("keydown", keys);
  lanes.addEventListener("click", (event) => {
    const row = event.target.closest(".row");
    if (row) to([...lanes.querySelectorAll(".row")].indexOf(row) + 1);
  });

  let width = 0;
  const resized = new ResizeObserver(() => {
    if (lanes.clientWidth < 100 || stage.clientWidth === width) return; // it is out of sight, or as it was
    width = stage.clientWidth;
    drawLanes(lanes, story, () => {});
    for (const event of lanes.querySelectorAll(".event")) event.tabIndex = -1; // the keys step
    curtain();
  });
  resized.observe(stage);
  return {
    node,
    start: (query) => to(Number.parseInt(query.get("step") ?? "1", 10) || 1),
    close: () => {
      stop();
      node.inert = true; // it can be seen until the next one has come
      resized.disconnect();
      document.removeEventListener("keydown", keys);
    },
  };
}

/** tell tells all that is known of a moment. */
function tell(box, cell, story, row) {
  const { text, reply } = words(row);
  const actor = row.actor >= 0 ? story.actors[row.actor] : "";
  const broke = row.kind === "break";
  box.className = `moment ${row.kind}`;
  put(box, 
    el("p", { class: "when" }, el("strong", {}, `${row.time} ${story.unit}`), actor ? ` · ${actor}` : "", ` · ${kindOf(row)}`),
    broke ? el("p", { class: "wrong" }, el("strong", {}, `✗ ${t("moment.wrong")} `), row.text) : el("pre", {}, text, el("span", { class: "reply" }, reply)),
    broke && told(cell.note) !== row.text ? el("p", { class: "note" }, told(cell.note)) : null,
    standing(story, row));
}

/** showKeys shows the keys as Redis has them after a moment. */
function showKeys(box, story, row) {
  box.hidden = !story.rows.some(({ keys }) => keys);
  put(box, row.blind ? el("p", { class: "small" }, t("moment.unknown")) : keyTable(keysAt(story, row), (name) => t(`play.key.${name}`)));
}

const kindOf = (row) => (knows(`kind.${row.kind}`) ? t(`kind.${row.kind}`) : row.kind);

/** standing is how things stand after a moment: the lock, its lease, and who believes to have it. */
function standing(story, row) {
  const believe = (row.believe ?? []).map((actor) => story.actors[actor]);
  const list = el("dl", { class: "standing" });
  const say = (name, ...value) => list.append(el("div", {}, el("dt", {}, t(name)), el("dd", {}, ...value)));
  if (story.lock) {
    if (!row.holder) say("moment.lock", t("moment.unasked"));
    else say("moment.lock", row.holder === "free" ? t("moment.free") : t("moment.held", { holder: row.holder }));
    if (row.ttl != null) {
      const longest = Math.max(1, ...story.rows.map(({ ttl }) => ttl ?? 0));
      say("moment.ttl", el("meter", { min: 0, max: longest, value: row.ttl, "aria-hidden": "true" }), ` ${row.left} ${story.unit}`);
    } else if (row.left) say("moment.ttl", t("moment.endless"));
  }
  if (story.lock || row.believe) {
    const alone = story.lock && believe.length === 1 && !holdsWith(story.actors, row.holding, row.believe[0]) && row.holder;
    say("moment.believe", el("span", { class: believe.length > 1 || alone ? "alarm" : "" },
      believe.join(t("page.and")) || t("moment.nobody"), believe.length > 1 ? ` · ${t("moment.two")}` : alone ? ` · ${t("moment.alone")}` : ""));
  }
  return list;
}
