// The stage: two cases of a run side by side, on one scale. While a run is under way, one is the case under way.

import { newCases, pair, worst } from "./cases.js";
import { el, put, retell, say } from "./dom.js";
import { nameOf, picture, scaleOf, seconds, soldOf, soldWords } from "./picture.js";
import { replay } from "./replay.js";
import { verdict } from "./results.js";
import { number, t, told } from "./text.js";

const facts = ["waiting", "remaining", "sold_out", "failed", "unknown", "holders"];
const invariants = ["stock", "holders", "service"];
const stacked = 700; // px: in a narrower stage the lanes are below each other

/** figure formats a number of a point. -1 for holders means unknown; other numbers may be negative. */
const figure = (name, value) => (value == null || (name === "holders" && value < 0) ? "–" : number(value));

/** pointOf returns the last point of a finished case. */
function pointOf({ stock, lost_updates: lost, sold, sold_out, failed, unknown, max_holders }) {
  return { waiting: 0, holders: -1, remaining: stock - sold + lost, sold_out, failed, unknown, max_holders };
}

/** outcome describes the result of a case, or its progress. */
function outcome(one, ended) {
  const { row, stock, phase } = one;
  const sold = soldOf(one);
  if (!row && sold === null) return t(phase ? `live.phase.${phase}` : ended ? "stage.never" : "stage.next");
  const beyond = (sold ?? 0) - stock;
  const n = row?.verdict === "stuck" ? -beyond : row?.verdict === "undersold" ? row.undersold : beyond;
  if (row && row.verdict !== "ok") return t(`stage.verdict.${row.verdict}`, { sold, stock, n });
  return soldWords(one, sold ?? 0);
}

/**
 * newInvariant makes a line with an invariant or, once it is broken, its violation. The line stays red for its
 * case. An unfinished case is not judged.
 */
function newInvariant(name) {
  const sign = el("span.sign");
  const words = el("span");
  const node = el("li.invariant", { "data-invariant": name }, sign, " ", words);
  return {
    node,
    /** set shows a violation, if there was one. A case that ended early is not judged. */
    set(broken, unjudged, text) {
      node.classList.toggle("broken", Boolean(broken));
      node.classList.toggle("unjudged", Boolean(!broken && unjudged));
      retell(sign, broken ? "✗" : unjudged ? "?" : "✓");
      const lead = broken ? t("live.broken", { time: seconds(broken.t_ms) }) : unjudged ? t("live.unjudged") : "";
      retell(words, lead + text);
    },
  };
}

/** newLane makes the lane of a case: its result, its picture, its invariants and its figures. */
function newLane(exclusive) {
  const title = el("h3");
  const came = el("p.came");
  const canvas = el("div.canvas");
  const values = Object.fromEntries(facts.map((name) => [name, el("dd", "–")]));
  const lines = Object.fromEntries(invariants.map((name) => [name, newInvariant(name)]));
  const list = el("ul.invariants", invariants.map((name) => lines[name].node));
  const figures = el("dl.lanefacts",
    facts.map((name) => el(`div.fact.${name}`, el("dt", t(`live.${name}`)), values[name])));
  const node = el("article.lane", el("header.lanehead", title, came), canvas, list, figures);

  function judge(one, point, ended) {
    const { row, stock, broken, strategy } = one;
    const most = point?.max_holders ?? 0;
    const harmless = most > 1 && row?.verdict === "ok" ? t("live.harmless") : "";
    const sold = { sold: soldOf(one) ?? 0, stock };
    const held = {
      stock: t("live.invariant.stock", sold),
      holders: t("live.invariant.holders", { n: most }),
      service: t("live.invariant.service"),
    };
    const details = { stock: soldWords(one, sold.sold), holders: t("live.most", { n: most }) };
    for (const name of invariants) {
      const seen = broken.find(({ invariant }) => invariant === name);
      const detail = details[name] ?? told(seen?.text ?? "", seen?.message);
      const line = seen && t(`stage.invariant.${name}`);
      const broke = line && (detail ? t("stage.detail", { line, detail }) : line);
      lines[name].set(seen, ended && !row, (broke ?? held[name]) + (name === "holders" ? harmless : ""));
    }
    // A violation in the headline is repeated only for screen readers, which announce it when it happens.
    lines.stock.node.classList.toggle("unseen", sold.sold > stock);
    lines.service.node.classList.toggle("unseen", row?.verdict === "stuck");
    lines.holders.node.classList.toggle("harmless", Boolean(harmless)); // the stock refused the late write
    lines.holders.node.hidden = !exclusive.has(strategy);
  }

  return {
    node,
    /** draw shows a case. ended says that the run is over, and chosen that this is the chosen case. */
    draw(one, { ended, chosen, unfenced, ...size }) {
      const begun = Boolean(one.row || one.points.length > 0);
      const point = one.row ? pointOf(one.row) : one.points.at(-1);
      list.setAttribute("aria-live", one.phase && !one.row ? "assertive" : "off");
      Object.assign(node.dataset, { n: one.n, strategy: one.strategy, condition: one.condition });
      node.classList.toggle("chosen", chosen);
      node.classList.toggle("failed", Boolean(one.broken.length > 0 && one.row?.verdict !== "ok"));
      title.textContent = nameOf(one) + (unfenced ? ` · ${t("results.unfenced")}` : "");
      put(came, one.row && verdict(one.row), " ", outcome(one, ended));
      put(canvas, picture(one, size));
      list.hidden = figures.hidden = !begun;
      judge(one, point, ended);
      for (const name of facts) values[name].textContent = figure(name, point?.[name]);
      values.unknown.parentElement.hidden = !point?.unknown;
      values.holders.parentElement.classList.toggle("alarm", exclusive.has(one.strategy) && point?.holders > 1);
    },
  };
}

