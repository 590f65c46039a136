// Texts: those of one language at a time. What the shop tells in English has its
// translation here: by its name, such as what a strategy adds, or by its form, such
// as what happens in a timeline.

export const languages = { en: "English", zh: "中文" };

let texts = {};
let forms = null; // of what the shop tells, those first that say the most of it themselves; null: not loaded
const translated = new Map(); // what was told already, as much as fits: the same is told again and again
const mostTranslated = 2000;
export let language = "en";

/** choose loads the texts of a language. */
export async function choose(name) {
  texts = await load(name);
  speakBy(name === "en" ? [] : null);
  language = name;
  document.documentElement.lang = name === "zh" ? "zh-CN" : name;
}

/** learn loads the forms of what the shop tells. They are not of the first paint: a part wants them, before it asks the shop for anything. A part without them tells that in English, and the next one asks for them again. */
export async function learn() {
  if (forms) return;
  const name = language;
  const known = await load(`${name}.told`).catch(() => null);
  if (known && name === language) speakBy(Object.entries(known).map(form).sort((a, b) => b.letters - a.letters));
}

/** speakBy has what the shop tells translated by these forms. */
function speakBy(next) {
  forms = next;
  translated.clear();
}

async function load(name) {
  const reply = await fetch(`/page/texts/${name}.json`);
  if (!reply.ok) throw new Error(`the texts of ${name}: ${reply.status}`);
  return reply.json();
}

/** preferred is the language that was asked for, chosen before, or is the browser's. */
export function preferred() {
  const names = [new URLSearchParams(location.search).get("lang"), remembered("language"), ...navigator.languages.map((name) => name.slice(0, 2))];
  return names.find((name) => name && Object.hasOwn(languages, name)) ?? "en";
}

/** t is a text, with values for what is in braces. */
export const t = (key, values = {}) => filled(texts[key] ?? key, values);

const filled = (text, values) => text.replace(/\{(\w+)\}/g, (all, name) => (Object.hasOwn(values, name) ? shown(values[name]) : all));

/** named is the translation of what the shop tells in English, or that. */
export const named = (key, english) => texts[key] ?? english;

/** told is the translation of a sentence that the shop tells in English, or that where there is none for all of it. */
export const told = (english) => translation(english)?.text ?? english;

/** translation is the text of a sentence in the language, and how much of it is quoted, or null. */
function translation(english) {
  const before = translated.get(english);
  if (before !== undefined) return before;
  const found = formed(english);
  if (translated.size >= mostTranslated) translated.clear();
  translated.set(english, found);
  return found;
}

/** formed finds the form by which the least of a sentence is quoted, for what is quoted stays in English, and fills in its translation. */
function formed(english) {
  let best = null;
  for (const { pattern, names, text } of forms ?? []) {
    const found = pattern.exec(english);
    const inside = found && insideOf(names, found.slice(1));
    if (!inside || inside.quoted >= best?.quoted) continue;
    best = { text: filled(text, inside.values), quoted: inside.quoted };
    if (best.quoted === 0) break;
  }
  return best;
}

// What is in a form's braces: a number stands for a value, text and more for a
// sentence of its own, and any other name for what is quoted as it is, such as a
// command, an error or a name.
const isValue = (name) => /^\d+$/.test(name);
const isSentence = (name) => name === "text" || name === "more";

// A value is an actor, as A, or A/1 for a caller of process A, a number or a time, or several of them.
const one = String.raw`(?:[A-Z](?:/\d+)?|nobody|\d+(?:\.\d+)?(?:µs|ms|s|m\d+s)?)`;
const value = `${one}(?:, ${one})*(?: and ${one})?`;

/** insideOf translates what was found in a form's braces, or returns null if a sentence there has no translation. */
function insideOf(names, found) {
  const values = {};
  let quoted = 0;
  for (const [i, name] of names.entries()) {
    const english = found[i];
    const inside = isValue(name) ? { text: told(english), quoted: 0 } : isSentence(name) ? translation(english) : { text: english, quoted: english.length };
    if (!inside) return null;
    values[name] = inside.text;
    quoted += inside.quoted;
  }
  return { values, quoted };
}

/** form makes a form of a sentence with braces, and its translation. */
function form([english, text]) {
  const names = [];
  const parts = english.split(/\{(\w+)\}/);
  const pattern = parts.map((part, i) => {
    if (i % 2 === 0) return part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
    if (names.includes(part)) return `\\${names.indexOf(part) + 1}`;
    names.push(part);
    return isValue(part) ? `(${value})` : "([^]+?)";
  });
  const letters = parts.filter((_, i) => i % 2 === 0).join("").length;
  return { pattern: new RegExp(`^${pattern.join("")}$`), names, text, letters };
}

/** knows tells whether there is a text. */
export const knows = (key) => Object.hasOwn(texts, key);

const shown = (value) => (typeof value === "number" ? number(value) : value);

/** number shows a number with as many digits as are worth it. */
export function number(value) {
  const size = Math.abs(value);
  const digits = size >= 100 || Number.isInteger(value) ? 0 : size >= 10 ? 1 : 2;
  return value.toLocaleString(document.documentElement.lang, { maximumFractionDigits: digits });
}

/** remembered is what was remembered under a name, if anything. */
export function remembered(name) {
  try {
    return localStorage.getItem(name);
  } catch {
    return null;
  }
}

/** remember keeps a choice for the next visit, if the browser lets it. */
export function remember(name, value) {
  try {
    localStorage.setItem(name, value);
  } catch {
    // Storage is off: it holds for this visit.
  }
}
