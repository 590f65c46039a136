// A sale without a payment, as a shopper sees it on a phone: the units left, one button, and the outcome of the order.

import { call, key, token } from "./api.js";
import { el, every, fact, head, lesson, put, say, scroll, submitted, tokenField } from "./dom.js";
import { recall, store } from "./tab.js";
import { clockTime, number, t, told } from "./text.js";

const sku = "hot";
const mostOrders = 50;
const kept = "orders"; // see recall

/**
 * show shows the item, and updates the units left until the signal aborts. alone leaves out everything except the units
 * left, the button and the outcome of the order.
 */
export async function show(box, signal, alone) {
  const [item, room] = await Promise.all([call(`/api/items/${sku}`, { signal }), call("/api/class", { signal })]);
  const state = { item };

  const left = el("strong.units", { id: "left" });
  const level = el("i");
  const orders = newOrders(item.sale_id);
  const over = el("p.outcome.bad.toomany", { role: "alert", hidden: true }); // says that not every buyer gets a unit
  const behind = newBehind(() => state.item, look, signal);
  const buying = newBuying(behind.strategy, { fetchItem, look, ordered: orders.add });
  const count = el("div.till", el("h2", told(item.name) || sku), el("p.count", left, " ", t("shop.left")),
    el("div.stockbar", { "aria-hidden": "true" }, level));
  behind.node.hidden = alone || (room.open && !token()); // a student buys one unit, and nothing else
  const bought = !alone && el("section.panel", el("h2", t("shop.orders")), scroll(t("shop.orders"), orders.node));
  box.append(el("div.phone", el("section.panel", { "aria-label": t("shop.item") }, count, over, buying.node), bought),
    behind.node);
  if (alone && orders.any()) buying.tell(orders.any());

  function draw() {
    const { remaining, initial } = state.item;
    left.textContent = number(remaining);
    buying.soldOut(remaining <= 0);
    level.style.width = `${Math.max(0, Math.min(100, (100 * remaining) / Math.max(1, initial)))}%`;
  }

  /** fetchItem fetches the item again. */
  async function fetchItem() {
    try {
      const next = await call(`/api/items/${sku}`);
      if (next.sale_id !== state.item.sale_id) { // the message is about the previous sale
        buying.clear();
        orders.clear(next.sale_id);
      }
      state.item = next;
      box.classList.remove("stale");
    } catch {
      box.classList.add("stale"); // until the next reply
    }
    draw();
  }

  async function look() {
    await fetchItem();
    await tell();
    await behind.look();
  }

  /** tell warns a buyer when more units were sold than there are. */
  async function tell() {
    const audit = orders.any() ? await call(`/api/audit/${sku}`).catch(() => null) : null;
    if (orders.any() && !audit) return; // until the next reply
    over.hidden = !(audit?.oversold > 0);
    if (!over.hidden) over.textContent = t("shop.toomany", audit);
  }

  signal.addEventListener("abort", every(1000, look));
}

/**
 * newBuying makes the button that buys. fetchItem fetches the item again, look also shows what has changed since, and
 * ordered is called with an order.
 */
function newBuying(strategy, { fetchItem, look, ordered }) {
  const outcome = el("div.outcome", { role: "status", "aria-live": "polite" });
  const buy = el("button.primary.buy", { type: "submit" }, t("shop.buy"));
  let asked = 0; // counts the purchases and sales, so that a reply of an earlier sale is ignored

  async function purchase() {
    buy.disabled = true;
    outcome.textContent = t("shop.waiting");
    await fetchItem(); // a new sale may have begun; what is said from here on is about the sale that is on now
    const mine = ++asked;
    const show = (name, text) => {
      if (mine !== asked) return;
      outcome.className = `outcome ${name}`;
      outcome.textContent = text;
    };
    show("", t("shop.waiting"));
    const { name, quantity } = strategy();
    const by = name ? `?strategy=${encodeURIComponent(name)}` : "";
    try {
      const order = await call(`/api/items/${sku}/deduct${by}`, {
        method: "POST",
        body: { quantity },
        headers: { "Idempotency-Key": key() },
      });
      ordered(order);
      if (mine === asked) tell(order);
    } catch (error) {
      show("bad", error.message);
    }
    buy.disabled = false;
    await look();
  }

  function tell({ quantity: n, remaining: left }) {
    outcome.className = "outcome good";
    outcome.textContent = left == null ? t("shop.accepted", { n }) : t("shop.bought", { n, left });
  }

  return {
    tell,
    node: el("form.buying", { onsubmit: submitted(purchase) }, buy, outcome),
    /** soldOut says on the button that nothing is left. The button still works: the count may be a second old. */
    soldOut: (is) => buy.textContent = t(is ? "shop.soldout" : "shop.buy"),
    clear() {
      asked++;
      outcome.className = "outcome";
      outcome.textContent = "";
    },
  };
}