/** newHead makes the head of the stage: its title, the phase of the run, and the button that stops it. */
function newHead(stop, refused) {
  const title = el("h2", t("live.title"));
  const phase = el("p.small.phase", { role: "status", "aria-live": "polite" });
  const stopping = el("button.danger", { hidden: true, onclick: halt }, t("run.stop"));
  const refusal = el("span.alarm", { role: "alert" });
  const lost = el("p.small.alarm", { hidden: true });

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
    nodes: [el("div.pair.livehead", title, phase, stopping, refusal), lost],
    draw({ now, ended, state, error, message, rows_done: n, rows_all: of }, earlier) {
      stopping.hidden = Boolean(ended);
      stopping.disabled = state === "stopping";
      if (ended) title.textContent = t(earlier ? "stage.earlier" : "live.ended", { state: t(`run.state.${state}`) });
      else title.textContent = now ? t("live.case", { n: now.row, of: now.of }) : t("live.title");
      const done = told(error, message) || t("live.done", { n, of });
      const said = now ? `${nameOf(now)} · ${t(`live.phase.${now.phase}`)}` : done;
      retell(phase, said);
    },
    rest(said, name = t("live.title")) {
      title.textContent = name;
      retell(phase, said);
      refusal.textContent = "";
      stopping.hidden = true;
    },
    /** lost says why no stream is open. "" means that there is one. */
    lost(reason) {
      lost.textContent = reason;
      lost.hidden = !reason;
    },
  };
}

/** roomIn returns the height of the pictures in the lanes. On a projector the lanes fill the screen. */
function roomIn(lanes) {
  const least = 210;
  if (!("present" in document.documentElement.dataset)) return Math.min(420, Math.max(least, innerHeight - 412));
  const drawn = lanes.querySelector(".canvas").offsetHeight; // as last drawn; the texts around it stay
  return Math.max(least, innerHeight - (lanes.getBoundingClientRect().bottom + scrollY - drawn) - 12);
}

