// Run: a sale with thousands of buyers, live, and the results of earlier runs.

import { call, hasShop } from "./api.js";
import { el, head, put, say, scroll } from "./dom.js";
import { follow } from "./events.js";
import { newForm } from "./form.js";
import { scaleOf, thumbnail } from "./picture.js";
import { made, newOverlay, results, verdict } from "./results.js";
import { newStage } from "./stage.js";
import { clockTime, named, number, t, told } from "./text.js";

const mostCompared = 4;

let lastSettings = null; // the form's settings when the part was left, for instance to change the language

/** idsOf returns the ids of the runs in an address. */
const idsOf = ({ of: [ids = ""] }) => ids.split(",").filter(Boolean);

/** caseOf returns the number of the case in an address, or 0. */
const caseOf = ({ query }) => Number(query.get("case")) || 0;

/** show shows the stage, the run under way, and the results of the address. */
export async function show(box, at, { signal }) {
  const [options, { runs }] = await Promise.all([call("/api/runs/options", { signal }), call("/api/runs", { signal })]);
  const stop = () => all.latest() && call(`/api/runs/${all.latest().id}/stop`, { method: "POST" });
  const form = newForm(options, start, lastSettings);
  const stage = newStage(options, stop, form.refused);
  const result = newResult(options.limits.kept, signal, stage);
  const earlier = newEarlier();
  const elsewhere = el("p.elsewhere", { hidden: true }, t("run.elsewhere"), " ",
    el("a", { href: "#/run" }, t("run.watch")));
  const all = newRuns({ form, stage, result, earlier, elsewhere }, runs, signal);
  box.append(el("div.runhead", el("h1", t("run.title")), el("p.lead", t("run.lead"))), form.node, elsewhere,
    stage.node, result.node, earlier.node);

  async function start(settings) {
    const { id } = await call("/api/runs", { method: "POST", body: settings });
    if (!hasShop) return void (location.hash = `#/run/${id}`); // it was recorded
    say(t("run.started"));
    if (location.hash !== "#/run") location.hash = "#/run";
    stage.node.scrollIntoView({ block: "nearest" });
  }

  let unfollow = null;
  signal.addEventListener("abort", () => {
    lastSettings = form.settings();
    unfollow?.();
    stage.close();
    result.close();
  });
  await all.go(at);
  signal.throwIfAborted();
  unfollow = follow("/api/runs/events", all.on, all.leave, stage.lost);
  return {
    update(next) {
      if (next.of.length > 0 && !earlier.node.contains(document.activeElement)) scrollTo(0, 0);
      all.go(next);
    },
  };
}

/** newRuns shows the runs of the address, and the run of the stream, in the sections of the page. */
function newRuns({ form, stage, result, earlier, elsewhere }, list, signal) {
  let latest = null; // the run of the stream; as long as only its rows have arrived it has no settings
  let joined = false; // the stream has reported a run
  let ids = []; // the ids of the runs in the address

  /** own reports whether the stage shows the run of the stream. */
  const own = () => ids.length === 0 || (ids.length === 1 && ids[0] === latest?.id);

  /** stand shows the run of the address on the stage, and no other. */
  function stand() {
    if (!hasShop && ids.length === 0 && latest?.samples) stage.replay(latest);
    else if (own() && latest?.settings) stage.update(latest);
    else if (own() && joined && !latest) rehearse(); // as after a restart of the shop
    stage.node.hidden = ids.length > 1 || (!own() && stage.shown() !== ids[0]);
    elsewhere.hidden = own() || !latest || Boolean(latest.ended);
  }

  /** rehearse replays the recorded run that comes with the page. */
  async function rehearse() {
    const run = await (await fetch("page/recorded.json", { signal })).json();
    if (own() && !latest && !signal.aborted) stage.replay(run);
  }

  /** draw shows the runs of the address, or the latest one. */
  async function draw() {
    earlier.draw(list, ids);
    stand();
    await result.draw(ids.length > 0 ? ids.slice(0, mostCompared) : latest?.settings ? [latest.id] : [], latest);
    stand();
  }

  /** record fetches the shop's record of the run under way: its state before the stream, and its final rows. */
  async function record(id) {
    const whole = await call(`/api/runs/${id}`, { signal }).catch(() => null); // without it, the picture begins later
    if (whole && whole.id === latest?.id && own()) stage.adopt(whole);
    result.redraw();
  }

  const on = {
    list(event) {
      list = event.runs;
      draw();
    },
    run({ run }) {
      const anew = latest?.id !== run?.id;
      const known = !anew && latest?.settings;
      const ended = known && !latest.ended && run?.ended;
      const more = !joined || anew || latest.rows_done !== run?.rows_done;
      const whole = joined && known && !ended;
      latest = run && { ...run, rows: anew ? [] : latest.rows };
      joined = true;
      form.busy(Boolean(run && !run.ended));
      if (whole) stand();
      else draw();
      if (run && !run.ended && more) record(run.id);
      if (ended) say(t("run.ended", { state: t(`run.state.${run.state}`) }));
    },
    row({ id, n, row }) {
      if (latest?.id !== id) latest = { id, rows: [] }; // the rest comes with the next event
      latest.rows[n - 1] = row;
      draw();
    },
    closing() {
      form.busy(false);
      stage.closing();
    },
  };
  return {
    on,
    latest: () => latest,
    /** leave is called before the stream is opened anew. */
    leave: () => joined = false,
    /** go shows the runs of an address. */
    async go(at) {
      ids = idsOf(at);
      stage.look(caseOf(at));
      await draw();
      if (own() && latest?.settings && !latest.ended) record(latest.id); // the stage may have shown another run
    },
  };
}

