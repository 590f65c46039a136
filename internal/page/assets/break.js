// Break: the matrix of anomalies and strategies, and the cell whose address it is.

import { call } from "./api.js";
import { el, every, put } from "./dom.js";
import { t, named, told } from "./text.js";
import { fetchStory, showCell } from "./cell.js";

const busyPause = 1500; // milliseconds more until the lab is asked again, when it has to wait for a run
const classes = { holds: "holds", breaks: "breaks", "n/a": "na", unknown: "unknown" };

let lab = null; // what the lab found; it does not change while the shop runs

/** outcome is a cell's outcome as a mark. */
export function outcome(cell, attributes = {}) {
  const kind = classes[cell.outcome] ?? "unknown";
  return el("a", {
    class: `mark ${kind}`, href: `#/break/${cell.anomaly}/${cell.strategy}`, title: told(cell.note),
    "aria-label": t("break.on", { anomaly: cell.anomaly, strategy: cell.strategy }) + ": " + t(`outcome.${kind}`), ...attributes,
  }, t(`outcome.short.${kind}`));
}

/** show shows the matrix, or a cell. */
export async function show(box, at, page) {
  const { signal } = page;
  let shown = null;
  let asked = 0; // counts the addresses, so that a cell that comes late does not come over a newer one
  const close = () => {
    shown?.close();
    shown = null;
  };
  const update = async ({ of: [anomaly, strategy], query }) => {
    const mine = ++asked;
    const cell = lab.cells.find((c) => c.anomaly === anomaly && c.strategy === strategy);
    page.title(cell ? t("break.on", { anomaly, strategy }) : t("nav.break"));
    if (cell && shown?.is(cell)) return shown.update(query);
    close();
    if (!cell) return put(box, ...(anomaly ? [el("p", { class: "alarm", role: "alert" }, t("page.unknown", { address: location.hash }))] : []), ...matrix(box.dataset.last));
    box.dataset.last = `${anomaly}/${strategy}`;
    const story = await fetchStory(cell, signal);
    if (mine === asked) shown = showCell(box, lab, cell, story, query, outcome, page);
  };
  signal.addEventListener("abort", close);
  await ready(box, signal);
  await update(at);
  return { update };
}

/** ready waits until the lab has tried everything, and tells how far it is. */
async function ready(box, signal) {
  if (lab) return;
  const bar = el("progress", { max: 1, value: 0, "aria-label": t("break.making") });
  const count = el("p", { class: "small" });
  let idle = 0; // polls in which nothing was done
  put(box, el("h1", {}, t("break.title")), el("p", {}, t("break.making")), bar, count);
  await new Promise((done, failed) => {
    const stop = every(500, async () => {
      try {
        const reply = await call("/api/lab", { signal });
        if (reply.cells) return void (lab = reply, stop(), done());
        bar.max = reply.of;
        bar.value = reply.done;
        idle = reply.done ? 0 : idle + 1;
        count.textContent = idle > 3 ? t("break.waits") : t("break.made", { done: reply.done, of: reply.of });
      } catch (error) {
        if (error.code === "busy") {
          count.textContent = error.message;
          return new Promise((over) => setTimeout(over, busyPause));
        }
        stop();
        failed(error);
      }
    });
    signal.addEventListener("abort", () => {
      stop();
      failed(signal.reason);
    });
  });
}

/** matrix is the table of all cells. */
function matrix(last) {
  const { strategies } = lab.manifest;
  const count = (kind) => lab.cells.filter((cell) => cell.outcome === kind).length;
  const cells = new Map(lab.cells.map((cell) => [`${cell.anomaly}/${cell.strategy}`, cell]));
  const links = [];
  const body = lab.anomalies.map((anomaly) => el("tr", {},
    el("th", { scope: "row" }, el("span", { class: "name" }, anomaly.name),
      el("span", { class: "sentence" }, named(`anomaly.${anomaly.name}.sentence`, anomaly.sentence))),
    strategies.map((strategy) => {
      const cell = cells.get(`${anomaly.name}/${strategy}`);
      if (!cell) return el("td");
      const link = outcome(cell, { tabindex: -1 });
      links.push(link);
      return el("td", {}, link);
    })));
  const table = el("table", { class: "matrix" },
    el("thead", {}, el("tr", {}, el("th", { scope: "col" }, t("break.anomaly")), strategies.map((name) => el("th", { scope: "col" }, broken(name))))),
    el("tbody", {}, body),
    el("tfoot", {}, el("tr", {}, el("th", { scope: "row" }, t("break.sum")), strategies.map((name) => {
      const asked = lab.cells.filter((cell) => cell.strategy === name && cell.outcome !== "n/a");
      return el("td", {}, t("break.of", { n: asked.filter((cell) => cell.outcome === "breaks").length, of: asked.length }));
    }))));
  const start = links.find((link) => link.hash === `#/break/${last}`) ?? links[0];
  roam(table, start);
  if (last) queueMicrotask(() => start.focus());
  return [
    el("h1", {}, t("break.title")),
    el("p", { class: "lead" }, t("break.lead")),
    el("p", { class: "small" }, t("break.counts", {
      cells: lab.cells.length, holds: count("holds"), breaks: count("breaks"), na: count("n/a"), unknown: count("unknown"),
      redis: told(lab.manifest.redis), ttl: lab.manifest.ttl_ns / 1e9,
    })),
    el("p", { class: "legend small" }, Object.values(classes).map((kind) =>
      el("span", {}, el("span", { class: `mark ${kind}` }, t(`outcome.short.${kind}`)), " ", t(`outcome.${kind}`)))),
    el("p", { class: "small" }, el("label", {}, el("input", { type: "checkbox", class: "explain" }), " ", t("break.explain"))),
    el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": t("break.title") }, table),
  ];
}

/** broken is a strategy's name that may be broken before its second part. */
const broken = (name) => name.split(/(?<=_)/).flatMap((part) => [part, el("wbr")]);

/** roam lets the arrow keys go from cell to cell, of which Tab comes to one. */
function roam(table, start) {
  let current = start;
  start.tabIndex = 0;
  const choose = (link) => {
    current.tabIndex = -1;
    current = link;
    current.tabIndex = 0;
  };
  table.addEventListener("focusin", (event) => event.target.matches("a.mark") && choose(event.target));
  table.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    if (!step || event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    const cell = current.closest("td");
    const row = table.tBodies[0].rows[cell.parentElement.sectionRowIndex + step[0]];
    const next = row?.cells[cell.cellIndex + step[1]]?.querySelector("a.mark");
    if (!next) return;
    choose(next);
    next.focus();
  });
}
