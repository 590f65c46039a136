// Read: a stage of the lock beside the one before it, and which lines fix what.

import { call } from "./api.js";
import { el, put, scroll } from "./dom.js";
import { expand } from "./shortname.js";
import { called, named, t, told } from "./text.js";

const around = 3; // unchanged lines that are shown around a difference

/** show shows the stages, and the one that the address names. */
export async function show(box, at, page) {
  const { stages } = await call("/api/stages", { signal: page.signal });
  const list = el("nav.levels", { "aria-label": t("read.stages") });
  const text = el("div");
  let shown = null;
  let asked = 0;
  box.append(el("h1", t("read.title")), el("p.lead", t("read.lead")), list, text);

  async function update({ of: [given = stages[0].name], query }) {
    const mine = ++asked;
    const name = expand(given, stages.map((stage) => stage.name));
    if (name !== given) page.replace(location.hash.replace(given, name));
    const link = (stage) =>
      el("a.level", { href: `#/read/${stage}`, "aria-current": stage === name ? "page" : null }, stage);
    put(list, stages.map((stage) => link(stage.name)));
    page.title(`${t("nav.read")}: ${name}`);
    const stage = await call(`/api/stages/${encodeURIComponent(name)}`, { signal: page.signal });
    if (mine !== asked) return;
    const whole = shown?.whole() ?? false;
    shown?.close();
    shown = newText(stage, page.signal);
    put(text, ...shown.nodes);
    shown.draw(whole);
    const line = query.get("line");
    if (line) shown.reveal(line);
  }
  await update(at);
  return { update };
}

const pause = () => new Promise((done) => setTimeout(done));

/** newText makes the text of a stage, its files one after the other, so that the browser is not kept busy. */
function newText(stage, signal) {
  const files = el("div");
  const toggle = el("input", { type: "checkbox", onchange: () => draw(toggle.checked) });
  let drawing = Promise.resolve();
  let turn = 0;
  let closed = false;

  async function drawAll(whole) {
    const mine = ++turn;
    toggle.checked = whole;
    files.setAttribute("aria-busy", "true");
    for (const [i, file] of stage.files.entries()) {
      await pause();
      if (mine !== turn || signal.aborted) return;
      const next = source(stage, file, whole);
      if (files.children[i]) files.children[i].replaceWith(next);
      else files.append(next);
    }
    files.removeAttribute("aria-busy");
  }

  /** draw shows the differences, or whole files. */
  const draw = (whole) => drawing = drawAll(whole);

  /** reveal goes to the line with this id. If it is folded, the files are shown in full. */
  async function reveal(id) {
    const find = () => files.querySelector(`#${CSS.escape(id)}`);
    await drawing;
    if (closed) return;
    if (!find()?.checkVisibility()) await draw(true);
    find()?.scrollIntoView({ block: "center" });
    find()?.focus();
  }

  return {
    nodes: [about(stage, ({ file, line }) => reveal(lineName(file, line))), legend(toggle), files],
    draw,
    reveal,
    whole: () => toggle.checked,
    close() {
      closed = true;
      turn++;
    },
  };
}

/** commented is a text of a package comment, translated by paragraphs and items. */
const commented = (text) =>
  text.trim().split(/\n(?=\n|  - )/).map((part) => {
    const [, before, text] = /^(\s*(?:- )?)([^]*)$/.exec(part);
    const whole = text.replace(/\s+/g, " ");
    const sentence = told(whole);
    return before + (sentence === whole ? text : sentence);
  }).join("\n");

/** prose is a package comment: what is new in sight, and the rest folded. */
function prose(comment) {
  const [first, ...rest] = comment.trim().split("\n\n");
  return [el("h3", t("read.comment")), el("p.comment", commented(first.replace(/\s+/g, " "))),
    el("details", el("summary", t("read.rest")), el("pre.comment", commented(rest.join("\n\n"))))];
}

/** about is what the stage is, what it fixes and what it breaks again. reveal goes to a line. */
function about(stage, reveal) {
  const { name, before, adds, breaks, fixes, reopens } = stage;
  const place = (lines) => {
    const { file, line, last } = lines;
    const numbers = last > line ? `${line}–${last}` : line;
    return el("button.toline", { title: t("read.toline"), onclick: () => reveal(lines) }, `${file}:${numbers}`);
  };
  const item = (strategy) => ({ name, sentence, lines = [] }) =>
    el("li", el("a", { href: `#/break/${name}/${strategy}` }, called(name)), lines.map(place),
      el("span.small", named(`anomaly.${name}.sentence`, sentence)));
  const list = (key, anomalies,
    strategy) => [el("h2", t(key, { n: anomalies.length })), el("ul.fixes", anomalies.map(item(strategy)))];
  return el("div.stageabout",
    el("section.panel", el("h2", name, el("span.on.small", ` ${t("read.before", { name: before })}`)),
      el("p", el("strong", t("strategy.adds")), " ", named(`strategy.${name}.adds`, adds)),
      el("p", el("strong", t("strategy.breaks")), " ", named(`strategy.${name}.breaks`, breaks)),
      prose(stage.comment)),
    el("section.panel", list("read.fixes", fixes, before), reopens.length > 0 && list("read.reopens", reopens, name)));
}

