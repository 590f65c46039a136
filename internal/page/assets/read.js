// Read: the files of each stage of the lock, and what changed since the stage before.

import { call } from "./api.js";
import { el, put } from "./dom.js";
import { expand } from "./shortname.js";
import { language, named, t, told } from "./text.js";

/** show shows the stages, and the one that the address names. */
export async function show(box, at, page) {
  const { stages } = await call("/api/stages", { signal: page.signal });
  const list = el("nav.levels", { "aria-label": t("read.stages") });
  const text = el("div");
  box.append(el("h1", t("read.title")), el("p.lead", t("home.read")), list, text);

  function update({ of: [given = stages[0].name] }) {
    const name = expand(given, stages.map((stage) => stage.name));
    const shown = stages.find((stage) => stage.name === name);
    if (!shown) throw new Error(t("page.unknown", { address: location.hash }));
    if (name !== given) page.replace(location.hash.replace(given, name));
    page.title(`${t("nav.read")}: ${name}`);
    const link = (stage) =>
      el("a.level", { href: `#/read/${stage.name}`, "aria-current": stage === shown ? "page" : null }, stage.name);
    put(list, stages.map(link));
    put(text, about(shown), shown.files.map((file) => source(file, shown.before)));
  }
  update(at);
  return { update };
}

/** about says what the stage adds and what still breaks. English readers find the package comment in its file. */
function about({ name, before, adds, breaks, files }) {
  const compared = before && el("span.on.small", ` ${t("read.before", { name: before })}`);
  return el("section.panel.stageabout", el("h2", name, compared),
    el("p", el("strong", t("strategy.adds")), " ", named(`strategy.${name}.adds`, adds)),
    el("p", el("strong", t("strategy.breaks")), " ", named(`strategy.${name}.breaks`, breaks)),
    before && el("p", el("a", { href: `#/break?pin=${before},${name}&rows=differ` }, t("read.break"))),
    language !== "en" && el("pre.comment", comment(files)));
}

/**
 * comment returns the package comment at the top of mutex.go, translated by paragraphs and items. An item may end with
 * the names of tests.
 */
function comment(files) {
  const [lines] = /^(\/\/.*\n)+/.exec(files.find(({ name }) => name === "mutex.go").text);
  return lines.replace(/^\/\/ ?/gm, "").trim().split(/\n(?=\n|  - )/).map((part) => {
    const [, before, text, tests] = /^(\s*(?:- )?)([^]*?)(?::\s+(Test[^]*))?$/.exec(part);
    const sentence = text.replace(/\s+/g, " ");
    return before + (tests ? told("", ["%s: %s", [sentence], tests.replace(/\s+/g, " ")]) : told(sentence));
  }).join("\n");
}

/** source shows a file: its diff, and the whole file, which is folded if there is an earlier stage. */
function source({ name, text, diff }, before) {
  const title = before && !diff ? t("read.same") : t("read.whole");
  return el("section.source", { "aria-label": name }, el("h3.file", name), diff && el("pre.diff", marked(diff)),
    text && el("details", { open: !before }, el("summary", title), el("pre", text)));
}

const kinds = { "+": "added", "-": "removed", "@": "hunk" };

/** marked colours the lines of a unified diff. The first two name the files. */
const marked = (diff) =>
  diff.trimEnd().split("\n").map((line, i) => el("span", { class: i < 2 ? "hunk" : kinds[line[0]] ?? null }, line));
