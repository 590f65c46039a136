// The matrix: anomalies in groups, by what the user loses, against the strategies, with columns to pin and a filter.

import { addressOf, choiceOf, columnsOf, controls, everything, groupsOf, rowChoices } from "./choice.js";
import { newColumns } from "./columns.js";
import { copy, el, put, say, scroll } from "./dom.js";
import { kindOf, kinds, newTip, sign, square } from "./square.js";
import { named, t, titleOf, told } from "./text.js";

const compared = [["redsync", "v6_watchdog", "v8_fenced"], ["v1_setnx", "v2_ttl", "v4_lua"]]; // as examples

/** newBoard makes the matrix of a lab. It writes the pins and the filter into the address. */
export function newBoard(lab, query, page) {
  const cells = new Map(lab.cells.map((cell) => [`${cell.anomaly}/${cell.strategy}`, cell]));
  const cellAt = (anomaly, strategy) => cells.get(`${anomaly}/${strategy}`);
  const box = scroll(t("break.title"));
  const columns = newColumns(box);
  const tip = newTip(box, (link) => cells.get(link.hash.replace("#/break/", "")));
  const nothing = el("p.nothing", { role: "status", hidden: true }, t("break.none"));
  let choice = choiceOf(lab, query);
  let last = ""; // the address of the cell that had the keyboard, or was open

  const tools = newTools(lab, choose);
  const all = el("button", { onclick: () => choose(everything) }, t("break.all", { n: lab.anomalies.length }));

  /** choose changes the pins or the filter. */
  function choose(change) {
    choice = { ...choice, ...change };
    page.replace(addressOf(choice));
    draw();
  }

  /** pin pins or unpins a column. */
  function pin(name) {
    const { pins } = choice;
    const pinned = pins.includes(name);
    choose({ pins: pinned ? pins.filter((each) => each !== name) : [...pins, name] });
    box.querySelector(`[data-pin="${name}"]`).focus({ preventScroll: pinned });
    if (!pinned) box.scrollLeft = 0;
    say(t(pinned ? "break.unpinned" : "break.pinned", { name }));
  }

  function draw() {
    const groups = groupsOf(lab, choice, cellAt);
    const table = drawTable(groups, columnsOf(lab, choice), choice.pins, { cellAt, pin });
    table.classList.toggle("taught", choice.rows === "taught");
    all.hidden = choice.rows !== "taught";
    tip.hide();
    put(box, table);
    const links = [...table.querySelectorAll("a.square")];
    if (links.length > 0) roam(table, links.find(({ hash }) => hash === last) ?? links[0], (link) => last = link.hash);
    nothing.hidden = groups.length > 0;
    tools.tell(choice);
    columns.look();
  }
  draw();
  return {
    node: el("div.board", tools.node, columns.node, box, nothing, all, tip.node),
    address: () => addressOf(choice),
    /** update shows the choice of another address. */
    update(next) {
      choice = choiceOf(lab, next);
      draw();
    },
    /** focus moves the keyboard focus to a cell. */
    focus(address) {
      box.querySelector(`a.square[href="${address}"]`)?.focus();
      tip.hide();
    },
    close: columns.close,
  };
}

/** drawTable draws the groups against the columns. */
function drawTable(groups, strategies, pins, { cellAt, pin }) {
  const pinned = (name) => (pins.includes(name) ? "pinned" : null);
  const top = (name) =>
    el("th", { scope: "col", "data-column": name, class: pinned(name) },
      el("button.pin", {
        "data-pin": name,
        "aria-pressed": String(pins.includes(name)),
        title: t(pins.includes(name) ? "break.unpin" : "break.pin", { name }),
        onclick: () => pin(name),
      }, el("span", name)));
  const one = (anomaly) => (name) => {
    const cell = cellAt(anomaly.name, name);
    const note = cell && pins.includes(name) && told(cell.note, cell.message);
    return el("td", { class: pinned(name) }, cell && square(cell, { tabindex: -1 }),
      note && el("span.note", { title: note }, note));
  };
  const title = (name) => titleOf(name) && [el("span.title", titleOf(name)), " "];
  const row = (anomaly) =>
    el("tr",
      el("th", { scope: "row" }, title(anomaly.name), el("span.name", anomaly.name), " ",
        controls.includes(anomaly.name) && el("span.control", { title: t("break.control.about") }, t("break.control")),
        el("span.sentence", named(`anomaly.${anomaly.name}.sentence`, anomaly.sentence))),
      strategies.map(one(anomaly)));
  const sum = (anomalies) => (name) => {
    const asked = anomalies.map((anomaly) => cellAt(anomaly.name, name)).filter((c) => c && c.outcome !== "n/a");
    const n = asked.filter(({ outcome }) => outcome === "breaks").length;
    const title = t("break.sum", { name, n, of: asked.length });
    const count = el("span.count", { class: n > 0 ? "count some" : "count", title }, n);
    return el("td", { class: pinned(name) }, asked.length > 0 && count);
  };
  const group = ({ loss, anomalies }) =>
    el(`tbody.loss.${loss}`,
      el("tr.head",
        el("th", { scope: "rowgroup" }, el("strong", t(`break.loss.${loss}`)), " ",
          el("span.small", t(`break.costs.${loss}`))), strategies.map(sum(anomalies))), anomalies.map(row));
  const table = el(`table.matrix${pins.length > 0 ? ".pinning" : ""}`,
    el("thead", el("tr", el("th", { scope: "col" }, t("break.anomaly")), strategies.map(top))), groups.map(group));
  table.style.setProperty("--pins", pins.length);
  table.style.setProperty("--others", strategies.length - pins.length);
  return table;
}

