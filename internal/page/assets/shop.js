// Shop: a sale as shoppers see it, at once or with a payment, and on a projector for a class.

import { hasShop } from "./api.js";
import { byCommand, el } from "./dom.js";
import { t } from "./text.js";

const ways = { counter: "#/shop", seats: "#/shop/seats", class: "#/shop/class" }; // a module each, and its address

/** show shows the way of selling that the address names. */
export async function show(box, at, page) {
  if (!hasShop) {
    const command = `go run ./cmd/shop${at.of[0] === "class" ? " -class" : ""}`;
    return void box.append(el("h1", t("shop.title")), byCommand("site.shop", command));
  }
  const links = Object.entries(ways).map(([way, href]) =>
    el("a.level", { href, "data-way": way }, t(`shop.way.${way}`))
  );
  const head = el("div", el("h1", t("shop.title")), el("nav.levels.ways", { "aria-label": t("shop.ways") }, links));
  const inner = el("div");
  let shown = "";
  let left = new AbortController(); // aborted when the other way is chosen
  box.append(head, inner);

  async function update({ of: [name] }) {
    const alone = name === "phone"; // of a class: the count, the button, and nothing else
    const way = Object.hasOwn(ways, name) ? name : "counter";
    if (shown === `${way} ${alone}`) return;
    shown = `${way} ${alone}`;
    head.hidden = alone;
    inner.className = alone ? "alone" : "";
    left.abort();
    left = new AbortController();
    const signal = AbortSignal.any([page.signal, left.signal]);
    for (const link of links) {
      if (link.dataset.way === way) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    inner.replaceChildren();
    const module = await import(`./${way}.js`);
    const next = el("div");
    await module.show(next, signal, alone);
    if (signal.aborted) return;
    inner.replaceChildren(next);
  }

  await update(at);
  return { update };
}
