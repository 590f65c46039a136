// Live: the row that is under way, as the stream tells of it. It is drawn at most
// once a frame, and keeps a bounded number of samples.

import { el, put } from "./dom.js";
import { newPlot } from "./plot.js";
import { verdict } from "./results.js";
import { named, number, t, told } from "./text.js";

const mostSamples = 600;

/** newLive makes the panel. refused is told why the run could not be stopped. */
export function newLive(options, stop, refused) {
  const exclusive = new Set(options.strategies.filter((s) => s.exclusive).map(({ name }) => name));
  let run = null;
  let samples = []; // of the row
  let row = 0; // which row they are of
  let past = null; // what was known of the row at last
  let frame = 0;

  const head = el("h2", {}, t("live.title"));
  const phase = el("p", { class: "small phase", role: "status", "aria-live": "polite" });
  const stopping = el("button", { type: "button", class: "danger", onclick: halt }, t("run.stop"));
  const refusal = el("span", { class: "alarm", role: "alert" });
  const judged = el("ul", { class: "judged", "aria-label": t("live.judged") });
  const bar = el("div", { class: "soldbar", role: "img" }, el("i", { class: "within" }), el("i", { class: "beyond" }), el("b", { class: "edge" }), el("span", { class: "edgename" }));
  const facts = ["waiting", "remaining", "sold", "sold_out", "failed", "unknown", "holders", "max_holders"].map((name) => {
    const value = el("dd", {}, "–");
    return { name, value, node: el("div", { class: `fact ${name}` }, el("dt", {}, t(`live.${name}`)), value) };
  });
  const stockLine = invariant("stock");
  const holdersLine = invariant("holders");
  const invariants = el("ul", { class: "invariants", "aria-live": "assertive" }, stockLine.node, holdersLine.node);
  const host = el("div", { class: "chart" });
  const lost = el("p", { class: "small alarm", hidden: true }, t("live.lost"));
  const body = el("div", { class: "livebody", hidden: true }, bar, el("dl", { class: "books live" }, facts.map(({ node }) => node)),
    invariants,
    el("figure", { class: "liveplot" }, el("figcaption", { class: "small" }, t("live.plot")), host));
  const idle = el("p", { class: "nothing" }, t("live.idle"));
  const node = el("section", { class: "panel live", "aria-label": t("live.title") },
    el("div", { class: "pair livehead" }, head, stopping, refusal), phase, lost, idle, judged, body);
  const plot = newPlot(host);
  stopping.hidden = true;

  async function halt() {
    stopping.disabled = true;
    refusal.textContent = "";
    try {
      await stop();
    } catch (error) {
      refusal.textContent = error.message;
      stopping.disabled = false;
      refused?.(error);
    }
  }

  /** take adds a point, if it is newer than what there is. That of the last audit is told as of when all was known, which is before the sample that found so. */
  function take(point) {
    if (!point) return;
    const last = samples.at(-1);
    if (!last || point.t_ms > last.t_ms) samples.push(point);
    else if (point.audit_ms > last.audit_ms) samples[samples.length - 1] = { ...point, t_ms: last.t_ms };
    if (samples.length > mostSamples) samples = samples.filter((_, i) => i % 2 === 0);
  }

  function draw() {
    frame = 0;
    if (!run) return;
    const about = run.now ?? past ?? aboutRow(run);
    drawJudged();
    idle.hidden = true;
    body.hidden = !about;
    stopping.hidden = Boolean(run.ended);
    stopping.disabled = run.state === "stopping";
    head.textContent = run.now ? t("live.row", { row: run.now.row, of: run.now.of }) : t("live.ended", { state: t(`run.state.${run.state}`) });
    const name = about ? `${about.strategy} · ${named(`condition.${about.condition}`, about.condition)} · ` : "";
    phase.textContent = name + (run.now ? t(`live.phase.${run.now.phase}`) : told(run.error) || t("live.done", { n: run.rows_done, of: run.rows_all }));
    if (!about) return;
    const done = run.rows?.[about.row - 1]; // what it came to, which is the last word on it
    const point = done ? pointOf(done) : about.point ?? samples.at(-1);
    for (const { name, value } of facts) value.textContent = figure(name, point?.[name]);
    facts.find(({ name }) => name === "unknown").node.hidden = !point?.unknown;
    drawBar(point?.sold ?? 0, about.stock);
    const state = (name, broke) => {
      const seen = about.broken?.find(({ invariant: which }) => which === name);
      if (seen) return { seen };
      return broke || done ? { broken: broke } : { unjudged: Boolean(run.ended) };
    };
    stockLine.set(state("stock", (done?.oversold ?? (point?.sold ?? 0) - about.stock) > 0), t("live.invariant.stock", { sold: point?.sold ?? 0, stock: about.stock }));
    const alone = exclusive.has(about.strategy);
    const most = point?.max_holders ?? 0;
    facts.find(({ name }) => name === "holders").node.classList.toggle("alarm", alone && point?.holders > 1);
    holdersLine.node.hidden = !alone;
    holdersLine.set(state("holders", most > 1), t("live.invariant.holders", { n: most }) + (most > 1 && done?.verdict === "ok" ? t("live.harmless") : ""));
    plot.draw(done && !(samples.at(-1)?.t_ms >= point.t_ms) ? [...samples, point] : samples, about.stock);
  }

  /** drawJudged keeps in sight what the finished rows of the run came to. */
  function drawJudged() {
    const rows = (run.rows ?? []).filter(Boolean);
    judged.hidden = rows.length === 0;
    put(judged, rows.map((row) => el("li", {}, `${row.strategy} · ${named(`condition.${row.condition}`, row.condition)} `, verdict(row))));
  }

  function drawBar(sold, stock) {
    const whole = Math.max(stock * 1.15, sold * 1.03, 1);
    const [within, beyond, edge, name] = bar.children;
    within.style.width = `${(100 * Math.min(sold, stock)) / whole}%`;
    beyond.style.width = `${(100 * Math.max(0, sold - stock)) / whole}%`;
    edge.style.left = name.style.left = `${(100 * stock) / whole}%`;
    name.textContent = t("live.stock", { stock });
    bar.setAttribute("aria-label", t("live.bar", { sold, stock }));
  }

  const later = () => { frame ||= requestAnimationFrame(draw); };
  return {
    node,
    /** rows tells what the finished rows of the run came to. */
    rows(next) {
      if (run?.id !== next.id) return;
      run = { ...run, rows: next.rows };
      later();
    },
    update(next) {
      if (run?.id !== next.id || (next.now && next.now.row !== row)) {
        samples = [];
        row = next.now?.row ?? 0;
        past = null;
        refusal.textContent = "";
      }
      run = next;
      invariants.hidden = false;
      past = next.now ?? past;
      take(next.now?.point);
      later();
    },
    /** begin adds what was while nobody watched, of the row that began last. */
    begin(before, stock) {
      if (!before || (run?.now && before.n !== row)) return;
      row = before.n;
      past ??= { row, strategy: before.strategy, condition: before.condition, stock, point: before.points.at(-1) };
      const since = samples;
      samples = [];
      for (const point of [...before.points, ...since]) take(point);
      later();
    },
    idle() {
      cancelAnimationFrame(frame);
      frame = row = 0;
      run = past = null;
      samples = [];
      head.textContent = t("live.title");
      phase.textContent = refusal.textContent = "";
      idle.hidden = false;
      body.hidden = stopping.hidden = judged.hidden = true;
    },
    lost: (is) => { lost.hidden = !is; },
    /** closing says that the shop ends, and the run with it. */
    closing() {
      cancelAnimationFrame(frame);
      frame = 0;
      phase.textContent = t("live.closing");
      invariants.hidden = true; // nobody sees to them any more
      stopping.hidden = true;
    },
    close() {
      cancelAnimationFrame(frame);
      plot.close();
    },
  };
}

