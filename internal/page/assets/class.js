// A sale for a class, on the projector: where phones buy, what was sold, and the holders inside right now.

import { at, call } from "./api.js";
import { el, every, put, retell, say, submitted, tokenField } from "./dom.js";
import { named, number, t } from "./text.js";

const mostSquares = 200;
const mostPeople = 60;

/** show shows the class, and keeps it up to date until the signal aborts. */
export async function show(box, signal) {
  const room = await call("/api/class", { signal });
  if (!room.open) {
    box.append(el("p.lead", t("class.lead")), el("p", t("class.none")), el("code.shell", "go run ./cmd/shop -class"));
    return;
  }
  const [{ default: usual, strategies }, item] = await Promise.all([call("/api/strategies", { signal }),
    call(`/api/items/${room.sku}`, { signal })]);
  const state = { room, item, usual };
  const lost = el("p.alarm", { role: "alert", hidden: true }, t("class.lost"));
  const scene = newScene();
  const teacher = newTeacher(state, strategies, look);
  box.append(lost, el("div.classroom", newDoor(room), scene.node), teacher.node);

  async function look() {
    try {
      const [now, audit, next, { default: strategy }] = await Promise.all([call("/api/class"),
        call(`/api/audit/${room.sku}`), call(`/api/items/${room.sku}`), call("/api/strategies")]);
      Object.assign(state, { room: now, item: next });
      lost.hidden = true;
      scene.draw(now, audit, strategy);
    } catch {
      lost.hidden = false; // until the next reply
    }
    box.classList.toggle("stale", !lost.hidden);
  }

  signal.addEventListener("abort", every(500, look));
}

const loopback = /^(localhost|127\..*|\[::1\])$/;

/** newDoor shows the address for phones. */
function newDoor({ url }) {
  const [host, place] = url.replace(/^http:\/\//, "").split(/(?=\/#)/);
  return el("section.panel.door", { "aria-label": t("class.door") }, el("h2", t("class.door")),
    loopback.test(new URL(url).hostname) && el("p.alarm", t("class.loopback")),
    el("img.qr", { src: at("/api/class/qr.svg"), alt: t("class.qr", { url }) }),
    el("p.address", el("a", { href: url }, host, el("wbr"), place)));
}

/** newScene makes what the class watches: the units, the holders inside, and the result. */
export function newScene() {
  const figures = ["left", "sold", "inside"].map((name) => [name, el("dd", "–")]);
  const squares = el("div.squares", { role: "img" });
  const people = el("div.people", { role: "img" });
  const most = el("p.small");
  const verdict = el("p.outcome.verdict", { role: "status", "aria-live": "polite" });
  const inForce = el("h2.inforce");
  const node = el("section.panel.scene", { "aria-label": t("class.scene") }, inForce,
    el("dl.bigfigures", figures.map(([name, dd]) => el(`div.${name}`, el("dt", t(`class.${name}`)), dd))), squares,
    verdict, el("h2", t("class.people")), people, most);

  function draw({ inside, most_inside: top, work_ms: work }, { initial, remaining, sold, oversold }, strategy) {
    inForce.textContent = t("class.inforce", { strategy, s: (work / 1000).toFixed(1) });
    const value = { left: remaining, sold, inside };
    for (const [name, dd] of figures) dd.textContent = number(value[name]);
    squares.setAttribute("aria-label", t("class.squares", { sold, initial }));
    put(squares, shapes(Math.min(initial, mostSquares), (i) => (i < sold ? "i.sold" : "i")),
      shapes(Math.min(oversold, mostSquares), () => "i.over"));
    people.setAttribute("aria-label", t("class.inside.now", { n: inside }));
    put(people, shapes(Math.min(inside, mostPeople), () => (inside > 1 ? "i.two" : "i")));
    most.textContent = t("class.most", { n: top });
    const [kind, text] = judged({ initial, remaining, sold, oversold, inside });
    verdict.className = `outcome verdict ${kind}`;
    retell(verdict, text);
  }
  return { node, draw };
}

const shapes = (n, name) => Array.from({ length: n }, (_, i) => el(name(i)));

/** judged returns what the orders show so far. */
function judged({ initial, remaining, sold, oversold, inside }) {
  if (oversold > 0) return ["bad", t("class.oversold", { n: oversold, sold, initial })];
  if (sold === initial && inside === 0) return ["good", t("class.exact", { n: sold })];
  const missing = remaining <= 0 && inside === 0;
  return missing ? ["missing", t("class.missing", { n: initial - sold })] : ["", t("class.open", { sold, initial })];
}

/** newTeacher makes the form that begins a sale: its strategy, its work, its units. */
function newTeacher(state, strategies, look) {
  const { room, item, usual } = state;
  const able = strategies.filter((s) => s.keepers.includes(item.keeper) && !item.limit);
  const about = el("p.small");
  const option = ({ name }) => el("option", { value: name, selected: name === usual }, name);
  const choice = el("select", { id: "class-strategy", onchange: describe }, able.map(option));
  const slide = { type: "range", min: 0, max: room.max_work_ms, step: 100 };
  const work = el("input", { id: "class-work", ...slide, oninput: told });
  work.value = room.work_ms; // after max, which bounds it
  const worked = el("output", { for: "class-work" });
  const bounds = { type: "number", min: 1, max: 1000, value: item.initial, required: true };
  const units = el("input", { id: "class-units", ...bounds });
  const secret = tokenField("class-secret", !room.token);
  const outcome = el("p.told", { role: "alert" });
  const begin = el("button.primary", { type: "submit" }, t("class.begin"));

  function told() {
    worked.textContent = t("class.seconds", { s: (Number(work.value) / 1000).toFixed(1) });
  }

  function describe() {
    const { name, breaks } = able.find((s) => s.name === choice.value) ?? {};
    put(about, name && [t("strategy.breaks"), " ", named(`strategy.${name}.breaks`, breaks)]);
  }

  async function start() {
    begin.disabled = true;
    outcome.textContent = "";
    const { name, category, keeper } = state.item;
    const put = (path, body) => call(path, { method: "PUT", body });
    try {
      await put("/api/strategy", { name: choice.value });
      await put("/api/class", { work_ms: Number(work.value) });
      await put(`/api/items/${room.sku}`, { stock: Number(units.value), name, category, keeper });
      say(t("shop.offered"));
    } catch (error) {
      outcome.textContent = error.message;
      secret.refused(error);
    }
    begin.disabled = false;
    await look();
  }

  told();
  describe();
  const labelled = (id, ...nodes) => el("div.field", el("label", { for: id }, t(id.replace("-", "."))), ...nodes);
  return {
    node: el("form.panel.teacher", { onsubmit: submitted(start), "aria-label": t("class.teacher") },
      el("div.pair", el("h2", t("class.teacher")), secret.node, outcome),
      el("div.teaching", labelled("class-strategy", choice), labelled("class-work", work, worked),
        labelled("class-units", units), begin), about, el("p.small", t("class.next"))),
  };
}
