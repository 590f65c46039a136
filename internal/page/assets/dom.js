// Elements, and what all parts do with them.

/** el makes an element; strings among its children become text, never markup. What is named on… listens. */
export function el(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (typeof value === "function") node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, "");
    else if (value != null && value !== false) node.setAttribute(name, value);
  }
  node.append(...present(children));
  return node;
}

/** put shows these children in a node, and nothing else. As with el, what is null or false is none. */
export function put(node, ...children) {
  node.replaceChildren(...present(children));
}

const present = (children) => children.flat().filter((child) => child != null && child !== false);

/** mark is a verdict in a shape and a word, so that it is not told by its colour alone. */
export const mark = (kind, word) => el("span", { class: `mark ${kind}` }, word);

/** say has a screen reader tell something. */
export function say(text) {
  document.getElementById("said").textContent = text;
}

/** linked makes links of the words that are addresses, and of nothing else. */
export function linked(text) {
  return text.split(/(\s+)/).map((word) =>
    /^https?:\/\/\S+$/.test(word) && URL.canParse(word) ? el("a", { href: word, rel: "noreferrer" }, word) : word);
}

/** copy puts a text on the clipboard, and tells so on the button. */
export async function copy(button, text, done, failed) {
  button.dataset.before ??= button.textContent; // it may be clicked again while it tells
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = done;
  } catch {
    prompt(failed, text); // it is not allowed: at least it can be marked there
    return;
  }
  say(done);
  setTimeout(() => { button.textContent = button.dataset.before; }, 1500);
}

/** every calls f now, and again so many milliseconds after it is done, while the page is visible. It returns how to end it. */
export function every(ms, f) {
  let timer = 0;
  let ended = false;
  let busy = false;
  const turn = async () => {
    clearTimeout(timer);
    if (ended || busy || document.hidden) return;
    busy = true;
    await f();
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

/** colour is one of the style's, as it is now. */
export function colour(name) {
  const probe = el("i", { class: "unseen" });
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const value = getComputedStyle(probe).color;
  probe.remove();
  return value;
}
