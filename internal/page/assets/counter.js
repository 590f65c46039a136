// A sale at once, as a shopper sees it.

import { call, key, wantsToken } from "./api.js";
import { el, every, head, put, say, submitted, tokenInput } from "./dom.js";
import { recall, store } from "./tab.js";
import { language, named, t, told } from "./text.js";

const sku = "hot";
const mostOrders = 50;
const kept = "orders"; // see recall

/** show shows the item, and keeps its count up to date until the signal. */
export async function show(box, signal) {
  const { default: usual, strategies } = await call("/api/strategies", { signal });
  const state = { item: await call(`/api/items/${sku}`, { signal }), audit: null };

  const left = el("strong.units", { id: "left" });
  const level = el("i");
  const orders = newOrders();
  const books = el("dl.books");
  const buying = newBuying(strategies, usual, look, orders.add);
  const sale = newSale(() => state.item, look);
  const goods = el("div.goods", { "aria-hidden": "true" }, el("span", sku));
  const count = el("div", el("h2", told(state.item.name) || sku), el("p.count", left, " ", t("shop.left")),
    el("div.stockbar", { "aria-hidden": "true" }, level), el("p.small", t("shop.live")));
  box.append(el("p.lead", t("shop.lead")),
    el("div.counter", el("section.item.panel", { "aria-label": t("shop.item") }, goods, count), buying),
    el("div.counter", el("section.panel", el("h2", t("shop.orders")), el("div.scroll", orders.node)),
      el("section.panel", el("h2", t("shop.books")), el("p.small", t("shop.books.about")), books,
        el("details", el("summary", t("shop.anew")), sale))));

  function draw() {
    const { remaining, initial } = state.item;
    left.textContent = remaining.toLocaleString(language);
    level.style.width = `${Math.max(0, Math.min(100, (100 * remaining) / Math.max(1, initial)))}%`;
    if (!state.audit) return;
    const { sold, orders, oversold, lost_updates: lost } = state.audit;
    const alarm = { oversold: oversold > 0, lost: lost !== 0 };
    const fact = ([name, value]) =>
      el("div", { class: alarm[name] ? "alarm" : null }, el("dt", t(`books.${name}`)),
        el("dd", value.toLocaleString(language)));
    put(books, Object.entries({ initial, remaining, sold, orders, oversold, lost }).map(fact));
  }

  async function look() {
    try {
      [state.item, state.audit] = await Promise.all([call(`/api/items/${sku}`), call(`/api/audit/${sku}`)]);
      box.classList.remove("stale");
    } catch {
      box.classList.add("stale"); // until the next look
    }
    draw();
  }

  signal.addEventListener("abort", every(1000, look));
}

/** newBuying makes the form that buys. look looks at the item again, and ordered is told of an order. */
function newBuying(strategies, usual, look, ordered) {
  const outcome = el("div.outcome", { role: "status", "aria-live": "polite" });
  const about = el("p.small");
  const option = ({ name }) =>
    el("option", { value: name, selected: name === usual }, name === usual ? t("shop.default", { name }) : name);
  const choice = el("select", { id: "strategy", onchange: describe }, strategies.map(option));
  const range = { type: "number", min: 1, max: 1000, value: 1, required: true };
  const quantity = el("input", { id: "quantity", ...range });
  const buy = el("button.primary", { type: "submit" }, t("shop.buy"));

  function describe() {
    const { name, adds, breaks } = strategies.find((s) => s.name === choice.value);
    put(about, el("span", t("strategy.adds"), " ", named(`strategy.${name}.adds`, adds)), el("br"),
      el("span", t("strategy.breaks"), " ", named(`strategy.${name}.breaks`, breaks)));
  }

  async function purchase() {
    buy.disabled = true;
    outcome.className = "outcome";
    outcome.textContent = t("shop.waiting");
    try {
      const order = await call(`/api/items/${sku}/deduct?strategy=${encodeURIComponent(choice.value)}`, {
        method: "POST",
        body: { quantity: Number(quantity.value) },
        headers: { "Idempotency-Key": key() },
      });
      ordered(order);
      outcome.classList.add("good");
      outcome.textContent = t("shop.bought", { n: order.quantity, left: order.remaining });
    } catch (error) {
      outcome.classList.add("bad");
      outcome.textContent = error.message;
    }
    buy.disabled = false;
    await look();
  }

  describe();
  return el("section.panel", { "aria-label": t("shop.buy") },
    el("form.buying", { onsubmit: submitted(purchase) }, el("label", { for: "strategy" }, t("shop.strategy")), choice,
      about, el("div.pair", el("label", { for: "quantity" }, t("shop.quantity")), quantity, buy), outcome));
}

/** newSale makes the form that puts the item on sale again. */
function newSale(item, look) {
  const value = Math.min(item().initial, 1000000);
  const stock = el("input", { id: "stock", type: "number", min: 0, max: 1000000, value, required: true });
  const secret = tokenInput("secret");
  const field = el("div.pair", { hidden: true }, el("label", { for: "secret" }, t("page.token")), secret);
  const offered = el("p.small", { role: "status" });

  async function offer() {
    const { name, category, keeper } = item();
    try {
      await call(`/api/items/${sku}`, { method: "PUT", body: { stock: Number(stock.value), name, category, keeper } });
      offered.textContent = t("shop.offered");
      say(offered.textContent);
    } catch (error) {
      offered.textContent = error.message;
      if (wantsToken(error)) {
        field.hidden = false;
        secret.focus();
      }
    }
    await look();
  }

  return el("form.anew", { onsubmit: submitted(offer) },
    el("div.pair", el("label", { for: "stock" }, t("shop.stock")), stock,
      el("button", { type: "submit" }, t("shop.offer"))), field, offered);
}

/** newOrders makes the table of the orders of this tab. */
function newOrders() {
  const list = el("tbody");
  let orders = recall(kept) ?? [];
  const line = ({ order_id: id, replayed, quantity, strategy, created_at: at }) =>
    el("tr", el("td", el("code", { title: id }, `…${id.slice(-8)}`), replayed && ` ${t("shop.replayed")}`),
      el("td.number", quantity), el("td", strategy),
      el("td", new Date(at).toLocaleTimeString(document.documentElement.lang)));
  const draw = () =>
    put(list, orders.length > 0 ? orders.map(line) : el("tr", el("td.nothing", { colspan: 4 }, t("shop.none"))));
  draw();
  return {
    node: el("table.rows", head(...["order", "quantity", "strategy", "time"].map((name) => [t(`shop.order.${name}`)])),
      list),
    add(order) {
      orders = [order, ...orders].slice(0, mostOrders);
      store(kept, orders);
      draw();
    },
  };
}