/** figure is a number of a point as it is shown. Of the holders -1 says that they are not known; other numbers below 0 are what they are. */
const figure = (name, value) => (value == null || (name === "holders" && value < 0) ? "–" : number(value));

/** pointOf is what a finished row came to, as the last of its points. */
function pointOf(row) {
  const { wall_ms, sold, sold_out, failed, unknown, max_holders } = row;
  return { t_ms: wall_ms, audit_ms: wall_ms, waiting: 0, holders: -1, remaining: row.stock - sold + row.lost_updates, sold, sold_out, failed, unknown, max_holders };
}

/** aboutRow is the last finished row of a run, for whom nothing else is known. */
function aboutRow({ rows = [] }) {
  const last = rows.at(-1);
  return last && { row: rows.length, strategy: last.strategy, condition: last.condition, stock: last.stock };
}

/** invariant is a line that turns red once, and stays so for its row. A row that has come to no end is not judged. */
function invariant(name) {
  const sign = el("span", { class: "sign" });
  const words = el("span", {});
  const node = el("li", { class: "invariant", "data-invariant": name }, sign, " ", words);
  return {
    node,
    set({ seen, broken, unjudged }, text) {
      node.classList.toggle("broken", Boolean(seen || broken));
      node.classList.toggle("unjudged", Boolean(unjudged));
      const mark = seen || broken ? "✗" : unjudged ? "?" : "✓";
      if (sign.textContent !== mark) sign.textContent = mark;
      const before = seen ? t(`live.broken.${name}`, { ms: Math.round(seen.t_ms) }) : broken ? t("live.broken") : unjudged ? t("live.unjudged") : "";
      const next = before + text;
      if (words.textContent !== next) words.textContent = next;
    },
  };
}
