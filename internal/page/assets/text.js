// Texts, in one language at a time. What the shop says in English is translated here: by its
// name, as what a strategy adds, or by its form, as what happens in a timeline.

export const languages = { en: "English", zh: "中文" };

let texts = {};
let forms = null; // of what the shop says, the longest first; null: not loaded
const translated = new Map(); // a cache: the shop says the same again and again
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
 * learn loads the forms of what the shop says. The first paint does without them; a part needs them before it asks the
 * shop for anything. Without them it shows English, and the next part tries again.
 */
export async function learn() {
  if (forms || language === "en") return; // the shop speaks English, also while no language is chosen yet
  const name = language;
  const known = await load(`${name}.told`).catch(() => null);
  if (known && name === language) speakBy(Object.entries(known).map(form).sort((a, b) => b.letters - a.letters));
}

/** speakBy translates by these forms from now on. */
function speakBy(next) {
  forms = next;
  translated.clear();
}

async function load(name) {
  const reply = await fetch(new URL(`texts/${name}.json`, import.meta.url));
  if (!reply.ok) throw new Error(`the texts of ${name}: ${reply.status}`);
  return reply.json();
}

/** preferred is the language of the address, the one chosen before, or the browser's. */
export function preferred() {
  const asked = new URLSearchParams(location.search).get("lang");
  const names = [asked, remembered("language"), ...navigator.languages.map((name) => name.slice(0, 2))];
  return names.find((name) => name && Object.hasOwn(languages, name)) ?? "en";
}

/** t is a text, with values for what is in braces. */
export const t = (key, values = {}) => filled(texts[key] ?? key, values);

const filled = (text, values) =>
  text.replace(/\{(\w+)\}/g, (all, name) => (Object.hasOwn(values, name) ? shown(values[name]) : all));

/** named is the text with this key, or else the English of the shop. */
export const named = (key, english) => texts[key] ?? english;

/** titleOf is what an anomaly is called beside its name, or "" in the language of the names. */
export const titleOf = (anomaly) => named(`anomaly.${anomaly}.title`, "");

/** called is the name of an anomaly in a sentence, after its title if it has one. */
export const called = (anomaly) => [titleOf(anomaly), anomaly].filter(Boolean).join(" ");

/** told is the translation of an English sentence of the shop, or the sentence if any part of it has none. */
export const told = (english) => translation(english)?.text ?? english;

/** translation is the translation of a sentence, and how many letters of it are quoted, or null. */
function translation(english) {
  const before = translated.get(english);
  if (before !== undefined) return before;
  const found = formed(english);
  if (translated.size >= mostTranslated) translated.clear();
  translated.set(english, found);
  return found;
}

/** formed finds the form that quotes the least of a sentence, as quotes stay English, and fills in its translation. */
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

// What a form has in braces: a number is a value, text and more are sentences of their own,
// and any other name is a quote, such as a command, an error or a name.
const isValue = (name) => /^\d+$/.test(name);
const isSentence = (name) => name === "text" || name === "more";

// A value is an actor (A, or A/1 for a caller in process A), a number, a time, or a list of them.
const one = String.raw`(?:[A-Z](?:/\d+)?|nobody|\d+(?:\.\d+)?(?:µs|ms|s|m\d+s)?)`;
const value = `${one}(?:, ${one})*(?: and ${one})?`;

/** insideOf translates what was found in a form's braces, or returns null if a sentence there has none. */
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

/** knows tells whether there is a text with this key. */
export const knows = (key) => Object.hasOwn(texts, key);

const shown = (value) => (typeof value === "number" ? number(value) : value);

/** number is a number in the reader's notation, with three significant digits or as an integer. */
export function number(value) {
  const size = Math.abs(value);
  const digits = size >= 100 || Number.isInteger(value) ? 0 : size >= 10 ? 1 : 2;
  return value.toLocaleString(document.documentElement.lang, { maximumFractionDigits: digits });
}

/** clockTime is a time of day, from 00:00:00 to 23:59:59 in each language. */
export const clockTime = (time) =>
  new Date(time).toLocaleTimeString(document.documentElement.lang, { hourCycle: "h23" });

/** remembered is the value that was remembered under a name, or null. */
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
