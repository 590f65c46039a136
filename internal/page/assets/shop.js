// Shop: the sale as a shopper sees it.

import { call, token, wantsToken } from "./api.js";
import { el, every, put, say } from "./dom.js";
import { language, named, t, told } from "./text.js";

const sku = "hot";
const mostOrders = 50;
const kept = "orders"; // of this tab

/** show shows the item, and keeps its count as it is. */
export async function show(box, at, { signal }) {
  const { default: usual, strategies } = await call("/api/strategies", { signal });
  const item = await call(`/api/items/${sku}`, { signal });
  const state = { item, audit: null, orders: recall() };

  const left = el("strong", { class: "units", id: "left" });
  const meter = el("div", { class: "stockbar", "aria-hidden": "true" }, el("i"));
  const outcome = el("div", { class: "outcome", role: "status", "aria-live": "polite" });
  const about = el("p", { class: "small" });
  const books = el("dl", { class: "books" });
  const list = el("tbody");
  const choice = el("select", { id: "strategy", onchange: () => describe() },
    strategies.map(({ name }) => el("option", { value: name, selected: name === usual }, name === usual ? t("shop.default", { name }) : name)));
  const quantity = el("input", { id: "quantity", type: "number", min: 1, max: 1000, value: 1, required: true });
  const buy = el("button", { type: "submit", class: "primary" }, t("shop.buy"));
  const form = el("form", { class: "buying", onsubmit: (event) => { event.preventDefault(); purchase(); } },
    el("label", { for: "strategy" }, t("shop.strategy")), choice, about,
    el("div", { class: "pair" }, el("label", { for: "quantity" }, t("shop.quantity")), quantity, buy), outcome);
  const stock = el("input", { id: "stock", type: "number", min: 0, max: 1000000, value: Math.min(item.initial, 1000000), required: true });
  const secret = el("input", { id: "secret", type: "password", autocomplete: "off", value: token(), oninput: () => token(secret.value) });
  const secretField = el("div", { class: "pair", hidden: true }, el("label", { for: "secret" }, t("page.token")), secret);
  const offered = el("p", { class: "small", role: "status" });
  const anew = el("form", { class: "anew", onsubmit: (event) => { event.preventDefault(); offer(); } },
    el("div", { class: "pair" }, el("label", { for: "stock" }, t("shop.stock")), stock, el("button", { type: "submit" }, t("shop.offer"))), secretField, offered);

  box.append(
    el("h1", {}, t("shop.title")),
    el("p", { class: "lead" }, t("shop.lead")),
    el("div", { class: "counter" },
      el("section", { class: "item panel", "aria-label": t("shop.item") },
        el("div", { class: "goods", "aria-hidden": "true" }, el("span", {}, sku)),
        el("div", {}, el("h2", {}, told(item.name) || sku), el("p", { class: "count" }, left, " ", t("shop.left")), meter,
          el("p", { class: "small" }, t("shop.live")))),
      el("section", { class: "panel", "aria-label": t("shop.buy") }, form)),
    el("div", { class: "counter" },
      el("section", { class: "panel" }, el("h2", {}, t("shop.orders")),
        el("div", { class: "scroll" }, el("table", { class: "rows" }, el("thead", {}, el("tr", {},
          ["order", "quantity", "strategy", "time"].map((name) => el("th", { scope: "col" }, t(`shop.order.${name}`))))), list))),
      el("section", { class: "panel" }, el("h2", {}, t("shop.books")), el("p", { class: "small" }, t("shop.books.about")), books,
        el("details", {}, el("summary", {}, t("shop.anew")), anew))));

  function describe() {
    const { name, adds, breaks } = strategies.find((s) => s.name === choice.value);
    put(about, el("span", {}, t("strategy.adds"), " ", named(`strategy.${name}.adds`, adds)), el("br"),
      el("span", {}, t("strategy.breaks"), " ", named(`strategy.${name}.breaks`, breaks)));
  }

  function draw() {
    const { remaining, initial } = state.item;
    left.textContent = remaining.toLocaleString(language);
    meter.firstChild.style.width = `${Math.max(0, Math.min(100, (100 * remaining) / Math.max(1, initial)))}%`;
    put(list, ...(state.orders.length > 0 ? state.orders.map((order) => el("tr", {},
      el("td", {}, el("code", { title: order.order_id }, `…${order.order_id.slice(-8)}`), order.replayed ? ` ${t("shop.replayed")}` : ""), el("td", { class: "number" }, order.quantity),
      el("td", {}, order.strategy), el("td", {}, new Date(order.created_at).toLocaleTimeString(document.documentElement.lang))))
      : [el("tr", {}, el("td", { colspan: 4, class: "nothing" }, t("shop.none")))]));
    if (!state.audit) return;
    const { sold, orders, oversold, lost_updates: lost } = state.audit;
    put(books, ...[["initial", initial], ["remaining", remaining], ["sold", sold], ["orders", orders], ["oversold", oversold], ["lost", lost]]
      .map(([name, value]) => el("div", { class: (name === "oversold" && value > 0) || (name === "lost" && value !== 0) ? "alarm" : "" },
        el("dt", {}, t(`books.${name}`)), el("dd", {}, value.toLocaleString(language)))));
  }

  async function look() {
    try {
      [state.item, state.audit] = await Promise.all([call(`/api/items/${sku}`), call(`/api/audit/${sku}`)]);
      box.classList.remove("stale");
    } catch {
      box.classList.add("stale"); // the next look tells
    }
    draw();
  }

  async function purchase() {
    buy.disabled = true;
    outcome.className = "outcome";
    outcome.textContent = t("shop.waiting");
    try {
      const order = await call(`/api/items/${sku}/deduct?strategy=${encodeURIComponent(choice.value)}`, {
        method: "POST", body: { quantity: Number(quantity.value) }, headers: { "Idempotency-Key": key() },
      });
      state.orders = [order, ...state.orders].slice(0, mostOrders);
      store(state.orders);
      outcome.classList.add("good");
      outcome.textContent = t("shop.bought", { n: order.quantity, left: order.remaining });
    } catch (error) {
      outcome.classList.add("bad");
      outcome.textContent = error.message;
    }
    buy.disabled = false;
    await look();
  }

  async function offer() {
    try {
      await call(`/api/items/${sku}`, { method: "PUT", body: { stock: Number(stock.value), name: state.item.name, category: state.item.category, keeper: state.item.keeper } });
      offered.textContent = t("shop.offered");
      say(offered.textContent);
    } catch (error) {
      offered.textContent = error.message;
      if (wantsToken(error)) {
        secretField.hidden = false;
        secret.focus();
      }
    }
    await look();
  }

  describe();
  signal.addEventListener("abort", every(1000, look));
  return { update: () => {} };
}

/** key names one click, so that it does not buy twice should it be sent again. */
function key() {
  return `page-${[...crypto.getRandomValues(new Uint8Array(12))].map((b) => b.toString(16).padStart(2, "0")).join("")}`;
}

function recall() {
  try {
    return JSON.parse(sessionStorage.getItem(kept)) ?? [];
  } catch {
    return [];
  }
}

function store(orders) {
  try {
    sessionStorage.setItem(kept, JSON.stringify(orders));
  } catch {
    // Storage is off: they are kept until the page is left.
  }
}
