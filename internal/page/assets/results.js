// Results: the table of a run, and several runs laid over each other.

import { el, put } from "./dom.js";
import { newCurves } from "./plot.js";
import { named, number, t, told } from "./text.js";

const verdicts = { ok: "holds", oversold: "breaks", drift: "breaks", stuck: "breaks", undersold: "unknown", unknown: "unknown" };

/** verdict is what a row came to, as a mark. */
export const verdict = (row) => el("span", { class: `mark ${verdicts[row.verdict] ?? "unknown"}` }, `${row.verdict === "ok" ? "✓" : "✗"} ${named(`verdict.${row.verdict}`, row.verdict)}`);

/** bar is a number with a bar beside it, of as much as there is at most. */
function bar(value, most, kind) {
  const fill = el("i", { class: kind });
  fill.style.width = `${most > 0 ? (100 * Math.max(0, value)) / most : 0}%`;
  return el("span", { class: "bar" }, el("span", { class: "number" }, number(value)), el("span", { class: "track", "aria-hidden": "true" }, fill));
}

/** waited is a percentile of the wait for the lock, if it was measured. */
function waited(row, percentile) {
  const i = row.percentiles?.p?.indexOf(percentile) ?? -1;
  return i < 0 ? null : row.percentiles.wait_ms?.[i] ?? null;
}

const ms = (value) => (value == null ? "–" : number(value));
const perRequest = (row) => (row.redis_commands > 0 ? number(row.redis_commands) : "–");

const columns = [
  ["sold", (row) => `${number(row.sold)} / ${number(row.stock)}`],
  ["oversold", (row, most) => bar(row.oversold, most, "alarmbar")],
  ["lost_updates", (row) => number(row.lost_updates)],
  ["undersold", (row) => number(row.undersold)],
  ["acknowledged_missing", (row) => number(row.acknowledged_missing)],
  ["unreported", (row) => number(row.unreported)],
  ["duplicates", (row) => number(row.duplicates)],
  ["failed", (row) => number(row.failed)],
  ["unknown", (row) => number(row.unknown)],
  ["max_holders", (row) => number(row.max_holders)],
  ["p50_ms", (row) => ms(row.p50_ms)], ["p99_ms", (row) => ms(row.p99_ms)],
  ["wait_p50", (row) => ms(waited(row, 50))], ["wait_p99", (row) => ms(waited(row, 99))],
  ["throughput", (row) => number(row.throughput)],
  ["redis_commands", perRequest],
];

/** seldom are the columns that are shown where a row has other than 0. */
const seldom = ["acknowledged_missing", "unreported", "duplicates", "unknown"];

/** results is the table of a run. */
export function results(run) {
  const rows = run.rows.filter(Boolean);
  const shown = columns.filter(([name]) => !seldom.includes(name) || rows.some((row) => row[name] > 0));
  const most = Math.max(...rows.map((row) => row.oversold));
  return [
    el("h2", {}, t("run.results")),
    el("p", { class: "small" }, t("results.of", { requests: run.settings.requests, stock: run.settings.stock, instances: run.settings.instances, made: made(run.settings), redis: told(run.redis ?? ""), db: told(run.db ?? "") }),
      run.settings.unfenced ? el("strong", {}, ` · ${t("results.unfenced")}`) : ""),
    el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": t("run.results") }, el("table", { class: "rows figures" },
      el("thead", {}, el("tr", {}, el("th", { scope: "col" }, t("results.strategy")), el("th", { scope: "col" }, t("results.condition")), el("th", { scope: "col" }, t("results.verdict")),
        shown.map(([name]) => el("th", { scope: "col", class: "number" }, t(`results.${name}`))))),
      el("tbody", {}, rows.map((row) => el("tr", { "data-strategy": row.strategy, "data-condition": row.condition },
        el("th", { scope: "row" }, row.strategy), el("td", {}, named(`condition.${row.condition}`, row.condition)),
        el("td", {}, verdict(row), row.expected === false ? el("span", { class: "small", title: row.differs ?? "" }, ` ${t("results.unexpected")}`) : null),
        shown.map(([name, show]) => el("td", { class: "number", "data-figure": name }, show(row, most)))))))),
    el("p", { class: "small legend" }, [...new Set(rows.map((row) => row.condition))].map((name) => el("span", {}, meaning(name)))),
    run.id && rows.length > 0 ? el("p", {}, el("a", { href: `/api/runs/${run.id}/report.html`, download: "" }, t("results.download"))) : null,
  ];
}

const meaning = (name) => t("results.condition.about", { name: named(`condition.${name}`, name), about: t(`condition.${name}.about`) });

const overlaid = ["oversold", "p99_ms", "throughput"];
const rowName = ({ strategy, condition }) => `${strategy} · ${named(`condition.${condition}`, condition)}`;
const runName = (i) => t("results.run", { n: i + 1 });