/** newLanes makes the two lanes. */
function newLanes(exclusive) {
  const lanes = [newLane(exclusive), newLane(exclusive)];
  const node = el("div.twolanes", { hidden: true }, lanes.map((lane) => lane.node));
  return {
    node,
    /** shows reports whether a case is in a lane. */
    shows: ({ n }) => lanes.some((lane) => !lane.node.hidden && lane.node.dataset.n === String(n)),
    /** draw shows one or two cases of a run on one scale. look is the chosen case. */
    draw(shown, look, { ended, settings }) {
      const all = node.clientWidth;
      const narrow = all < stacked;
      const width = (narrow || shown.length < 2 ? all : Math.floor((all - 12) / 2)) - 2;
      const height = narrow ? 190 : roomIn(node);
      const scale = scaleOf(shown);
      const faulty = shown.some(({ faults }) => faults.length > 0); // names of faults are above the picture
      node.classList.toggle("alone", shown.length < 2);
      lanes.forEach((lane, i) => {
        lane.node.hidden = !shown[i];
        const size = { scale, faulty, axis: narrow || i === 0, width, height };
        const about = { ended, chosen: shown[i] === look, unfenced: settings?.unfenced };
        if (shown[i]) lane.draw(shown[i], { ...about, ...size });
      });
    },
  };
}

/** newWarner makes a screen reader announce, once, a violation in a case under way that is not in a lane. */
function newWarner(shows) {
  const said = new Set();
  return (run, cases) => {
    for (const one of cases.filter(({ phase }) => phase)) {
      for (const { invariant, t_ms: ms } of one.broken) {
        const key = `${run} ${one.n} ${invariant}`;
        if (said.has(key) || shows(one)) continue;
        if (said.size > 1000) said.clear();
        said.add(key);
        say(`${nameOf(one)}: ${t("live.broken", { time: seconds(ms) })}${t(`stage.invariant.${invariant}`)}`);
      }
    }
  };
}

/** newStage makes the stage. stop stops the run under way; refused is called with the error if that fails. */
export function newStage(options, stop, refused) {
  const head = newHead(stop, refused);
  const lanes = newLanes(new Set(options.strategies.filter((s) => s.exclusive).map(({ name }) => name)));
  const warn = newWarner(lanes.shows);
  const node = el("section.panel.live", { "aria-label": t("live.title") }, head.nodes, lanes.node);
  const cases = newCases();
  let run = null;
  let chosen = 0; // the number of the chosen case; 0: the one under way, or the worst
  let earlier = false; // the run is not the latest one
  let frame = 0;
  let recorded = null; // the run that is replayed
  let stopReplay = () => {};

  const later = () => frame ||= requestAnimationFrame(draw);

  /** looking returns the chosen case. */
  function looking() {
    const all = cases.list();
    return all[chosen - 1] ?? (run?.ended ? worst(all) : all[(run?.now?.row ?? Math.max(1, run?.rows_done ?? 1)) - 1]);
  }

  function draw() {
    frame = 0;
    const all = cases.list();
    const look = looking();
    lanes.node.hidden = !run || !look;
    if (lanes.node.hidden || node.clientWidth === 0) return;
    if (recorded) head.rest(t("stage.recorded.about", run.settings), t("stage.recorded"));
    else head.draw(run, earlier);
    lanes.draw(pair(all, look), look, run);
    warn(run.id, all);
  }

  /** live ends the replay of a recorded run. */
  function live() {
    stopReplay();
    recorded = null;
  }

  const resized = new ResizeObserver(later);
  resized.observe(node);
  return {
    node,
    cases,
    looking,
    /** shown returns the id of the run on the stage. */
    shown: () => run?.id,
    /** look chooses a case by its number. 0 is the one under way, or else the one that failed worst. */
    look(n) {
      chosen = n;
      later();
    },
    /** update shows the run of the stream. */
    update(next) {
      live();
      run = next;
      earlier = false;
      cases.take(next);
      later();
    },
    /** adopt takes the shop's record of a run. For the run that is shown, it adds what the stream lacked. */
    adopt(record, isEarlier = false) {
      if (recorded?.id === record.id) return;
      live();
      if (run?.id !== record.id) run = { ...record, now: null };
      earlier = isEarlier;
      cases.adopt(record);
      later();
    },
    /** replay shows a recorded run, marked as such, until there is another run to show. */
    replay(record) {
      if (recorded?.id === record.id) return;
      live();
      recorded = record;
      stopReplay = replay(record, (known) => {
        run = known;
        cases.replay(run);
        later();
      });
    },
    lost: head.lost,
    /** closing says that the shop is closing, and that the run ends with it. */
    closing() {
      live();
      run = null;
      head.rest(t("live.closing"));
      later();
    },
    close() {
      live();
      cancelAnimationFrame(frame);
      resized.disconnect();
    },
  };
}
