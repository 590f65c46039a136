// The page and its parts. Each part has an address after the #, and is loaded when it is opened.

import { hasShop } from "./api.js";
import { el, put } from "./dom.js";
import { choose, language, languages, learn, named, preferred, remember, t } from "./text.js";

const parts = ["run", "break", "play", "read", "shop", "teach"];
const systemDark = matchMedia("(prefers-color-scheme: dark)");
const view = document.getElementById("view");
let open = null; // the part that is shown: { name, update }
let stay = new AbortController(); // aborted when the part is left, even while it is loading
let turn = 0; // counts the addresses shown, so that a part that loads slowly does not replace the next one

/** address parses what is after the #: #/part/of/it?name=value. */
function address() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const [name, ...of] = path.split("/").map(decoded);
  const known = parts.includes(name);
  return { name: known ? name : "", unknown: name !== "" && !known, of, query: new URLSearchParams(query) };
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // mistyped
  }
}

/** leave ends the part that is shown or loading. */
function leave() {
  stay.abort();
  open = null;
}

/** go shows the part that the address names. */
async function go() {
  const at = address();
  const mine = ++turn;
  for (const link of document.querySelectorAll(".parts a")) {
    if (link.hash === `#/${at.name}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  title(at.name ? t(`nav.${at.name}`) : "");
  try {
    if (open?.name === at.name && open.update) return await open.update(at);
    leave();
    stay = new AbortController();
    const page = pageOf(stay.signal);
    view.replaceChildren();
    view.className = `part-${at.name || "home"}`;
    scrollTo(0, 0);
    const [part] = at.name ? await Promise.all([loaded(at.name), learn()]) : [{ show: home }];
    if (mine !== turn) return;
    const box = el("div.part");
    view.replaceChildren(box);
    const shown = await part.show(box, at, page);
    if (mine === turn) open = { name: at.name, ...shown };
  } catch (error) {
    if (mine === turn) trouble(error, go);
  }
}

/** trouble shows an error in place of a part, with a button that calls again. There may be no texts yet. */
function trouble(error, again) {
  leave();
  view.replaceChildren(
    el("div.trouble", { role: "alert" }, el("p", named("page.failed", "This part could not be shown.")),
      el("p.small", error.message), el("button", { onclick: again }, named("page.again", "Try again")))
  );
}

/** loaded returns the module of a part. It replaces the browser's own error for a module that cannot be loaded. */
async function loaded(name) {
  try {
    return await import(`./${name}.js`);
  } catch (error) {
    throw error instanceof TypeError ? new Error(t("problem.unreachable"), { cause: error }) : error;
  }
}

/** pageOf returns the functions with which a part may change the page, until the signal is aborted. */
function pageOf(signal) {
  return {
    signal,
    title: (text) => signal.aborted || title(text),
    replace: (hash) => signal.aborted || history.replaceState(history.state, "", hash),
  };
}

/** title sets the title of the window. */
function title(text) {
  document.title = text ? `${text} · oversell` : "oversell";
}

/** home shows what the page offers. */
function home(box, at) {
  const card = (name) =>
    el("li",
      el("a.card", { href: `#/${name}` },
        el(`span.sketch.${name}`, { "aria-hidden": "true" }, Array.from({ length: 5 }, () => el("i"))),
        el("strong", t(`nav.${name}`)), el("span", t(`home.${name}`))));
  const unknown = at.unknown && el("p.alarm", { role: "alert" }, t("page.unknown", { address: location.hash }));
  put(box, unknown, el("h1", t("home.title")), el("p.lead", t("home.lead")), el("ul.cards", parts.map(card)),
    el("p.small", t(hasShop ? "home.real" : "site.real")));
}

/** label puts the texts into the page's frame. */
function label() {
  for (const node of document.querySelectorAll("[data-text]")) node.textContent = t(node.dataset.text);
  for (const node of document.querySelectorAll("[data-label]")) {
    node.setAttribute("aria-label", t(node.dataset.label));
    if (node.matches("button")) node.title = t(node.dataset.label);
  }
  const next = language === "en" ? "zh" : "en";
  const button = document.getElementById("language");
  button.textContent = languages[next];
  button.lang = next === "zh" ? "zh-CN" : next;
}

/** speak changes the language. It remembers one that the reader has chosen, once its texts are there. */
async function speak(name, chosen = false) {
  turn++; // a part that is loading would be in the old language
  try {
    await choose(name);
  } catch (error) {
    return trouble(error, () => speak(name, chosen));
  }
  if (chosen) remember("language", name);
  label();
  leave();
  await go();
}

document.getElementById("language").addEventListener("click", () => speak(language === "en" ? "zh" : "en", true));

document.getElementById("theme").addEventListener("click", () => {
  const { dataset } = document.documentElement;
  const dark = dataset.theme ? dataset.theme === "dark" : systemDark.matches;
  dataset.theme = dark ? "light" : "dark";
  remember("theme", dataset.theme);
  dispatchEvent(new Event("themechange"));
});
systemDark.addEventListener("change", () => dispatchEvent(new Event("themechange")));

/** present turns large type on the full screen, for a projector, on or off. */
async function present() {
  const { dataset } = document.documentElement;
  if ("present" in dataset) {
    delete dataset.present;
    if (document.fullscreenElement) await document.exitFullscreen();
  } else {
    dataset.present = "";
    await document.documentElement.requestFullscreen?.().catch(() => {}); // refused: the type is large anyway
  }
  dispatchEvent(new Event("resize")); // parts that measure their text do so again
}

document.getElementById("present").addEventListener("click", present);
document.addEventListener("fullscreenchange", () => {
  if (document.fullscreenElement) return;
  delete document.documentElement.dataset.present; // Escape leaves the full screen
  dispatchEvent(new Event("resize"));
});
document.addEventListener("keydown", ({ key, altKey, ctrlKey, metaKey, target }) => {
  if (key?.toLowerCase() !== "f" || altKey || ctrlKey || metaKey) return;
  if (!target.closest("input, select, textarea")) present();
});

document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault(); // the # is for addresses
  view.focus();
});
addEventListener("hashchange", async () => {
  const before = open?.name;
  await go();
  if (open && open.name !== before) view.focus({ preventScroll: true }); // Tab continues in the new part
});

await speak(preferred());
