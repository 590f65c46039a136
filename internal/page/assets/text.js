// Texts: those of one language at a time. What the shop tells in English, such
// as what a strategy adds, has its translation here by its name.

export const languages = { en: "English", zh: "中文" };

let texts = {};
export let language = "en";

/** choose loads the texts of a language. */
export async function choose(name) {
  const reply = await fetch(`/page/texts/${name}.json`);
  if (!reply.ok) throw new Error(`the texts of ${name}: ${reply.status}`);
  texts = await reply.json();
  language = name;
  document.documentElement.lang = name === "zh" ? "zh-CN" : name;
}

/** preferred is the language that was asked for, chosen before, or is the browser's. */
export function preferred() {
  const names = [new URLSearchParams(location.search).get("lang"), remembered("language"), ...navigator.languages.map((name) => name.slice(0, 2))];
  return names.find((name) => name && Object.hasOwn(languages, name)) ?? "en";
}

/** t is a text, with values for what is in braces. */
export function t(key, values = {}) {
  const text = texts[key] ?? key;
  return text.replace(/\{(\w+)\}/g, (all, name) => (Object.hasOwn(values, name) ? shown(values[name]) : all));
}

/** named is the translation of what the shop tells in English, or that. */
export const named = (key, english) => texts[key] ?? english;

/** told is the translation of what happened, as the lab tells it, where there is one: actors and numbers are put into it. */
export function told(english) {
  const values = [];
  const key = english.replace(/\b(?:[A-Z]|\d+(?:\.\d+)?)\b/g, (word) => {
    if (!values.includes(word)) values.push(word);
    return `{${values.indexOf(word)}}`;
  });
  return knows(`event.${key}`) ? t(`event.${key}`, values) : english;
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
