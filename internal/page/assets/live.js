// Live: the row under way, as the stream reports it. It is drawn at most once a frame,
// and keeps a bounded number of samples.

import { el, put } from "./dom.js";
import { newPlot } from "./plot.js";
import { verdict } from "./results.js";
import { named, number, t, told } from "./text.js";

const mostSamples = 600;
const facts = ["waiting", "remaining", "sold", "sold_out", "failed", "unknown", "holders", "max_holders"];

/** newSamples keeps the points of a row. Of too many, every second one is dropped. */
function newSamples() {
  let all = [];
  return {
    all: () => all,
    /**
     * take adds a point that is newer than the last one. The point of the final audit replaces the last one: it is
     * dated when the outcome was known, which is before the sample that found it.
     */
    take(point) {
      if (!point) return;
      const last = all.at(-1);
      if (!last || point.t_ms > last.t_ms) all.push(point);
      else if (point.audit_ms > last.audit_ms) all[all.length - 1] = { ...point, t_ms: last.t_ms };
      if (all.length > mostSamples) all = all.filter((_, i) => i % 2 === 0);
    },
    /** prepend puts points before those that are there. */
    prepend(points) {
      const since = all;
      all = [];
      for (const point of [...points, ...since]) this.take(point);
    },
    clear: () => all = [],
  };
}

/** newBar makes the bar of what is sold, within the stock and beyond it. */
function newBar() {
  const [within, beyond, edge, name] = [el("i.within"), el("i.beyond"), el("b.edge"), el("span.edgename")];
  const node = el("div.soldbar", { role: "img" }, within, beyond, edge, name);
  return {
    node,
    draw(sold, stock) {
      const whole = Math.max(stock * 1.15, sold * 1.03, 1);
      within.style.width = `${(100 * Math.min(sold, stock)) / whole}%`;
      beyond.style.width = `${(100 * Math.max(0, sold - stock)) / whole}%`;
      edge.style.left = name.style.left = `${(100 * stock) / whole}%`;
      name.textContent = t("live.stock", { stock });
      node.setAttribute("aria-label", t("live.bar", { sold, stock }));
    },
  };
}

/** newBody makes what is shown of a row: its figures, whether the invariants hold, and the plot. */
function newBody(exclusive) {
  const bar = newBar();
  const values = Object.fromEntries(facts.map((name) => [name, el("dd", "–")]));
  const stockLine = newInvariant("stock");
  const holdersLine = newInvariant("holders");
  const invariants = el("ul.invariants", { "aria-live": "assertive" }, stockLine.node, holdersLine.node);
  const host = el("div.chart");
  const plot = newPlot(host);
  const node = el("div.livebody", { hidden: true }, bar.node,
    el("dl.books.live", facts.map((name) => el(`div.fact.${name}`, el("dt", t(`live.${name}`)), values[name]))),
    invariants, el("figure.liveplot", el("figcaption.small", t("live.plot")), host));

  /** draw shows a row: about is what it is, done what came of it, if it has finished. */
  function draw(about, done, ended, samples) {
    const point = done ? pointOf(done) : about.point ?? samples.at(-1);
    const alone = exclusive.has(about.strategy);
    const { sold = 0, max_holders: most = 0 } = point ?? {};
    for (const name of facts) values[name].textContent = figure(name, point?.[name]);
    values.unknown.parentElement.hidden = !point?.unknown;
    values.holders.parentElement.classList.toggle("alarm", alone && point?.holders > 1);
    bar.draw(sold, about.stock);
    const state = (name, broken) => {
      const seen = about.broken?.find(({ invariant }) => invariant === name);
      if (seen) return { seen };
      return broken || done ? { broken } : { unjudged: ended };
    };
    const overStock = (done?.oversold ?? sold - about.stock) > 0;
    stockLine.set(state("stock", overStock), t("live.invariant.stock", { sold, stock: about.stock }));
    holdersLine.node.hidden = !alone;
    holdersLine.set(state("holders", most > 1),
      t("live.invariant.holders", { n: most }) + (most > 1 && done?.verdict === "ok" ? t("live.harmless") : ""));
    plot.draw(done && !(samples.at(-1)?.t_ms >= point.t_ms) ? [...samples, point] : samples, about.stock);
  }
  return { node, invariants, draw, close: plot.close };
}