/** newTools makes the filter and the legend of the squares. */
function newTools(lab, choose) {
  const search = el("input", { type: "search", placeholder: t("break.search"), "aria-label": t("break.search") });
  search.addEventListener("input", () => choose({ words: search.value, rows: "all" }));
  const rows = el("select", { "aria-label": t("break.rows"), onchange: () => choose({ rows: rows.value }) },
    rowChoices.map((name) => el("option", { value: name }, t(`break.rows.${name}`))));
  const broken = (loss) => lab.anomalies.filter((anomaly) => anomaly.loss === loss).length;
  const chip = (loss) =>
    el(`button.chip.${loss || "every"}`, { "data-loss": loss, onclick: () => choose({ loss, rows: "all" }) },
      t(`break.loss.${loss || "every"}`), " ", el("span.small", loss ? broken(loss) : lab.anomalies.length));
  const chips = ["", ...lab.losses].map(chip);
  const example = (pins) =>
    el("a", { href: addressOf({ ...everything, pins, rows: "differ" }) }, pins.map((p) => p.split("_")[0]).join(" | "));
  const link = el("button", { onclick: () => copy(link, location.href) }, t("break.link"));
  const clear = el("button", { onclick: () => choose(everything) }, t("break.clear"));
  const said = (kind) => el("span", sign(kind), " ", t(`outcome.${kind}`));
  const used = kinds.filter((kind) => lab.cells.some((cell) => kindOf(cell) === kind));
  return {
    node: el("div.tools",
      el("div.pair", el("div.chips", { role: "group", "aria-label": t("break.losses") }, chips), search, rows),
      el("p.small.pair.legend", used.map(said),
        el("label", el("input.explain", { type: "checkbox" }), t("break.explain"))),
      el("p.small.pair.comparing", el("span", t("break.compare")), compared.filter((pins) =>
        pins.every((name) => lab.manifest.strategies.includes(name))).map(example), link, clear)),
    /** tell shows a choice in the controls. */
    tell({ pins, words, loss, rows: chosen }) {
      if (search.value !== words) search.value = words;
      rows.value = chosen;
      const lost = chosen === "taught" ? null : loss;
      for (const each of chips) each.setAttribute("aria-pressed", String(each.dataset.loss === lost));
      link.hidden = clear.hidden = pins.length === 0 && !words && !loss && ["all", "taught"].includes(chosen);
    },
  };
}

const steps = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };

/** roam lets the arrow keys move the focus from square to square, across groups. Tab stops at only one square. */
function roam(table, start, chosen) {
  const grid = [...table.tBodies].flatMap((body) => [...body.rows]).filter((row) => !row.matches(".head")).map((row) =>
    [...row.cells].slice(1).map((cell) => cell.querySelector("a.square"))
  );
  let current = start;
  start.tabIndex = 0;
  const choose = (link) => {
    current.tabIndex = -1;
    current = link;
    current.tabIndex = 0;
    chosen(current);
  };
  table.addEventListener("focusin", ({ target }) => target.matches("a.square") && choose(target));
  table.addEventListener("keydown", (event) => {
    const step = steps[event.key];
    if (!step || !event.target.matches("a.square")) return;
    if (event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    const at = grid.findIndex((line) => line.includes(current));
    grid[at + step[0]]?.[grid[at].indexOf(current) + step[1]]?.focus();
  });
}