/** newResult makes the section for the results of one run, or for the comparison of several. */
function newResult(kept, signal, stage) {
  const node = el("section.results", { "aria-label": t("run.results") });
  const runs = new Map(); // finished runs by id, with their rows
  let drawing = 0; // counts the calls to draw, so that only the last one shows its result
  let overlay = null;
  let one = null; // the run of the table

  /** fetched returns a run with its rows. The rows of the run under way come with the stream, but not its samples. */
  async function fetched(id, sampled, latest) {
    if (!sampled && latest?.id === id && latest.settings && !latest.ended) return latest;
    if (runs.has(id)) return runs.get(id);
    const run = await call(`/api/runs/${encodeURIComponent(id)}`, { signal });
    if (run.ended) {
      if (runs.size >= kept) runs.clear(); // they can be fetched again
      runs.set(id, run);
    }
    return run;
  }

  function showOne(...nodes) {
    overlay?.close();
    overlay = null;
    put(node, ...nodes);
  }

  /** showOverlay updates the existing overlay, if any, so that the choice in it is kept. */
  function showOverlay(all) {
    one = null;
    if (!overlay) {
      overlay = newOverlay();
      put(node, ...overlay.nodes);
    }
    overlay.update(all);
  }

  /** table shows the table of a run. Its pictures have the same scale. */
  function table() {
    if (!one || one.rows.filter(Boolean).length === 0) return showOne();
    const cases = stage.cases.list();
    const scale = scaleOf(cases);
    const focused = node.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
    showOne(...results(one, stage.looking()?.n, (n) => cases[n - 1] && thumbnail(cases[n - 1], scale)));
    if (focused) node.querySelector(`a[href="${focused}"]`)?.focus({ preventScroll: true });
  }

  return {
    node,
    /** draw shows runs by their ids. It returns false if it failed, or a later call has come in the meantime. */
    async draw(ids, latest) {
      const mine = ++drawing;
      try {
        const all = await Promise.all(ids.map((id) => fetched(id, ids.length > 1, latest)));
        if (mine !== drawing) return false;
        if (all.length > 1) {
          showOverlay(all);
          return true;
        }
        one = all[0] ?? null;
        if (one?.samples) stage.adopt(one, one.id !== latest?.id);
        table();
        return true;
      } catch (error) {
        if (mine === drawing) showOne(el("p.alarm", { role: "alert" }, error.message));
        return false;
      }
    },
    /** redraw draws the table again, when its cases have changed. */
    redraw: () => overlay || table(),
    close() {
      drawing++;
      overlay?.close();
    },
  };
}

/** newEarlier makes the list of the runs that the shop keeps. */
function newEarlier() {
  const node = el("section.panel.earlier", { "aria-label": t("run.earlier") });
  const full = el("p.told", { role: "alert" }); // why a run was not ticked
  const columns = ["choose", "started", "state", "strategies", "conditions", "load", "verdicts", "oversold", "on"];
  const titles = columns.map((name) => [t(`run.list.${name}`), name === "oversold" ? "number" : null]);

  /** choose compares the ticked runs. If there are too many, the last one is unticked. */
  function choose({ target }) {
    const ticked = [...node.querySelectorAll("input:checked")];
    full.textContent = ticked.length > mostCompared ? t("run.full", { n: mostCompared }) : "";
    if (full.textContent) {
      target.checked = false;
      return;
    }
    location.hash = `#/run/${ticked.map((input) => input.dataset.run).join(",")}`.replace(/\/$/, "");
  }

  function line({ id, started, state, error, message, settings, verdicts, oversold, redis }, checked) {
    const { strategies, conditions, requests, stock, unfenced } = settings;
    const tick = { type: "checkbox", checked, "data-run": id, onchange: choose };
    const box = el("input", { ...tick, "aria-label": t("run.lay", { id }) });
    const at = clockTime(started);
    return el("tr", { class: checked ? "chosen" : null }, el("td", box),
      el("th", { scope: "row" }, el("a", { href: `#/run/${id}` }, at)),
      el("td", t(`run.state.${state}`), error && el("span.alarm", ` ${told(error, message)}`)),
      el("td", strategies.join(", "), unfenced && el("span.small", ` · ${t("results.unfenced")}`)),
      el("td", conditions.map((name) => named(`condition.${name}`, name)).join(", ")),
      el("td", t("run.load", { requests, stock }), el("span.small.made", made(settings))),
      el("td", verdicts.map((name) => [verdict({ verdict: name }), " "]).flat()),
      el("td", { class: oversold > 0 ? "number alarm" : "number" }, number(oversold)), el("td.small", redis));
  }

  return {
    node,
    draw(list, ids) {
      const table = el("table.rows", head(...titles), el("tbody", list.map((run) => line(run, ids.includes(run.id)))));
      const focus = node.contains(document.activeElement) && document.activeElement.dataset.run;
      put(node, el("h2", t("run.earlier")),
        list.length === 0 ? el("p.nothing", t("run.noruns")) : el("p.small", t("run.overlay", { n: mostCompared })),
        full, list.length > 0 && scroll(t("run.earlier"), table));
      if (focus) node.querySelector(`[data-run="${CSS.escape(focus)}"]`)?.focus({ preventScroll: true });
    },
  };
}