/** newBehind makes what a shopper does not see: the strategy, the audit, and a new sale. It is folded at first. */
function newBehind(item, look, signal) {
  const about = el("p.small");
  const choice = el("select", { id: "strategy", onchange: describe });
  const range = { type: "number", min: 1, max: 1000, value: 1, required: true };
  const quantity = el("input", { id: "quantity", ...range });
  const books = el("dl.books");
  const body = el("div.counter");
  const node = el("details.behind", { ontoggle: () => node.open && open() }, el("summary", t("shop.behind")), body);
  let all = null; // the strategies
  let usual = ""; // the shop's default
  let offered = ""; // the sale that the list was made for

  /** open fetches the strategies when they are first needed. */
  async function open() {
    if (!all) {
      try {
        ({ default: usual, strategies: all } = await call("/api/strategies", { signal }));
      } catch (error) {
        if (!signal.aborted) put(body, el("p.alarm", { role: "alert" }, error.message));
        return;
      }
      put(body,
        el("section.panel", el("h2", t("shop.strategy")), el("p.small", t("shop.lead")), choice, about,
          el("div.pair", el("label", { for: "quantity" }, t("shop.quantity")), quantity)),
        el("section.panel", el("h2", t("shop.books")), el("p.small", t("shop.books.about")), books,
          el("h2", t("shop.anew")), newSale(item, look)));
    }
    await lookBehind();
  }

  /** offer lists the strategies that can sell the item as it is on sale now. */
  function offer() {
    const { keeper, limit } = item();
    if (offered === `${keeper} ${limit}`) return;
    offered = `${keeper} ${limit}`;
    const before = choice.value || usual;
    const able = all.filter((s) => s.keepers.includes(keeper) && (!limit || s.limit));
    put(choice, able.map(({ name }) =>
      el("option", { value: name, selected: name === before },
        name === usual ? t("shop.default", { name }) : name)));
    describe();
  }

  function describe() {
    const known = all.find((s) => s.name === choice.value);
    if (!known) return put(about);
    put(about, lesson(known));
  }

  async function lookBehind() {
    if (!node.open || !all) return;
    offer();
    try {
      draw(await call(`/api/audit/${sku}`));
    } catch {
      // The units left show already that the shop does not answer.
    }
  }

  function draw({ initial, remaining, sold, orders, oversold, lost_updates: lost }) {
    const alarm = { oversold: oversold > 0, lost: lost !== 0 };
    const figures = Object.entries({ initial, remaining, sold, orders, oversold, lost });
    put(books, figures.map(([name, value]) => fact(`books.${name}`, value, alarm[name])));
  }

  return {
    node,
    look: lookBehind,
    /** strategy returns the name of the strategy of a purchase, or "" for the shop's default, and the quantity. */
    strategy: () => ({ name: choice.value, quantity: Number(quantity.value) || 1 }),
  };
}

/** newSale makes the form that puts the item on sale again. item is the current item, and look fetches it again. */
function newSale(item, look) {
  const value = Math.min(item().initial, 1000000);
  const stock = el("input", { id: "stock", type: "number", min: 0, max: 1000000, value, required: true });
  const secret = tokenField("secret");
  const offered = el("p.small", { role: "status" });

  async function offer() {
    const { name, category, keeper, limit } = item();
    const body = { stock: Number(stock.value), name, category, keeper, limit };
    try {
      await call(`/api/items/${sku}`, { method: "PUT", body });
      offered.textContent = t("shop.offered");
      say(offered.textContent);
    } catch (error) {
      offered.textContent = error.message;
      secret.refused(error);
    }
    await look();
  }

  return el("form.anew", { onsubmit: submitted(offer) },
    el("div.pair", el("label", { for: "stock" }, t("shop.stock")), stock,
      el("button", { type: "submit" }, t("shop.offer"))), secret.node, offered);
}

/** newOrders makes the table of the orders of this tab in the current sale. */
function newOrders(sale) {
  const list = el("tbody");
  const kinds = { quantity: "number", strategy: "guard" }; // a phone has no room for the strategy
  const titles = ["order", "quantity", "strategy", "time"].map((name) => [t(`shop.order.${name}`), kinds[name]]);
  const before = recall(kept);
  let orders = before?.sale === sale ? before.orders : [];
  const line = ({ order_id: id, replayed, quantity, strategy, created_at: at }) =>
    el("tr", el("td", el("code", { title: id }, `…${id.slice(-8)}`), replayed && ` ${t("shop.replayed")}`),
      el("td.number", quantity), el("td.guard", strategy),
      el("td", clockTime(at)));
  function keep() {
    store(kept, { sale, orders });
    put(list, orders.length > 0 ? orders.map(line) : el("tr", el("td.nothing", { colspan: 4 }, t("shop.none"))));
  }
  keep();
  return {
    node: el("table.rows", head(...titles), list),
    /** any returns the last order, if there is one. */
    any: () => orders[0],
    add(order) {
      orders = [order, ...orders].slice(0, mostOrders);
      keep();
    },
    clear(next) {
      sale = next;
      orders = [];
      keep();
    },
  };
}
