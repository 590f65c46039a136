// Shop: a sale as shoppers see it, with or without a payment, and as a class sees it on a projector.

import { hasShop } from "./api.js";
import { byCommand, el } from "./dom.js";
import { t } from "./text.js";

const ways = { counter: "#/shop", seats: "#/shop/seats", class: "#/shop/class" }; // the modules and their addresses

/** show shows the way of selling that the address names. */
export async function show(box, at, page) {
  const links = Object.entries(ways).map(([way, href]) =>
    el("a.level", { href, "data-way": way }, t(`shop.way.${way}`))
  );
  const head = el("div", el("h1", t("shop.title")), el("nav.levels.ways", { "aria-label": t("shop.ways") }, links));
  const inner = el("div");
  let shown = "";
  let left = new AbortController(); // aborted when another way is chosen
  box.append(head, inner);

  async function update({ of: [name] }) {
    const alone = name === "phone"; // for a class: only the units left and the button
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
    const next = el("div");
    if (hasShop) await (await import(`./${way}.js`)).show(next, signal, alone);
    else await replay(next, way, signal);
    if (signal.aborted) return;
    inner.replaceChildren(next);
  }

  await update(at);
  return { update };
}

/** replay shows a recording in place of a way of selling, and the command that opens a shop. */
async function replay(box, way, signal) {
  await (await import("./recorded.js")).show(box, way, signal);
  box.append(byCommand("site.shop", `go run ./cmd/shop${way === "class" ? " -class" : ""}`));
}
