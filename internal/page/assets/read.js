// Read: a stage of the lock beside the one before it, and which line fixes what.

import { call } from "./api.js";
import { el, put } from "./dom.js";
import { named, t, told } from "./text.js";

const around = 3; // lines that are kept around a difference

/** show shows the stages, and the one of the address. */
export async function show(box, at, page) {
  const { stages } = await call("/api/stages", { signal: page.signal });
  const list = el("nav", { class: "levels", "aria-label": t("read.stages") });
  const text = el("div", {});
  let whole = false;
  let asked = 0;
  box.append(el("h1", {}, t("read.title")), el("p", { class: "lead" }, t("read.lead")), list, text);

  async function update({ of: [name = stages[0].name], query }) {
    const mine = ++asked;
    put(list, ...stages.map((stage) => el("a", { class: "level", href: `#/read/${stage.name}`, "aria-current": stage.name === name ? "page" : null }, stage.name)));
    page.title(`${t("nav.read")}: ${name}`);
    const stage = await call(`/api/stages/${encodeURIComponent(name)}`, { signal: page.signal });
    if (mine !== asked) return;
    const draw = () => {
      put(text, ...about(stage, draw, whole, (on) => { whole = on; }), ...stage.files.map((file) => source(stage, file, whole)));
    };
    draw();
    const line = query.get("line");
    if (line) document.getElementById(line)?.scrollIntoView({ block: "center" });
  }
  await update(at);
  return { update };
}

const sentence = ({ name, sentence: english }) => named(`anomaly.${name}.sentence`, english);

/** commented is a package comment, paragraph by paragraph and item by item. */
const commented = (comment) => comment.trim().split(/\n(?=\n|  - )/).map((part) => {
  const [, before, text] = /^(\s*(?:- )?)([^]*)$/.exec(part);
  const whole = text.replace(/\s+/g, " ");
  const sentence = told(whole);
  return before + (sentence === whole ? text : sentence);
}).join("\n");

/** about is what the stage is, what it fixes and what it opens again. */
function about(stage, draw, whole, set) {
  const toggle = el("input", { type: "checkbox", checked: whole, onchange: () => { set(toggle.checked); draw(); } });
  return [
    el("div", { class: "stageabout" },
      el("section", { class: "panel" }, el("h2", {}, stage.name, el("span", { class: "on small" }, ` ${t("read.before", { name: stage.before })}`)),
        el("p", {}, el("strong", {}, t("strategy.adds")), " ", named(`strategy.${stage.name}.adds`, stage.adds)),
        el("p", {}, el("strong", {}, t("strategy.breaks")), " ", named(`strategy.${stage.name}.breaks`, stage.breaks)),
        el("h3", {}, t("read.comment")), el("pre", { class: "comment" }, commented(stage.comment))),
      el("section", { class: "panel" },
        el("h2", {}, t("read.fixes", { n: stage.fixes.length })),
        el("ul", { class: "fixes" }, stage.fixes.map((fix) => el("li", {}, el("a", { href: `#/break/${fix.name}/${stage.before}` }, fix.name),
          fix.lines.map((place) => el("button", { type: "button", class: "toline", title: t("read.toline"), onclick: () => reveal(place) }, `${place.file}:${place.line}`)),
          el("span", { class: "small" }, sentence(fix))))),
        stage.reopens.length > 0 ? [el("h2", {}, t("read.reopens", { n: stage.reopens.length })),
          el("ul", { class: "fixes" }, stage.reopens.map((anomaly) => el("li", {}, el("a", { href: `#/break/${anomaly.name}/${stage.name}` }, anomaly.name), el("span", { class: "small" }, sentence(anomaly)))))] : null)),
    el("p", { class: "pair" }, el("label", {}, toggle, t("read.whole")), el("span", { class: "small legend" },
      el("span", { class: "added sample" }, `+ ${t("read.added")}`), el("span", { class: "removed sample" }, `− ${t("read.removed")}`), el("span", {}, el("span", { class: "flag" }, `⚑ ${t("read.flag")}`)))),
  ];

  /** reveal goes to a line. It is a changed one, or near one, or the whole is shown for it. */
  function reveal({ file, line }) {
    let node = document.getElementById(lineName(file, line));
    if (!node) {
      set(true);
      draw();
      node = document.getElementById(lineName(file, line));
    }
    node?.scrollIntoView({ block: "center" });
    node?.focus();
  }
}

const lineName = (file, line) => `${file}-${line}`;

/** source is a file, its two sides beside each other. */
function source(stage, file, whole) {
  const flags = new Map();
  for (const fix of stage.fixes) {
    for (const place of fix.lines) if (place.file === file.name) flags.set(place.line, [...(flags.get(place.line) ?? []), fix.name]);
  }
  const rows = [];
  for (const part of whole ? [{ rows: file.rows }] : folded(file.rows, flags)) {
    if (part.left) rows.push(el("tr", { class: "folded" }, el("td", { colspan: 4 }, t("read.folded", { n: part.left }))));
    else rows.push(...part.rows.map((row) => line(stage, file, row, flags)));
  }
  const gone = file.source === "";
  return el("section", { class: "source", "aria-label": file.name },
    el("h3", { class: "file" }, file.name, gone ? ` · ${t("read.gone")}` : ""),
    el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": file.name }, el("table", { class: "diff" },
      el("colgroup", {}, ["no", "", "no", ""].map((name) => el("col", { class: name }))),
      el("thead", {}, el("tr", {}, el("th", { scope: "col", colspan: 2 }, stage.before), el("th", { scope: "col", colspan: 2 }, stage.name))),
      el("tbody", {}, rows))));
}

/** folded leaves out rows that are far from any difference. */
function folded(rows, flags) {
  const keep = new Set();
  rows.forEach((row, i) => {
    if (row.kind === "same" && !flags.has(row.new.number)) return;
    for (let j = i - around; j <= i + around; j++) keep.add(j);
  });
  const parts = [];
  rows.forEach((row, i) => {
    const last = parts.at(-1);
    if (keep.has(i)) last?.rows ? last.rows.push(row) : parts.push({ rows: [row] });
    else last?.left ? last.left++ : parts.push({ left: 1 });
  });
  return parts;
}

function line(stage, file, { kind, old, new: now }, flags) {
  const fixes = (now && flags.get(now.number)) ?? [];
  return el("tr", { class: `${kind}${fixes.length > 0 ? " fixing" : ""}`, id: now ? lineName(file.name, now.number) : null, tabindex: fixes.length > 0 ? -1 : null },
    el("td", { class: "no" }, old?.number ?? ""), side(old, kind === "same" ? "" : old ? "−" : "", "old"),
    el("td", { class: "no" }, now?.number ?? ""), side(now, kind === "same" ? "" : now ? "+" : "", "now",
      fixes.map((name) => el("a", { class: "flag", href: `#/break/${name}/${stage.before}`, title: t("read.fixing", { name }) }, "⚑ ", name))));
}

function side(line, sign, name, flags = []) {
  if (!line) return el("td", { class: `side ${name} none` });
  const comment = /^\s*(\/\/|--)/.test(line.text);
  const pieces = line.pieces ? line.pieces.map(({ text, changed }) => (changed ? el("mark", {}, text) : text)) : [line.text];
  return el("td", { class: `side ${name}` }, el("span", { class: "sign", "aria-hidden": "true" }, sign), el("code", { class: comment ? "remark" : "" }, pieces), flags);
}