/** stateOf is another when there is more to show of a run. */
const stateOf = ({ id, ended, rows }) => `${id} ${ended ?? rows.filter(Boolean).length}`;

/** newOverlay lays the rows of several runs over each other: those of one strategy under one condition are beside each other. Once its nodes are in their place update shows runs in them; close ends what is plotted. */
export function newOverlay() {
  const legend = el("p", { class: "legend small" });
  const table = el("table", { class: "rows figures overlay" });
  const curves = overTime();
  let shown = "";
  return {
    nodes: [
      el("h2", {}, t("results.overlay")), legend,
      el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": t("results.overlay") }, table),
      curves.node,
    ],
    /** update leaves alone what it shows already. */
    update(runs) {
      const next = runs.map(stateOf).join();
      if (next === shown) return;
      shown = next;
      put(legend, runs.map(about));
      put(table, ...beside(runs));
      curves.update(runs);
    },
    close: curves.close,
  };
}

/** made is what a run was made with, besides its load. */
export const made = (settings) => t("results.made", { ttl: settings.ttl_ms, work: settings.work_us, keeper: t(`run.keeper.${settings.keeper || "any"}`) });

/** about is a run in the legend. */
function about({ started, settings }, i) {
  const { requests, stock, unfenced } = settings;
  const at = new Date(started).toLocaleTimeString(document.documentElement.lang);
  return el("span", { class: `a${i}` }, el("i", { class: "swatch run" }), ` ${runName(i)} ${at} · ${t("run.load", { requests, stock })} · ${made(settings)}${unfenced ? ` · ${t("results.unfenced")}` : ""}`);
}

/** beside has the rows in a table. */
function beside(runs) {
  const names = new Map();
  runs.forEach((run, i) => run.rows.filter(Boolean).forEach((row) => {
    const name = rowName(row);
    if (!names.has(name)) names.set(name, []);
    names.get(name)[i] = row;
  }));
  const most = Object.fromEntries(overlaid.map((name) => [name, Math.max(0, ...runs.flatMap((run) => run.rows.filter(Boolean).map((row) => row[name])))]));
  return [
    el("thead", {}, el("tr", {}, el("th", { scope: "col" }, t("results.strategy")), el("th", { scope: "col" }, t("results.run.column")), el("th", { scope: "col" }, t("results.verdict")),
      overlaid.map((name) => el("th", { scope: "col" }, t(`results.${name}`))))),
    ...[...names].map(([name, rows]) => el("tbody", {}, runs.map((run, i) => el("tr", { class: `a${i}` },
      i === 0 ? el("th", { scope: "rowgroup", rowspan: runs.length }, name) : null,
      el("td", {}, el("i", { class: "swatch run" }), ` ${runName(i)}`),
      el("td", {}, rows[i] ? verdict(rows[i]) : "–"),
      overlaid.map((figure) => el("td", {}, rows[i] ? bar(rows[i][figure], most[figure], "runbar") : "–")))))),
  ];
}

/** plotted are the samples of a run that can be laid over others: of one that is under way those of finished rows. */
const plotted = ({ samples = [], ended, rows }) => samples.filter(({ n }) => ended || rows[n - 1]);

/** overTime plots what the runs had sold by when, in the row that is chosen. */
function overTime() {
  let runs = [];
  const select = el("select", { id: "overlay-row", onchange: draw });
  const choice = el("span", {}, el("label", { for: "overlay-row" }, t("results.row")), " ", select);
  const missing = el("p", { class: "small underway" });
  const host = el("div", { class: "chart" });
  const plot = newCurves(host);
  const node = el("figure", { class: "liveplot" }, el("figcaption", { class: "pair small" }, t("results.curves"), choice), missing, host);

  function draw() {
    plot.draw(runs.map((run, i) => {
      const row = plotted(run).find((series) => rowName(series) === select.value);
      return row && { name: runName(i), points: row.points, stock: run.settings.stock };
    }));
  }

  return {
    node,
    update(next) {
      runs = next;
      const all = runs.flatMap((run) => plotted(run).map(rowName));
      const names = [...new Set(all)].sort((a, b) => all.filter((name) => name === b).length - all.filter((name) => name === a).length); // those first that most runs have
      const chosen = select.value;
      put(select, names.map((name) => el("option", { value: name, selected: name === chosen }, name)));
      const underWay = runs.flatMap((run, i) => (run.ended ? [] : [t("results.underway", { run: runName(i) })]));
      missing.textContent = underWay.join(" ");
      missing.hidden = underWay.length === 0;
      choice.hidden = host.hidden = names.length === 0;
      node.hidden = choice.hidden && missing.hidden;
      draw();
    },
    close: plot.close,
  };
}
