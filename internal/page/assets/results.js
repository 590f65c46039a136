// Results: the table of a run, and several runs laid over each other.

import { at, hasShop } from "./api.js";
import { el, head, put, scroll } from "./dom.js";
import { newCurves } from "./plot.js";
import { clockTime, language, named, number, t, told } from "./text.js";

const marks = {
  ok: "holds",
  oversold: "breaks",
  drift: "breaks",
  stuck: "breaks",
  undersold: "unknown",
  unknown: "unknown",
};

const signs = { ok: "✓", "not comparable": "–" };

/** verdict makes a mark with the verdict on a row. */
export const verdict = ({ verdict: name }) =>
  el(`span.mark.${marks[name] ?? "unknown"}`, `${signs[name] ?? "✗"} ${named(`verdict.${name}`, name)}`);

/** bar makes a number with a bar, whose full width stands for the value most. */
function bar(value, most, kind) {
  const fill = el(`i.${kind}`);
  fill.style.width = `${most > 0 ? (100 * Math.max(0, value)) / most : 0}%`;
  return el("span.bar", el("span.number", number(value)), el("span.track", { "aria-hidden": "true" }, fill));
}

/** waited returns a percentile of the wait for the lock, if it was measured. */
function waited(row, percentile) {
  const i = row.percentiles?.p?.indexOf(percentile) ?? -1;
  return row.percentiles?.wait_ms?.[i];
}

const ms = (value) => (value == null ? "–" : number(value));
const perRequest = (row) => (row.redis_commands > 0 ? number(row.redis_commands) : "–");

const counted = (name) => [name, (row) => number(row[name])];
const columns = [["sold", (row) => `${number(row.sold)} / ${number(row.stock)}`], ["oversold",
  (row, most) => bar(row.oversold, most, "alarmbar")],
  ...["lost_updates", "undersold", "acknowledged_missing", "unreported", "duplicates", "failed", "unknown",
    "max_holders"].map(counted), ["p50_ms", (row) => ms(row.p50_ms)], ["p99_ms", (row) => ms(row.p99_ms)], ["wait_p50",
  (row) => ms(waited(row, 50))], ["wait_p99", (row) => ms(waited(row, 99))], counted("accepted_lost"), [
  "durable_p99_ms",
  (row) => ms(row.durable_p99_ms),
], ["drain_ms", (row) => ms(row.drain_ms)], counted("throughput"), ["redis_commands", perRequest]];

/** seldom lists the columns that are hidden while all their values are 0. Some have values only for lua_stream. */
const seldom = ["acknowledged_missing", "unreported", "duplicates", "unknown", "accepted_lost", "durable_p99_ms",
  "drain_ms"];

/** pictured makes the name of a case, below its picture. Both link to the case on the stage. */
function pictured(row, n, { id, chosen, picture }) {
  const about = t("results.open", { name: rowName(row) });
  return el("th", { scope: "row" },
    el("a.opens", { href: `#/run/${id}?case=${n}`, title: about, "aria-current": chosen === n ? "true" : null },
      picture(n), el("span", row.strategy)));
}

/** results makes the table of a run. chosen is the number of the case on the stage; picture draws one by its number. */
export function results({ id, settings, redis = "", db = "", ...run }, chosen, picture) {
  const rows = run.rows.filter(Boolean);
  const shown = columns.filter(([name]) => !seldom.includes(name) || rows.some((row) => row[name] > 0));
  const most = Math.max(...rows.map((row) => row.oversold));
  const { requests, stock, instances, unfenced } = settings;
  const load = { requests, stock, instances, made: made(settings), redis, db };
  const titles = [...["strategy", "condition", "verdict"].map((name) => [t(`results.${name}`)]),
    ...shown.map(([name]) => [t(`results.${name}`), "number"])];
  const line = (row, n) =>
    el("tr", { class: chosen === n ? "chosen" : null, "data-strategy": row.strategy, "data-condition": row.condition },
      pictured(row, n, { id, chosen, picture }),
      el("td", named(`condition.${row.condition}`, row.condition)),
      el("td", verdict(row), row.verdict === "not comparable" && el("span.small", ` ${t("results.realRedis")}`),
        row.expected === false
        && el("span.small", { title: told(row.differs ?? "", row.message) }, ` ${t("results.unexpected")}`)),
      shown.map(([name, show]) => el("td.number", { "data-figure": name }, show(row, most))));
  const lines = run.rows.map((row, i) => line(row, i + 1)).filter(Boolean); // some rows may not have arrived yet
  return [el("h2", t("run.results")),
    el("p.small", t("results.of", load), unfenced && el("strong", ` · ${t("results.unfenced")}`)),
    scroll(t("run.results"), el("table.rows.figures", head(...titles), el("tbody", lines))),
    el("p.small.legend", [...new Set(rows.map((row) => row.condition))].map((name) => el("span", meaning(name)))),
    id && rows.length > 0
    && el("p",
      el("a", { href: reportOf(id), download: `oversell-${id}.html` }, t("results.download")))];
}