/** newTop makes the top of the panel: which row it is, what the run is doing, and the button that stops it. */
function newTop(stop, refused) {
  const title = el("h2", t("live.title"));
  const phase = el("p.small.phase", { role: "status", "aria-live": "polite" });
  const stopping = el("button.danger", { hidden: true, onclick: halt }, t("run.stop"));
  const refusal = el("span.alarm", { role: "alert" });
  const lost = el("p.small.alarm", { hidden: true }, t("live.lost"));
  const idle = el("p.nothing", t("live.idle"));
  const judged = el("ul.judged", { "aria-label": t("live.judged") });

  async function halt() {
    stopping.disabled = true;
    refusal.textContent = "";
    try {
      await stop();
    } catch (error) {
      refusal.textContent = error.message;
      stopping.disabled = false;
      refused(error);
    }
  }

  return {
    nodes: [el("div.pair.livehead", title, stopping, refusal), phase, lost, idle, judged],
    draw({ now, rows = [], ended, state, error, rows_done: n, rows_all: of }, about) {
      idle.hidden = true;
      const finished = rows.filter(Boolean);
      judged.hidden = finished.length === 0;
      put(judged, finished.map((row) => el("li", `${nameOf(row)} `, verdict(row))));
      stopping.hidden = Boolean(ended);
      stopping.disabled = state === "stopping";
      title.textContent = now ? t("live.row", now) : t("live.ended", { state: t(`run.state.${state}`) });
      const said = now ? t(`live.phase.${now.phase}`) : told(error) || t("live.done", { n, of });
      phase.textContent = about ? `${nameOf(about)} · ${said}` : said;
    },
    /** rest says why nothing can be stopped. */
    rest(said) {
      phase.textContent = said;
      stopping.hidden = true;
    },
    begin: () => refusal.textContent = "",
    lost: (is) => lost.hidden = !is,
    idle() {
      this.begin();
      this.rest("");
      title.textContent = t("live.title");
      idle.hidden = false;
      judged.hidden = true;
    },
  };
}

/** newLive makes the panel. stop stops the run; refused is told why it could not. */
export function newLive(options, stop, refused) {
  let run = null;
  let row = 0; // the row that the samples are of
  let past = null; // what was last known of that row
  let frame = 0;

  const samples = newSamples();
  const top = newTop(stop, refused);
  const body = newBody(new Set(options.strategies.filter((s) => s.exclusive).map(({ name }) => name)));

  const later = () => frame ||= requestAnimationFrame(draw);
  function cancel() {
    cancelAnimationFrame(frame);
    frame = 0;
  }

  function draw() {
    frame = 0;
    if (!run) return;
    const { rows = [] } = run;
    const about = run.now ?? past ?? lastOf(rows);
    top.draw(run, about);
    body.node.hidden = !about;
    if (about) body.draw(about, rows[about.row - 1], Boolean(run.ended), samples.all());
  }

  function forget(next) {
    samples.clear();
    row = next;
    past = null;
    top.begin();
  }

  return {
    node: el("section.panel.live", { "aria-label": t("live.title") }, top.nodes, body.node),
    /** rows reports the finished rows of the run. */
    rows(next) {
      if (run?.id !== next.id) return;
      run = { ...run, rows: next.rows };
      later();
    },
    update(next) {
      if (run?.id !== next.id || (next.now && next.now.row !== row)) forget(next.now?.row ?? 0);
      run = next;
      body.invariants.hidden = false;
      past = next.now ?? past;
      samples.take(next.now?.point);
      later();
    },
    /** begin adds what a run did before the stream began, in the row that began last. */
    begin({ samples: before, settings: { stock } }) {
      const last = before.at(-1);
      if (!last || (run?.now && last.n !== row)) return;
      const { n, strategy, condition, points } = last;
      row = n;
      past ??= { row, strategy, condition, stock, point: points.at(-1) };
      samples.prepend(points);
      later();
    },
    idle() {
      cancel();
      forget(0);
      run = null;
      top.idle();
      body.node.hidden = true;
    },
    lost: top.lost,
    /** closing says that the shop is closing, and the run with it. */
    closing() {
      cancel();
      top.rest(t("live.closing"));
      body.invariants.hidden = true; // nothing checks them any more
    },
    close() {
      cancel();
      body.close();
    },
  };
}

const nameOf = ({ strategy, condition }) => `${strategy} · ${named(`condition.${condition}`, condition)}`;

/** figure is a number of a point. -1 holders are unknown; other numbers may be negative. */
const figure = (name, value) => (value == null || (name === "holders" && value < 0) ? "–" : number(value));

/** pointOf is the last point of a finished row. */
function pointOf({ stock, lost_updates: lost, wall_ms: ms, sold, sold_out, failed, unknown, max_holders }) {
  const remaining = stock - sold + lost;
  return { t_ms: ms, audit_ms: ms, waiting: 0, holders: -1, remaining, sold, sold_out, failed, unknown, max_holders };
}

/** lastOf is the last finished row, for a run of which nothing else is known. */
function lastOf(rows) {
  const last = rows.at(-1);
  return last && { row: rows.length, strategy: last.strategy, condition: last.condition, stock: last.stock };
}

/** newInvariant makes a line that turns red once, and stays red for its row. An unfinished row is not judged. */
function newInvariant(name) {
  const sign = el("span.sign");
  const words = el("span");
  const node = el("li.invariant", { "data-invariant": name }, sign, " ", words);
  const say = (on, text) => on.textContent !== text && (on.textContent = text); // a screen reader repeats what is set
  return {
    node,
    set({ seen, broken, unjudged }, text) {
      node.classList.toggle("broken", Boolean(seen || broken));
      node.classList.toggle("unjudged", Boolean(unjudged));
      say(sign, seen || broken ? "✗" : unjudged ? "?" : "✓");
      const lead = seen
        ? t(`live.broken.${name}`, { ms: Math.round(seen.t_ms) })
        : broken
        ? t("live.broken")
        : unjudged
        ? t("live.unjudged")
        : "";
      say(words, lead + text);
    },
  };
}
