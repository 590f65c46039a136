// Break: the matrix of anomalies and strategies, and the cell that the address names.

import { call } from "./api.js";
import { fetchStory, showCell } from "./cell.js";
import { el, every, head, put, scroll } from "./dom.js";
import { named, t, told } from "./text.js";

const busyPause = 1500; // milliseconds more until the lab is asked again, when it has to wait for a run
const classes = { holds: "holds", breaks: "breaks", "n/a": "na", unknown: "unknown" };

let lab = null; // what the lab found; it does not change while the shop runs

/** outcome is a cell's outcome as a mark that leads to the cell. */
export function outcome(cell, attributes = {}) {
  const { anomaly, strategy } = cell;
  const kind = classes[cell.outcome] ?? "unknown";
  const label = `${t("break.on", { anomaly, strategy })}: ${t(`outcome.${kind}`)}`;
  const link = { href: `#/break/${anomaly}/${strategy}`, title: told(cell.note), "aria-label": label };
  return el(`a.mark.${kind}`, { ...link, ...attributes }, t(`outcome.short.${kind}`));
}

/** show shows the matrix, or a cell. */
export async function show(box, at, page) {
  const { signal } = page;
  let shown = null;
  let asked = 0; // counts the addresses, so that a cell that is late does not replace a newer one
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
    if (!cell) {
      const unknown = anomaly && el("p.alarm", { role: "alert" }, t("page.unknown", { address: location.hash }));
      return put(box, unknown, matrix(box.dataset.last));
    }
    box.dataset.last = `${anomaly}/${strategy}`;
    const story = await fetchStory(cell, signal);
    if (mine === asked) shown = showCell(box, lab, cell, story, query, outcome, page);
  };
  signal.addEventListener("abort", close);
  await ready(box, signal);
  await update(at);
  return { update };
}

/** ready waits until the lab has tried everything, and shows its progress. */
async function ready(box, signal) {
  if (lab) return;
  const bar = el("progress", { max: 1, value: 0, "aria-label": t("break.making") });
  const count = el("p.small");
  let idle = 0; // polls without progress
  put(box, el("h1", t("break.title")), el("p", t("break.making")), bar, count);
  await new Promise((done, failed) => {
    const stop = every(500, async () => {
      try {
        const reply = await call("/api/lab", { signal });
        if (reply.cells) return void (lab = reply, stop(), done());
        bar.max = reply.of;
        bar.value = reply.done;
        idle = reply.done ? 0 : idle + 1;
        count.textContent = idle > 3 ? t("break.waits") : t("break.made", reply);
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

/** matrix is the table of all cells, with the focus on the cell that was shown last. */
function matrix(last) {
  const { redis, ttl_ns: ttl } = lab.manifest;
  const count = (kind) => lab.cells.filter((cell) => cell.outcome === kind).length;
  const counts = { cells: lab.cells.length, holds: count("holds"), breaks: count("breaks"), na: count("n/a") };
  const made = { ...counts, unknown: count("unknown"), redis: told(redis), ttl: ttl / 1e9 };
  const legend = (kind) => el("span", el(`span.mark.${kind}`, t(`outcome.short.${kind}`)), " ", t(`outcome.${kind}`));
  return [el("h1", t("break.title")), el("p.lead", t("break.lead")), el("p.small", t("break.counts", made)),
    el("p.legend.small", Object.values(classes).map(legend)),
    el("p.small", el("label", el("input.explain", { type: "checkbox" }), " ", t("break.explain"))),
    scroll(t("break.title"), table(last))];
}

function table(last) {
  const { strategies } = lab.manifest;
  const cells = new Map(lab.cells.map((cell) => [`${cell.anomaly}/${cell.strategy}`, cell]));
  const row = ({ name, sentence }) =>
    el("tr",
      el("th", { scope: "row" }, el("span.name", name),
        el("span.sentence", named(`anomaly.${name}.sentence`, sentence))), strategies.map((strategy) =>
        cells.get(`${name}/${strategy}`)).map((cell) =>
        el("td", cell && outcome(cell, { tabindex: -1 }))));
  const sum = (name) => {
    const asked = lab.cells.filter((cell) => cell.strategy === name && cell.outcome !== "n/a");
    const n = asked.filter((cell) => cell.outcome === "breaks").length;
    return el("td", t("break.of", { n, of: asked.length }));
  };
  const node = el("table.matrix", head([t("break.anomaly")], ...strategies.map((name) => [breakable(name)])),
    el("tbody", lab.anomalies.map(row)),
    el("tfoot", el("tr", el("th", { scope: "row" }, t("break.sum")), strategies.map(sum))));
  const links = [...node.querySelectorAll("a.mark")];
  const start = links.find((link) => link.hash === `#/break/${last}`) ?? links[0];
  roam(node, start);
  if (last) queueMicrotask(() => start.focus());
  return node;
}

/** breakable is a strategy's name with a line break allowed before its second part. */
const breakable = (name) => name.split(/(?<=_)/).flatMap((part) => [part, el("wbr")]);

/** roam lets the arrow keys go from cell to cell. Tab stops at one of them. */
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
