// Elements, and functions that every part uses for them.

import { token, wantsToken } from "./api.js";
import { el, linked, put, svg } from "./lanes.js";
import { named, number, t } from "./text.js";

export { el, linked, put, svg };

/** scroll makes a box that scrolls, also by the keyboard. Its edge shows whether there is more. */
export function scroll(label, ...children) {
  const box = el("div.scroll", { tabindex: 0, role: "region", "aria-label": label }, ...children);
  const look = () => {
    box.classList.toggle("moreleft", box.scrollLeft > 2);
    box.classList.toggle("moreright", box.scrollWidth - box.clientWidth - box.scrollLeft > 2);
  };
  const resized = new ResizeObserver(look);
  for (const part of [box, ...box.children]) resized.observe(part);
  box.addEventListener("scroll", look);
  return box;
}

/** head makes the head of a table, from each column's title and the class of its cell, if any. */
export const head = (...columns) =>
  el("thead", el("tr", columns.map(([title, name = null]) => el("th", { scope: "col", class: name }, title))));

/** fact makes a name, which is the key of its text, and a value for a dl. */
export const fact = (name, value, alarm = false) =>
  el("div", { class: alarm ? "alarm" : null, "data-fact": name }, el("dt", t(name)),
    el("dd", typeof value === "number" ? number(value) : value));

/** lesson says what a strategy adds, and what still breaks. */
export const lesson = ({ name, adds, breaks }) => [
  el("span", t("strategy.adds"), " ", named(`strategy.${name}.adds`, adds)), el("br"),
  el("span", t("strategy.breaks"), " ", named(`strategy.${name}.breaks`, breaks)),
];

/** retell sets the text of a node if it differs, because a screen reader repeats what is set. */
export function retell(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** submitted returns a listener that calls f when a form is submitted. */
export const submitted = (f) => (event) => {
  event.preventDefault();
  f();
};

/** tokenField makes a field for the shop's token, and keeps the token. */
export function tokenField(id, hidden = true) {
  const keep = () => token(input.value);
  const input = el("input", { id, type: "password", autocomplete: "off", value: token(), oninput: keep });
  const node = el("div.pair", { hidden }, el("label", { for: id }, t("page.token")), input);
  return {
    node,
    input,
    /** refused asks for the token if an error is about it. */
    refused(error) {
      if (!wantsToken(error)) return;
      node.hidden = false;
      input.focus();
    },
  };
}

/** byCommand makes a line with a command that shows what this page cannot show. name is the key of its text. */
export const byCommand = (name, command) => el("p.bycommand.small", t(name), " ", el("code.shell", command));

/** say makes a screen reader announce a text. */
export function say(text) {
  document.getElementById("said").textContent = text;
}

/** copy puts a text on the clipboard, and says so on the button. */
export async function copy(button, text) {
  button.dataset.before ??= button.textContent; // a second click may come while it says "copied"
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = t("page.copied");
  } catch {
    prompt(t("page.copy.by.hand"), text); // not allowed: the text can be selected in the prompt
    return;
  }
  say(t("page.copied"));
  setTimeout(() => button.textContent = button.dataset.before, 1500);
}

/**
 * every calls f now, and ms after each call ends, while the page is visible. An error is only reported. It returns a
 * function that stops that.
 */
export function every(ms, f) {
  let timer = 0;
  let ended = false;
  let busy = false;
  const turn = async () => {
    clearTimeout(timer);
    if (ended || busy || document.hidden) return;
    busy = true;
    try {
      await f();
    } catch (error) {
      reportError(error);
    }
    busy = false;
    if (!ended) timer = setTimeout(turn, ms);
  };
  document.addEventListener("visibilitychange", turn);
  turn();
  return () => {
    ended = true;
    clearTimeout(timer);
    document.removeEventListener("visibilitychange", turn);
  };
}

/** colour returns the current value of a colour of the stylesheet. */
export function colour(name) {
  const probe = el("i.unseen");
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const value = getComputedStyle(probe).color;
  probe.remove();
  return value;
}
