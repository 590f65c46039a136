// The form that starts a run.

import { token, wantsToken } from "./api.js";
import { el, submitted, tokenInput } from "./dom.js";
import { named, t } from "./text.js";

const numbers = ["requests", "stock", "instances", "ttl_ms", "work_us"];

const preset = (name, strategies, condition, requests, stock, more) => ({
  name,
  strategies,
  conditions: [condition],
  requests,
  stock,
  ...more,
});

const presets = [
  preset("first", ["none", "v6_watchdog"], "calm", 2000, 100, { work_us: 20000 }), // long enough to be watched
  preset("big", ["none", "v6_watchdog", "lua_atomic"], "calm", 5000, 1000),
  preset("slow", ["v2_ttl", "v3_uuid", "v4_lua", "v5_reentrant", "v6_watchdog"], "slow", 500, 50),
  preset("crash", ["v1_setnx", "v2_ttl", "v6_watchdog"], "crash", 500, 50),
  preset("pause", ["v6_watchdog", "v8_fenced"], "pause", 500, 50),
  preset("unfenced", ["v8_fenced"], "pause", 500, 50, { unfenced: true }),
];

/** field is an input with its label. */
const field = (name, input) => el("div.field", el("label", { for: `run-${name}` }, t(`run.${name}`)), input);

const number = (name, value, { min, max }) =>
  el("input", { id: `run-${name}`, type: "number", min, max, value, required: true });

const select = (name, values, chosen) =>
  el("select", { id: `run-${name}` }, values.map((value) =>
    el("option", { value, selected: value === chosen }, t(`run.${name}.${value || "any"}`))
  ));

const check = (name, value, text, about, checked) =>
  el("label.check", el("input", { type: "checkbox", name, value, checked }),
    el("span", el("strong", text), el("span.small", ` ${about}`)));

/** newInputs are the numbers and choices of the form, by their names. */
function newInputs({ limits, defaults, backends, keepers }) {
  return {
    ...Object.fromEntries(numbers.map((name) => [name, number(name, defaults[name], limits[name])])),
    backend: select("backend", backends.map(({ name }) => name), defaults.backend),
    keeper: select("keeper", ["", ...keepers], defaults.keeper ?? ""),
    fencing: select("fencing", ["checked", "ignored"], defaults.unfenced ? "ignored" : "checked"),
  };
}

/** offered are the presets that this shop can run. */
const offered = ({ strategies, conditions }) =>
  presets.filter((preset) =>
    preset.strategies.every((name) => strategies.some((strategy) => strategy.name === name))
    && preset.conditions.every((name) => conditions.some((condition) => condition.name === name))
  );

/** newChoices makes the lists of strategies and conditions. chosen are those that are ticked and can be run. */
function newChoices({ strategies, conditions, defaults }) {
  const list = el("div.checks",
    strategies.map(({ name, adds }) =>
      check("strategy", name, name, named(`strategy.${name}.adds`, adds), defaults.strategies.includes(name))
    ));
  const across = el("div.checks.across",
    conditions.map(({ name }) =>
      check("condition", name, named(`condition.${name}`, name), t(`condition.${name}.about`),
        defaults.conditions.includes(name))
    ));
  const sets = [el("fieldset", el("legend", t("run.strategies")), list),
    el("fieldset", el("legend", t("run.conditions")), across)];
  const boxes = (node) => [...node.querySelectorAll("input")];
  const chosen = (node) => boxes(node).filter((box) => box.checked && !box.disabled).map(({ value }) => value);
  return {
    sets,
    chosen: () => ({ strategies: chosen(list), conditions: chosen(across) }),
    choose(preset) {
      for (const box of boxes(list)) box.checked = preset.strategies.includes(box.value);
      for (const box of boxes(across)) box.checked = preset.conditions.includes(box.value);
      const first = list.querySelector("input:checked")?.closest("label");
      if (first) list.scrollTop = first.offsetTop - list.offsetTop; // into view
    },
    /** fit disables what does not go with the rest of the form. */
    fit(backend, keeper, instances) {
      const goes = ({ backends, keepers }) => backends.includes(backend) && (keeper === "" || keepers.includes(keeper));
      boxes(list).forEach((box, i) => box.disabled = !goes(strategies[i]));
      boxes(across).forEach((box, i) => box.disabled = instances < conditions[i].min_instances);
    },
  };
}

/** newForm makes the form. start starts a run, and first is what the form says at first, or null. */
export function newForm(options, start, first) {
  const { limits, defaults } = options;
  const inputs = newInputs(options);
  const choices = newChoices(options);
  const presets = offered(options);
  const secret = tokenInput("run-token");
  const refusal = el("p.told", { role: "alert" });
  const count = el("span.small.rowcount");
  const button = el("button.primary", { type: "submit" }, t("run.start"));
  let running = false;

  const node = el("form.panel.runform", { "aria-label": t("run.form"), onsubmit: submitted(submit), oninput: fit },
    el("div.pair.formhead", el("h2", t("run.form")), count, button), refusal,
    el("div.pair.presets", { role: "group", "aria-label": t("run.presets") }, el("span.small", t("run.presets")),
      presets.map((preset) => el("button", { onclick: () => fill(preset) }, t(`run.preset.${preset.name}`)))),
    el("div.fields", Object.entries(inputs).map(([name, input]) => field(name, input))), choices.sets,
    options.token_needed && el("div.pair", el("label", { for: "run-token" }, t("page.token")), secret));

  const settings = () => ({
    ...Object.fromEntries(numbers.map((name) => [name, Number(inputs[name].value)])),
    ...choices.chosen(),
    backend: inputs.backend.value,
    keeper: inputs.keeper.value,
    unfenced: inputs.fencing.value === "ignored",
  });

  /** fill fills in settings. What a preset leaves open gets its default. */
  function fill(preset) {
    const all = { keeper: "", ...defaults, instances: Math.max(2, defaults.instances), ...preset };
    for (const name of [...numbers, "backend", "keeper"]) inputs[name].value = all[name];
    inputs.fencing.value = preset.unfenced ? "ignored" : "checked";
    choices.choose(preset);
    fit();
  }

  function fit() {
    choices.fit(inputs.backend.value, inputs.keeper.value, Number(inputs.instances.value));
    const { strategies, conditions } = choices.chosen();
    const rows = strategies.length * conditions.length;
    const { max } = limits.rows;
    count.textContent = rows > max ? t("run.toomany", { rows, max }) : t("run.rows", { rows });
    button.disabled = running || rows < 1 || rows > max;
    button.textContent = running ? t("run.running") : t("run.start");
  }

  async function submit() {
    if (options.token_needed) token(secret.value); // a password manager may have filled it in
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

  /** refused moves to the token, if that is what is missing. */
  function refused(error) {
    if (options.token_needed && wantsToken(error)) secret.focus();
  }

  fit();
  if (first ?? presets[0]) fill(first ?? presets[0]);
  return {
    node,
    refused,
    settings,
    busy(on) {
      if (on === running) return;
      running = on;
      fit();
    },
  };
}
