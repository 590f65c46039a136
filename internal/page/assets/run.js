// Run: a sale with thousands of buyers, live, and what earlier runs came to.

import { call, token, wantsToken } from "./api.js";
import { el, put, say } from "./dom.js";
import { listen } from "./events.js";
import { newLive } from "./live.js";
import { made, newOverlay, results } from "./results.js";
import { named, t, told } from "./text.js";

const mostCompared = 4;
const reopen = 2000; // milliseconds until a stream that was lost or refused is asked for again, and up to half as many more

let chosenLast = null; // what the form had when the part was left, as by a change of the language

/** show shows the form, the run that is under way, and the results of the address. */
export async function show(box, at, page) {
  const { signal } = page;
  const [options, { runs: before }] = await Promise.all([call("/api/runs/options", { signal }), call("/api/runs", { signal })]);
  const runs = new Map(); // by id: what there is to know of each, with its rows once they were asked for
  let list = before; // summaries, newest first
  let latest = null; // the run that the stream tells of; of one whose rows alone have come yet there are no settings
  let address = at;
  let drawing = 0; // counts, so that what was asked for last is what is shown
  let overlay = null; // runs laid over each other, if they are shown
  let jump = Boolean(at.of[0]); // the results are to be brought into sight, once they are there

  const form = newForm(options, start);
  const live = newLive(options, stop, form.refused);
  const result = el("section", { class: "results", "aria-label": t("run.results") });
  const earlier = el("section", { class: "panel earlier", "aria-label": t("run.earlier") });
  const full = el("p", { class: "told", role: "alert" }); // why a run was not ticked
  box.append(el("h1", {}, t("run.title")), el("p", { class: "lead" }, t("run.lead")),
    el("div", { class: "runner" }, form.node, live.node), result, earlier);

  /** chosen are the runs of the address, or the latest one. */
  function chosen() {
    const ids = address.of[0]?.split(",").filter(Boolean) ?? [];
    return ids.length > 0 ? ids.slice(0, mostCompared) : latest?.settings ? [latest.id] : [];
  }

  async function draw() {
    const mine = ++drawing;
    drawList();
    const ids = chosen();
    let all;
    try {
      all = await Promise.all(ids.map((id) => fetched(id, ids.length > 1)));
    } catch (error) {
      if (mine === drawing) showOne(el("p", { class: "alarm", role: "alert" }, error.message));
      return;
    }
    if (mine !== drawing) return;
    if (all.length > 1) showOverlay(all);
    else showOne(...(all.length === 1 && all[0].rows.length > 0 ? results(all[0]) : []));
    if (jump) result.scrollIntoView();
    jump = false;
  }

  function showOne(...nodes) {
    overlay?.close();
    overlay = null;
    put(result, ...nodes);
  }

  /** showOverlay keeps the overlay that there is: what was chosen there stays so. */
  function showOverlay(all) {
    if (!overlay) {
      overlay = newOverlay();
      put(result, ...overlay.nodes);
    }
    overlay.update(all);
  }

  /** fetched is a run with its rows. Those of one that is under way come by the stream, but not its samples. */
  async function fetched(id, sampled) {
    if (!sampled && latest?.id === id && latest.settings && !latest.ended) return latest;
    const known = runs.get(id);
    if (known) return known;
    const run = await call(`/api/runs/${encodeURIComponent(id)}`, { signal });
    if (run.ended) {
      if (runs.size >= options.limits.kept) runs.clear(); // they can be asked for again
      runs.set(id, run);
    }
    return run;
  }

  function drawList() {
    const ids = address.of[0]?.split(",").filter(Boolean) ?? [];
    put(earlier, el("h2", {}, t("run.earlier")),
      list.length === 0 ? el("p", { class: "nothing" }, t("run.noruns")) : el("p", { class: "small" }, t("run.overlay", { n: mostCompared })), full,
      el("div", { class: "scroll", hidden: list.length === 0 }, el("table", { class: "rows" },
        el("thead", {}, el("tr", {}, ["choose", "started", "state", "strategies", "conditions", "load", "oversold", "on"].map((name) =>
          el("th", { scope: "col", class: name === "oversold" ? "number" : "" }, t(`run.list.${name}`))))),
        el("tbody", {}, list.map((run) => el("tr", { class: ids.includes(run.id) ? "chosen" : "" },
          el("td", {}, el("input", { type: "checkbox", checked: ids.includes(run.id), "aria-label": t("run.lay", { id: run.id }), "data-run": run.id, onchange: choose })),
          el("th", { scope: "row" }, el("a", { href: `#/run/${run.id}`, onclick: () => { jump = true; } }, new Date(run.started).toLocaleTimeString(document.documentElement.lang))),
          el("td", {}, t(`run.state.${run.state}`), run.error ? el("span", { class: "alarm" }, ` ${told(run.error)}`) : ""),
          el("td", {}, run.settings.strategies.join(", "), run.settings.unfenced ? el("span", { class: "small" }, ` · ${t("results.unfenced")}`) : ""),
          el("td", {}, run.settings.conditions.map((name) => named(`condition.${name}`, name)).join(", ")),
          el("td", {}, t("run.load", { requests: run.settings.requests, stock: run.settings.stock }), el("span", { class: "small made" }, made(run.settings))),
          el("td", { class: run.oversold > 0 ? "number alarm" : "number" }, run.oversold),
          el("td", { class: "small" }, told(run.redis))))))));
  }

  /** choose lays the ticked runs over each other. One too many is not ticked. */
  function choose({ target }) {
    const ticked = [...earlier.querySelectorAll("input:checked")];
    full.textContent = ticked.length > mostCompared ? t("run.full", { n: mostCompared }) : "";
    if (full.textContent) {
      target.checked = false;
      return;
    }
    const ids = ticked.map((input) => input.dataset.run);
    location.hash = ids.length > 0 ? `#/run/${ids.join(",")}` : "#/run";
  }

  async function start(settings) {
    const { id } = await call("/api/runs", { method: "POST", body: settings });
    say(t("run.started"));
    live.node.scrollIntoView({ block: "nearest" });
    if (address.of[0]) location.hash = "#/run";
    return id;
  }

  async function stop() {
    if (latest) await call(`/api/runs/${latest.id}/stop`, { method: "POST" });
  }

  let stream = null; // while the page is seen: a browser has few connections to a host
  let joined = false; // the stream has told of a run
  let again = 0; // a timer

  function watch() {
    clearTimeout(again);
    stream?.close();
    stream = null;
    if (document.hidden) return;
    joined = false;
    let over = false; // the shop closes
    stream = listen("/api/runs/events", { list: listed, run: ran, row: finished, closing: () => { over = true; closing(); } }, {
      opened: () => live.lost(false),
      ended: (whole) => { // a whole one has lasted for as long as one may
        const lost = over || !whole;
        live.lost(lost);
        again = setTimeout(watch, lost ? reopen * (1 + Math.random() / 2) : 0);
      },
    });
  }

  function listed({ runs: all }) {
    list = all;
    draw();
  }

  function ran({ run }) {
    if (!run) return none();
    const anew = latest?.id !== run.id;
    const known = !anew && latest.settings;
    const ended = latest && !latest.ended && run.ended;
    latest = { ...run, rows: anew ? [] : latest.rows };
    form.busy(!run.ended);
    live.update(latest);
    if (!joined) resume(run.id);
    if (!known || ended || !joined) draw();
    joined = true;
    if (ended) say(t("run.ended", { state: t(`run.state.${run.state}`) }));
  }

  /** none shows that there is no run, as after the shop was started anew. */
  function none() {
    latest = null;
    joined = true;
    form.busy(false);
    live.idle();
    draw();
  }

  /** closing shows that the shop ends: a run ends with it, and its stream too. */
  function closing() {
    form.busy(false);
    live.closing();
  }

  function finished({ id, n, row }) {
    if (latest?.id !== id) latest = { id, rows: [] }; // what else there is to know comes right after it
    latest.rows[n - 1] = row;
    live.rows(latest);
    draw();
  }

  /** resume asks for what a run was before the stream began. */
  async function resume(id) {
    try {
      const run = await call(`/api/runs/${id}`, { signal });
      if (latest?.id === id) live.begin(run.samples.at(-1), run.settings.stock);
    } catch {
      // It is seen from here on.
    }
  }

  signal.addEventListener("abort", () => {
    chosenLast = form.settings();
    drawing++;
    document.removeEventListener("visibilitychange", watch);
    clearTimeout(again);
    stream?.close();
    live.close();
    overlay?.close();
  });
  await draw();
  signal.throwIfAborted();
  document.addEventListener("visibilitychange", watch);
  watch();
  return {
    update: (next) => {
      address = next;
      draw();
    },
  };
}

