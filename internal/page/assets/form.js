// The form that starts a run.

import { hasShop, token } from "./api.js";
import { byCommand, el, submitted, tokenField } from "./dom.js";
import { named, t } from "./text.js";

const numbers = ["requests", "stock", "instances", "ttl_ms", "work_us"];

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

/** newInputs makes the numbers and choices of the form, by their names. */
function newInputs({ limits, defaults, backends, keepers }) {
  return {
    ...Object.fromEntries(numbers.map((name) => [name, number(name, defaults[name], limits[name])])),
    backend: select("backend", backends.map(({ name }) => name), defaults.backend),
    keeper: select("keeper", ["", ...keepers], defaults.keeper ?? ""),
    fencing: select("fencing", ["checked", "ignored"], defaults.unfenced ? "ignored" : "checked"),
  };
}

/** newChoices makes the lists of strategies and conditions. chosen returns those that are ticked and can be run. */
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
    /** fit disables the choices that do not go with the rest of the form. */
    fit(backend, keeper, instances) {
      const goes = ({ backends, keepers }) => backends.includes(backend) && (keeper === "" || keepers.includes(keeper));
      boxes(list).forEach((box, i) => box.disabled = !goes(strategies[i]));
      boxes(across).forEach((box, i) => box.disabled = instances < conditions[i].min_instances);
    },
  };
}

/** settingsOf returns the settings in the form. */
const settingsOf = (inputs, choices) => ({
  ...Object.fromEntries(numbers.map((name) => [name, Number(inputs[name].value)])),
  ...choices.chosen(),
  backend: inputs.backend.value,
  keeper: inputs.keeper.value,
  unfenced: inputs.fencing.value === "ignored",
});

/** short returns the short name of a stage, such as v2 for v2_ttl. */
const short = (name) => /^v\d+/.exec(name)?.[0] ?? name;

/** newCards makes the cards. Each starts a run at once. */
function newCards(presets, start) {
  const cards = presets.map((preset) =>
    el("button.preset", { "data-preset": preset.name, onclick: () => start(preset) },
      el("strong", t(`run.preset.${preset.name}`, preset)), el("span", preset.strategies.map(short).join(" · ")),
      el("span.small", t(`run.preset.${preset.name}.about`, preset)))
  );
  return {
    node: el("div.presets", { role: "group", "aria-label": t("run.presets") }, cards),
    disable: (off) => cards.forEach((card) => card.disabled = off),
  };
}

/**
 * newForm makes the cards, and the form that they fill in. start starts a run. first holds the initial settings of the
 * form, or is null.
 */
export function newForm(options, start, first) {
  const { limits } = options;
  const inputs = newInputs(options);
  const choices = newChoices(options);
  const { presets } = options;
  const secret = tokenField("run-token", false);
  const refusal = el("p.told", { role: "alert" });
  const count = el("span.small.casecount");
  const button = el("button.primary", { type: "submit" }, t("run.start"));
  let running = false;
  const cards = newCards(presets, (preset) => {
    fill(preset);
    submit();
  });

  const form = el("form.runform", { "aria-label": t("run.form"), onsubmit: submitted(submit), oninput: fit },
    el("div.fields", Object.entries(inputs).map(([name, input]) => field(name, input))), choices.sets,
    el("div.pair", button, count));
  const node = el("div.chooser", cards.node, options.token_needed && secret.node, refusal,
    hasShop && el("details.customize", el("summary", t("run.customize")), form),
    !hasShop && byCommand("site.run", "go run ./cmd/shop"));

  /** fill fills in settings. */
  function fill(settings) {
    for (const name of [...numbers, "backend", "keeper"]) inputs[name].value = settings[name];
    inputs.fencing.value = settings.unfenced ? "ignored" : "checked";
    choices.choose(settings);
    fit();
  }

  function fit() {
    choices.fit(inputs.backend.value, inputs.keeper.value, Number(inputs.instances.value));
    const { strategies, conditions } = choices.chosen();
    const cases = strategies.length * conditions.length;
    const { max } = limits.rows;
    count.textContent = cases > max ? t("run.toomany", { cases, max }) : t("run.cases", { cases });
    button.disabled = running || cases < 1 || cases > max;
    button.textContent = running ? t("run.running") : t("run.start");
    cards.disable(running);
  }

  async function submit() {
    if (options.token_needed) token(secret.input.value); // a password manager may have filled it in
    refusal.textContent = "";
    button.disabled = true;
    cards.disable(true);
    try {
      await start(settingsOf(inputs, choices));
    } catch (error) {
      refusal.textContent = error.message;
      secret.refused(error);
    }
    fit();
  }

  fit();
  if (first ?? presets[0]) fill(first ?? presets[0]);
  return {
    node,
    refused: secret.refused,
    settings: () => settingsOf(inputs, choices),
    busy(on) {
      if (on === running) return;
      running = on;
      fit();
    },
  };
}
