// Run: a sale with thousands of buyers, live, and the results of earlier runs.

import { call } from "./api.js";
import { el, head, put, say } from "./dom.js";
import { follow } from "./events.js";
import { newForm } from "./form.js";
import { newLive } from "./live.js";
import { made, newOverlay, results } from "./results.js";
import { named, t, told } from "./text.js";

const mostCompared = 4;

let lastSettings = null; // what the form said when the part was left, for instance to change the language

/** idsOf are the runs that an address names. */
const idsOf = ({ of: [ids = ""] }) => ids.split(",").filter(Boolean);

/** show shows the form, the run under way, and the results of the address. */
export async function show(box, at, { signal }) {
  const [options, { runs }] = await Promise.all([call("/api/runs/options", { signal }), call("/api/runs", { signal })]);
  let list = runs; // summaries, newest first
  let latest = null; // the run of the stream; as long as only its rows have arrived it has no settings
  let joined = false; // the stream has reported a run
  let ids = idsOf(at);
  let jump = ids.length > 0; // scroll to the results, once they are there

  const form = newForm(options, start, lastSettings);
  const live = newLive(options, () => latest && call(`/api/runs/${latest.id}/stop`, { method: "POST" }), form.refused);
  const result = newResult(options.limits.kept, signal);
  const earlier = newEarlier(() => jump = true);
  box.append(el("h1", t("run.title")), el("p.lead", t("run.lead")), el("div.runner", form.node, live.node), result.node,
    earlier.node);

  async function start(settings) {
    await call("/api/runs", { method: "POST", body: settings });
    say(t("run.started"));
    live.node.scrollIntoView({ block: "nearest" });
    if (ids.length > 0) location.hash = "#/run";
  }

  /** draw shows the runs of the address, or the latest one. */
  async function draw() {
    earlier.draw(list, ids);
    const chosen = ids.length > 0 ? ids.slice(0, mostCompared) : latest?.settings ? [latest.id] : [];
    if (!await result.draw(chosen, latest)) return;
    if (jump) result.node.scrollIntoView();
    jump = false;
  }

  const on = {
    list(event) {
      list = event.runs;
      draw();
    },
    run({ run }) {
      const anew = latest?.id !== run?.id;
      const known = !anew && latest?.settings;
      const ended = latest && !latest.ended && run?.ended;
      latest = run && { ...run, rows: anew ? [] : latest.rows };
      form.busy(Boolean(run && !run.ended));
      if (run) live.update(latest);
      else live.idle(); // as after a restart of the shop
      if (run && !joined) begun(run.id, signal).then((before) => latest?.id === before?.id && live.begin(before));
      if (!known || ended || !joined) draw();
      joined = true;
      if (ended) say(t("run.ended", { state: t(`run.state.${run.state}`) }));
    },
    row({ id, n, row }) {
      if (latest?.id !== id) latest = { id, rows: [] }; // the rest of it comes with the next event
      latest.rows[n - 1] = row;
      live.rows(latest);
      draw();
    },
    closing() {
      form.busy(false);
      live.closing();
    },
  };

  let unfollow = null;
  signal.addEventListener("abort", () => {
    lastSettings = form.settings();
    unfollow?.();
    live.close();
    result.close();
  });
  await draw();
  signal.throwIfAborted();
  unfollow = follow("/api/runs/events", on, () => joined = false, live.lost);
  return {
    update(next) {
      ids = idsOf(next);
      draw();
    },
  };
}

/** begun is a run as it was before the stream began. Without it, the plot begins there. */
const begun = (id, signal) => call(`/api/runs/${id}`, { signal }).catch(() => null);

/** newResult makes the section for the results: of one run, or of several laid over each other. */
function newResult(kept, signal) {
  const node = el("section.results", { "aria-label": t("run.results") });
  const runs = new Map(); // finished ones by id, with their rows
  let drawing = 0; // counts the calls of draw, so that the last one is what is shown
  let overlay = null;

  /** fetched is a run with its rows. Those of the run under way come with the stream, but not its samples. */
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

  /** showOverlay keeps an overlay that is there, and what was chosen in it. */
  function showOverlay(all) {
    if (!overlay) {
      overlay = newOverlay();
      put(node, ...overlay.nodes);
    }
    overlay.update(all);
  }

  return {
    node,
    /** draw shows runs by their ids, and tells whether it has: a later call may have come before it was ready. */
    async draw(ids, latest) {
      const mine = ++drawing;
      try {
        const all = await Promise.all(ids.map((id) => fetched(id, ids.length > 1, latest)));
        if (mine !== drawing) return false;
        if (all.length > 1) showOverlay(all);
        else showOne(...(all.length === 1 && all[0].rows.length > 0 ? results(all[0]) : []));
        return true;
      } catch (error) {
        if (mine === drawing) showOne(el("p.alarm", { role: "alert" }, error.message));
        return false;
      }
    },
    close() {
      drawing++;
      overlay?.close();
    },
  };
}

/** newEarlier makes the list of the runs that the shop keeps. opened is called when one of them is opened. */
function newEarlier(opened) {
  const node = el("section.panel.earlier", { "aria-label": t("run.earlier") });
  const full = el("p.told", { role: "alert" }); // why a run was not ticked
  const columns = ["choose", "started", "state", "strategies", "conditions", "load", "oversold", "on"];
  const titles = columns.map((name) => [t(`run.list.${name}`), name === "oversold" ? "number" : null]);

  /** choose lays the ticked runs over each other. One too many is not ticked. */
  function choose({ target }) {
    const ticked = [...node.querySelectorAll("input:checked")];
    full.textContent = ticked.length > mostCompared ? t("run.full", { n: mostCompared }) : "";
    if (full.textContent) {
      target.checked = false;
      return;
    }
    location.hash = `#/run/${ticked.map((input) => input.dataset.run).join(",")}`.replace(/\/$/, "");
  }

  function line({ id, started, state, error, settings, oversold, redis }, checked) {
    const { strategies, conditions, requests, stock, unfenced } = settings;
    const tick = { type: "checkbox", checked, "data-run": id, onchange: choose };
    const box = el("input", { ...tick, "aria-label": t("run.lay", { id }) });
    const at = new Date(started).toLocaleTimeString(document.documentElement.lang);
    return el("tr", { class: checked ? "chosen" : null }, el("td", box),
      el("th", { scope: "row" }, el("a", { href: `#/run/${id}`, onclick: opened }, at)),
      el("td", t(`run.state.${state}`), error && el("span.alarm", ` ${told(error)}`)),
      el("td", strategies.join(", "), unfenced && el("span.small", ` · ${t("results.unfenced")}`)),
      el("td", conditions.map((name) => named(`condition.${name}`, name)).join(", ")),
      el("td", t("run.load", { requests, stock }), el("span.small.made", made(settings))),
      el("td", { class: oversold > 0 ? "number alarm" : "number" }, oversold), el("td.small", told(redis)));
  }

  return {
    node,
    draw(list, ids) {
      const table = el("table.rows", head(...titles), el("tbody", list.map((run) => line(run, ids.includes(run.id)))));
      put(node, el("h2", t("run.earlier")),
        list.length === 0 ? el("p.nothing", t("run.noruns")) : el("p.small", t("run.overlay", { n: mostCompared })),
        full, list.length > 0 && el("div.scroll", table));
    },
  };
}