const presets = [
  { name: "first", strategies: ["none", "v6_watchdog"], conditions: ["calm"], requests: 2000, stock: 100, work_us: 20000 }, // work enough to be watched
  { name: "big", strategies: ["none", "v6_watchdog", "lua_atomic"], conditions: ["calm"], requests: 5000, stock: 1000 },
  { name: "slow", strategies: ["v2_ttl", "v3_uuid", "v4_lua", "v5_reentrant", "v6_watchdog"], conditions: ["slow"], requests: 500, stock: 50 },
  { name: "crash", strategies: ["v1_setnx", "v2_ttl", "v6_watchdog"], conditions: ["crash"], requests: 500, stock: 50 },
  { name: "pause", strategies: ["v6_watchdog", "v8_fenced"], conditions: ["pause"], requests: 500, stock: 50 },
  { name: "unfenced", strategies: ["v8_fenced"], conditions: ["pause"], requests: 500, stock: 50, fencing: "ignored" },
];

/** newForm makes the form by which a run is begun. */
function newForm(options, start) {
  const { limits, defaults } = options;
  const field = (name, min, max, value) => {
    const input = el("input", { id: `run-${name}`, type: "number", min, max, value, required: true });
    return { input, node: el("div", { class: "field" }, el("label", { for: `run-${name}` }, t(`run.${name}`)), input) };
  };
  const requests = field("requests", limits.requests.min, limits.requests.max, defaults.requests);
  const stock = field("stock", limits.stock.min, limits.stock.max, defaults.stock);
  const instances = field("instances", limits.instances.min, limits.instances.max, defaults.instances);
  const ttl = field("ttl_ms", limits.ttl_ms.min, limits.ttl_ms.max, defaults.ttl_ms);
  const work = field("work_us", limits.work_us.min, limits.work_us.max, defaults.work_us);
  const select = (name, values, value) => {
    const input = el("select", { id: `run-${name}` }, values.map((v) => el("option", { value: v, selected: v === value }, t(`run.${name}.${v || "any"}`))));
    return { input, node: el("div", { class: "field" }, el("label", { for: `run-${name}` }, t(`run.${name}`)), input) };
  };
  const backend = select("backend", options.backends.map(({ name }) => name), defaults.backend);
  const keeper = select("keeper", ["", ...options.keepers], defaults.keeper ?? "");
  const fencing = select("fencing", ["checked", "ignored"], defaults.unfenced ? "ignored" : "checked");
  const check = (group, value, text, about, on) => el("label", { class: "check" },
    el("input", { type: "checkbox", name: group, value, checked: on }), el("span", {}, el("strong", {}, text), about ? el("span", { class: "small" }, ` ${about}`) : null));
  const strategies = el("div", { class: "checks" }, options.strategies.map(({ name, adds }) =>
    check("strategy", name, name, named(`strategy.${name}.adds`, adds), defaults.strategies.includes(name))));
  const conditions = el("div", { class: "checks across" }, options.conditions.map(({ name }) =>
    check("condition", name, named(`condition.${name}`, name), t(`condition.${name}.about`), defaults.conditions.includes(name))));
  const secret = el("input", { id: "run-token", type: "password", autocomplete: "off", value: token(), oninput: () => token(secret.value), onchange: () => token(secret.value) });
  const refusal = el("p", { class: "told", role: "alert" });
  const button = el("button", { type: "submit", class: "primary" }, t("run.start"));
  const values = (group) => [...node.querySelectorAll(`input[name="${group}"]:checked:not(:disabled)`)].map(({ value }) => value);
  const offered = presets.filter((preset) => preset.strategies.every((name) => options.strategies.some((s) => s.name === name)) && preset.conditions.every((name) => options.conditions.some((c) => c.name === name)));
  let running = false;

  const node = el("form", { class: "panel runform", "aria-label": t("run.form"), onsubmit: submit, oninput: fit },
    el("div", { class: "pair formhead" }, el("h2", {}, t("run.form")), el("span", { class: "small rowcount" }), button), refusal,
    el("div", { class: "pair presets", role: "group", "aria-label": t("run.presets") }, el("span", { class: "small" }, t("run.presets")), offered
      .map((preset) => el("button", { type: "button", onclick: () => fill(preset) }, t(`run.preset.${preset.name}`)))),
    el("div", { class: "fields" }, requests.node, stock.node, instances.node, ttl.node, work.node, backend.node, keeper.node, fencing.node),
    el("fieldset", {}, el("legend", {}, t("run.strategies")), strategies),
    el("fieldset", {}, el("legend", {}, t("run.conditions")), conditions),
    options.token_needed ? el("div", { class: "pair" }, el("label", { for: "run-token" }, t("page.token")), secret) : null);

  const settings = () => ({
    strategies: values("strategy"), conditions: values("condition"), requests: Number(requests.input.value), stock: Number(stock.input.value),
    instances: Number(instances.input.value), ttl_ms: Number(ttl.input.value), work_us: Number(work.input.value), backend: backend.input.value, keeper: keeper.input.value,
    unfenced: fencing.input.value === "ignored",
  });

  /** fill fills in settings. What a preset leaves open is as it was at first. */
  function fill(preset) {
    requests.input.value = preset.requests;
    stock.input.value = preset.stock;
    work.input.value = preset.work_us ?? defaults.work_us;
    instances.input.value = preset.instances ?? Math.max(2, defaults.instances);
    ttl.input.value = preset.ttl_ms ?? defaults.ttl_ms;
    backend.input.value = preset.backend ?? defaults.backend;
    keeper.input.value = preset.keeper ?? defaults.keeper ?? "";
    fencing.input.value = preset.fencing ?? (preset.unfenced ? "ignored" : "checked");
    for (const input of node.querySelectorAll("input[type=checkbox]")) {
      input.checked = (input.name === "strategy" ? preset.strategies : preset.conditions).includes(input.value);
    }
    const chosen = strategies.querySelector("input:checked")?.closest("label"); // is to be seen
    if (chosen) strategies.scrollTop = chosen.offsetTop - strategies.offsetTop;
    fit();
  }

  /** fit takes out what cannot be had with the rest. */
  function fit() {
    for (const { name, backends, keepers } of options.strategies) {
      const input = node.querySelector(`input[name="strategy"][value="${name}"]`);
      input.disabled = !backends.includes(backend.input.value) || (keeper.input.value !== "" && !keepers.includes(keeper.input.value));
    }
    for (const { name, min_instances: least } of options.conditions) {
      node.querySelector(`input[name="condition"][value="${name}"]`).disabled = Number(instances.input.value) < least;
    }
    const rows = values("strategy").length * values("condition").length;
    node.querySelector(".rowcount").textContent = rows > limits.rows.max ? t("run.toomany", { rows, max: limits.rows.max }) : t("run.rows", { rows });
    button.disabled = running || rows < 1 || rows > limits.rows.max;
    button.textContent = running ? t("run.running") : t("run.start");
  }

  async function submit(event) {
    event.preventDefault();
    if (options.token_needed) token(secret.value); // whatever put it there
    refusal.textContent = "";
    button.disabled = true;
    try {
      await start(settings());
    } catch (error) {
      refusal.textContent = error.message;
      refused(error);
    }
    fit();
  }

  /** refused leads to the token, where that is what is missing. */
  function refused(error) {
    if (options.token_needed && wantsToken(error)) secret.focus();
  }

  fit();
  const first = chosenLast ?? offered[0];
  if (first) fill(first);
  return {
    node, refused, settings,
    busy(on) {
      if (on === running) return;
      running = on;
      fit();
    },
  };
}
