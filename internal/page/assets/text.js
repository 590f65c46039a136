// Texts, in one language at a time. The shop's English texts are translated here: by a
// key, such as what a strategy adds, or by their format, such as the events of a timeline.

export const languages = { en: "English", zh: "中文" };

let texts = {};
let sentences = null; // translations of the shop's sentences, by English format; null: not loaded
export let language = "en";

/** choose loads the texts of a language. */
export async function choose(name) {
  texts = await load(name);
  sentences = name === "en" ? {} : null;
  language = name;
  document.documentElement.lang = name === "zh" ? "zh-CN" : name;
}

/**
 * learn loads the translations of the shop's sentences. The first paint needs none; a part needs them before it asks
 * the shop for anything. Without them the part shows English, and the next part tries again.
 */
export async function learn() {
  if (sentences || language === "en") return; // the shop speaks English, even before a language is chosen
  const name = language;
  const known = await load(`${name}.told`).catch(() => null);
  if (name === language) sentences = known;
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

/**
 * told returns the translation of an English sentence of the shop, or the sentence if it has none. A sentence with
 * arguments also comes as a message: a list of its format and arguments, some of which may be messages.
 */
export const told = (english, message) => Array.isArray(message) && message.length > 0 ? filledIn(message)
  : Object.hasOwn(sentences ?? {}, english) ? sentences[english] : english;

function filledIn([format, ...args]) {
  if (args.length === 0) return told(format);
  let next = 0;
  return told(format).replace(/%[.\d]*(?:\[(\d+)\])?[a-z]|%%/g, (verb, number) => {
    if (verb === "%%") return "%";
    next = Number(number ?? next + 1);
    const arg = args[next - 1] ?? verb;
    return Array.isArray(arg) ? filledIn(arg) : arg;
  });
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