/** legend says what the marks in the source mean, beside the switch between differences and whole files. */
function legend(toggle) {
  return el("p.pair", el("label", toggle, t("read.whole")),
    el("span.small.legend", el("span.added.sample", `+ ${t("read.added")}`),
      el("span.removed.sample", `− ${t("read.removed")}`), el("span", el("span.flag", `⚑ ${t("read.flag")}`))));
}

const lineName = (file, line) => `${file}-${line}`;

/** source is a file, its two sides beside each other. */
function source(stage, file, whole) {
  const flags = new Map(); // for each line that fixes something: what, on the first line of a block
  for (const fix of stage.fixes) {
    for (const { line, last } of fix.lines.filter((lines) => lines.file === file.name)) {
      for (let n = line; n <= last; n++) flags.set(n, flags.get(n) ?? []);
      flags.get(line).push(fix.name);
    }
  }
  const draw = (rows) =>
    (whole ? [{ rows }] : folded(rows, flags)).flatMap(({ far, rows }) =>
      far && rows.length > 1
        ? fold(t("read.folded", { n: rows.length }))
        : rows.map((row) => line(stage, file, row, flags)));
  const columns = el("colgroup", ["no", null, "no", null].map((name) => el("col", { class: name })));
  const title = (name) => el("th", { scope: "col", colspan: 2 }, name);
  return el("section.source", { "aria-label": file.name },
    el("h3.file", file.name, file.source === "" ? ` · ${t("read.gone")}` : ""),
    scroll(file.name,
      el("table.diff", columns, el("thead", el("tr", title(stage.before), title(stage.name))),
        heading(file, whole, draw), el("tbody", draw(file.rows.slice(file.head))))));
}

const fold = (...inside) => el("tr.folded", el("td", { colspan: 4 }, inside));

/** heading is the comment that begins a file. Only a button is shown of it at first, if it has changed. */
function heading(file, whole, draw) {
  const rows = file.rows.slice(0, file.head);
  const n = rows.filter(({ kind }) => kind !== "same").length;
  if (n === 0) return rows.length > 0 && el("tbody", draw(rows));
  const id = `${file.name}-head`;
  const body = el("tbody", { id, hidden: !whole }, draw(rows));
  const toggle = () => {
    body.hidden = !body.hidden;
    button.setAttribute("aria-expanded", String(!body.hidden));
  };
  const key = file.language === "go" ? "read.head" : "read.scripthead";
  const how = { "aria-expanded": String(whole), "aria-controls": id, onclick: toggle };
  const button = el("button.unfold", how, t(key, { n }));
  return [el("tbody", fold(button)), body];
}

/** folded parts rows into those near a difference and those far from any. */
function folded(rows, flags) {
  const keep = new Set();
  rows.forEach((row, i) => {
    if (row.kind === "same" && !flags.has(row.new.number)) return;
    for (let j = i - around; j <= i + around; j++) keep.add(j);
  });
  const parts = [];
  rows.forEach((row, i) => {
    const far = !keep.has(i);
    if (parts.at(-1)?.far === far) parts.at(-1).rows.push(row);
    else parts.push({ far, rows: [row] });
  });
  return parts;
}

/** line is a row of a file, flagged with what it fixes. */
function line(stage, file, { kind, old, new: now }, flags) {
  const fixes = now && flags.get(now.number);
  const flag = (name) => {
    const to = { href: `#/break/${name}/${stage.before}`, title: t("read.fixing", { name }) };
    return el("a.flag", to, "⚑ ", name);
  };
  const row = { id: now && lineName(file.name, now.number), tabindex: fixes?.length > 0 ? -1 : null };
  const sign = (line, mark) => (line && kind !== "same" ? mark : "");
  return el("tr", { class: fixes ? `${kind} fixing` : kind, ...row }, el("td.no", old?.number),
    side(old, sign(old, "−"), "old"), el("td.no", now?.number), side(now, sign(now, "+"), "now", fixes?.map(flag)));
}

function side(line, sign, name, flags = []) {
  if (!line) return el(`td.side.${name}.none`);
  const piece = ({ text, changed, token }) =>
    changed || token ? el(changed ? "mark" : "span", { class: token ? `code-${token}` : null }, text) : text;
  return el(`td.side.${name}`, el("span.sign", { "aria-hidden": "true" }, sign),
    el("code", line.pieces?.map(piece) ?? line.text), flags);
}
