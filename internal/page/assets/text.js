// Texts, in one language at a time. The shop's English texts are translated here: by a
// key, such as what a strategy adds, or by their form, such as the events of a timeline.

export const languages = { en: "English", zh: "中文" };

let texts = {};
let forms = null; // of the shop's sentences, the longest first; null: not loaded
const translated = new Map(); // a cache: the shop repeats its sentences
const mostTranslated = 2000;
export let language = "en";

/** choose loads the texts of a language. */
export async function choose(name) {
  texts = await load(name);
  speakBy(name === "en" ? [] : null);
  language = name;
  document.documentElement.lang = name === "zh" ? "zh-CN" : name;
}

/**
 * learn loads the forms of the shop's sentences. The first paint needs none; a part needs them before it asks the
 * shop for anything. Without them the part shows English, and the next part tries again.
 */
export async function learn() {
  if (forms || language === "en") return; // the shop speaks English, even before a language is chosen
  const name = language;
  const known = await load(`${name}.told`).catch(() => null);
  if (known && name === language) speakBy(Object.entries(known).map(form).sort((a, b) => b.letters - a.letters));
}

/** speakBy uses these forms for translations from now on. */
function speakBy(next) {
  forms = next;
  translated.clear();
}

async function load(name) {
  const reply = await fetch(new URL(`texts/${name}.json`, import.meta.url));
  if (!reply.ok) throw new Error(`the texts of ${name}: ${reply.status}`);
  return reply.json();
}

/** preferred returns the language of the address, the one chosen before, or the browser's. */
export function preferred() {
  const asked = new URLSearchParams(location.search).get("lang");
  const names = [asked, remembered("language"), ...navigator.languages.map((name) => name.slice(0, 2))];
  return names.find((name) => name && Object.hasOwn(languages, name)) ?? "en";
}

/** t returns a text, with values in place of its braces. */
export const t = (key, values = {}) => filled(texts[key] ?? key, values);

const filled = (text, values) =>
  text.replace(/\{(\w+)\}/g, (all, name) => (Object.hasOwn(values, name) ? shown(values[name]) : all));

/** named returns the text with this key, or else the shop's English text. */
export const named = (key, english) => texts[key] ?? english;

/** titleOf returns the translated title of an anomaly, or "" in the language of the names. */
export const titleOf = (anomaly) => named(`anomaly.${anomaly}.title`, "");

/** called returns the name of an anomaly in a sentence, after its title if it has one. */
export const called = (anomaly) => [titleOf(anomaly), anomaly].filter(Boolean).join(" ");

/** told returns the translation of an English sentence of the shop, or the sentence if any part of it has none. */
export const told = (english) => translation(english)?.text ?? english;

/** translation returns the translation of a sentence and the number of its quoted letters, or null. */
function translation(english) {
  const before = translated.get(english);
  if (before !== undefined) return before;
  const found = formed(english);
  if (translated.size >= mostTranslated) translated.clear();
  translated.set(english, found);
  return found;
}

/** formed fills in the translation of the form that quotes the least of a sentence, because quotes stay English. */
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

// The names in the braces of a form: a number stands for a value, text and more for sentences of their own,
// and any other name for a quote, such as a command, an error or a name.
const isValue = (name) => /^\d+$/.test(name);
const isSentence = (name) => name === "text" || name === "more";

// A value is an actor (A, or A/1 for a caller in process A), a number, a time, or a list of them.
const one = String.raw`(?:[A-Z](?:/\d+)?|nobody|\d+(?:\.\d+)?(?:µs|ms|s|m\d+s)?)`;
const value = `${one}(?:, ${one})*(?: and ${one})?`;

/** insideOf translates the values in a form's braces, or returns null if a sentence in them has no translation. */
function insideOf(names, found) {
  const values = {};
  let quoted = 0;
  for (const [i, name] of names.entries()) {
    const english = found[i];
    let inside = { text: english, quoted: english.length };
    if (isValue(name)) inside = { text: told(english), quoted: 0 };
    if (isSentence(name)) inside = translation(english);
    if (!inside) return null;
    values[name] = inside.text;
    quoted += inside.quoted;
  }
  return { values, quoted };
}

/** form makes a form from a sentence with braces and its translation. */
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

/** knows reports whether there is a text with this key. */
export const knows = (key) => Object.hasOwn(texts, key);

const shown = (value) => (typeof value === "number" ? number(value) : value);

/** number formats a number in the reader's notation, with three significant digits or as an integer. */
export function number(value) {
  const size = Math.abs(value);
  const digits = size >= 100 || Number.isInteger(value) ? 0 : size >= 10 ? 1 : 2;
  return value.toLocaleString(document.documentElement.lang, { maximumFractionDigits: digits });
}

/** clockTime formats a time of day, from 00:00:00 to 23:59:59 in each language. */
export const clockTime = (time) =>
  new Date(time).toLocaleTimeString(document.documentElement.lang, { hourCycle: "h23" });

/** remembered returns the value that was remembered under a name, or null. */
export function remembered(name) {
  try {
    return localStorage.getItem(name);
  } catch {
    return null;
  }
}

/** remember keeps a choice for the next visit, if the browser allows it. */
export function remember(name, value) {
  try {
    localStorage.setItem(name, value);
  } catch {
    // Storage is off: the choice lasts for this visit.
  }
}