/** reportOf returns the address of a run's report. On a site it is a file with the language in its name. */
const reportOf = (id) => {
  const file = ["report", language !== "en" && language, "html"].filter(Boolean).join(".");
  return at(`/api/runs/${id}/${hasShop ? `report.html?lang=${language}` : file}`);
};

const meaning = (name) =>
  t("results.condition.about", { name: named(`condition.${name}`, name), about: t(`condition.${name}.about`) });

const overlaid = ["oversold", "p99_ms", "throughput"];
const rowName = ({ strategy, condition }) => `${strategy} · ${named(`condition.${condition}`, condition)}`;
const runName = (i) => t("results.run", { n: i + 1 });
const swatch = () => el("i.swatch.run");

/** stateOf returns a text that changes when there is more to show of a run. */
const stateOf = ({ id, ended, rows }) => `${id} ${ended ?? rows.filter(Boolean).length}`;

/**
 * newOverlay compares the rows of several runs: those of one strategy under one condition are shown next to each
 * other. When its nodes are on the page, update shows runs in them; close ends the plot.
 */
export function newOverlay() {
  const legend = el("p.legend.small");
  const table = el("table.rows.figures.overlay");
  const curves = overTime();
  let shown = "";
  return {
    nodes: [el("h2", t("results.overlay")), legend, scroll(t("results.overlay"), table), curves.node],
    update(runs) {
      const next = runs.map(stateOf).join();
      if (next === shown) return;
      shown = next;
      put(legend, runs.map(about));
      put(table, beside(runs));
      curves.update(runs);
    },
    close: curves.close,
  };
}

/** made describes the settings of a run, besides its load. */
export const made = ({ ttl_ms: ttl, work_us: work, keeper }) =>
  t("results.made", { ttl, work, keeper: t(`run.keeper.${keeper || "any"}`) });

/** about describes a run in the legend. */
function about({ started, settings }, i) {
  const { requests, stock, unfenced } = settings;
  const at = clockTime(started);
  const text = [`${runName(i)} ${at}`, t("run.load", { requests, stock }), made(settings)];
  if (unfenced) text.push(t("results.unfenced"));
  return el(`span.a${i}`, swatch(), ` ${text.join(" · ")}`);
}

/** beside puts the rows into a table. */
function beside(runs) {
  const names = new Map();
  runs.forEach((run, i) =>
    run.rows.filter(Boolean).forEach((row) => {
      const name = rowName(row);
      if (!names.has(name)) names.set(name, []);
      names.get(name)[i] = row;
    })
  );
  const most = (figure) => Math.max(0, ...runs.flatMap((run) => run.rows.filter(Boolean).map((row) => row[figure])));
  const bars = overlaid.map((figure) => [figure, most(figure)]);
  const line = (name, rows) => (run, i) =>
    el(`tr.a${i}`, i === 0 && el("th", { scope: "rowgroup", rowspan: runs.length }, name),
      el("td", swatch(), ` ${runName(i)}`), el("td", rows[i] ? verdict(rows[i]) : "–"), bars.map(([figure, all]) =>
        el("td", rows[i] ? bar(rows[i][figure], all, "runbar") : "–")
      ));
  return [
    head([t("results.strategy")], [t("results.run.column")],
      ...["verdict", ...overlaid].map((name) => [t(`results.${name}`)])),
    ...[...names].map(([name, rows]) => el("tbody", runs.map(line(name, rows)))),
  ];
}

/** plotted returns the samples of a run that can be compared: for a run under way, those of its finished rows. */
const plotted = ({ samples = [], ended, rows }) => samples.filter(({ n }) => ended || rows[n - 1]);

/** overTime plots the sales of the runs over time, for the chosen case. */
function overTime() {
  let runs = [];
  const select = el("select", { id: "overlay-row", onchange: draw });
  const choice = el("span", el("label", { for: "overlay-row" }, t("results.case")), " ", select);
  const missing = el("p.small.underway");
  const host = el("div.chart");
  const plot = newCurves(host);
  const node = el("figure.liveplot", el("figcaption.pair.small", t("results.curves"), choice), missing, host);

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
      const count = (name) => all.filter((other) => other === name).length;
      const names = [...new Set(all)].sort((a, b) => count(b) - count(a)); // the row that most runs have comes first
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
