// A sale with a payment: buyers hold a unit, pay, or pay late, and see whose unit it is.

import { call } from "./api.js";
import { el, every, fact, head, lesson, put, retell, say, scroll, submitted, tokenField } from "./dom.js";
import { newLane } from "./lane.js";
import { newClock } from "./serverclock.js";
import { recall, store } from "./tab.js";
import { clockTime, t } from "./text.js";

const sku = "seat";
const offers = { name: "A seat", category: "demo", keeper: "holds" };
const mostUnits = 100;
const holdTimes = [3, 5, 10, 30, 60, 600]; // seconds
const kept = "seats"; // see recall

/** show shows the sale and two buyers, and keeps both up to date until the signal aborts. */
export async function show(box, signal) {
  const [{ holds }, categories] = await Promise.all([call("/api/strategies", { signal }),
    call("/api/categories", { signal })]);
  // The state of the sale: the list of its holds and its audit, once there is a sale.
  const state = { list: null, audit: null, known: Object.values(categories).flat().includes(sku) };
  const clock = newClock();
  const sale = newSale(holds, (known) => {
    state.known = known;
    return look();
  });
  const site = {
    sku,
    signal,
    clock,
    look,
    refused: sale.refused,
    stage: () => state.list?.strategy || sale.stage(),
    list: () => state.list,
  };
  const lanes = ["Ann", "Bob"].map((name, i) => newLane(name, i, site));
  const units = newUnits();
  const books = newBooks();
  box.append(el("p.lead", t("seats.lead")), sale.node, books.verdict,
    el("div.counter", lanes.map(({ node }) => node)),
    el("section.panel", { "aria-label": t("seats.units") }, el("h2", t("seats.units")), units.node,
      el("h2", t("shop.books")), el("p.small", t("seats.books.about")), books.node));

  function draw() {
    for (const lane of lanes) lane.draw();
    if (!state.list) return;
    const owner = ownerOf(lanes);
    sale.draw(state.list, state.audit);
    units.draw(state.list, owner);
    books.draw(state, owner);
  }

  async function look() {
    if (!state.known || signal.aborted) return;
    try {
      const [list, audit] = await Promise.all([clock.timed(() => call(`/api/audit/${sku}/holds`), ({ now }) => now),
        call(`/api/audit/${sku}`)]);
      Object.assign(state, { list, audit });
      box.classList.remove("stale");
    } catch (error) {
      box.classList.add("stale"); // until the next reply
      if (error.status >= 400 && error.status < 500) {
        state.known = false; // every further request would be refused
        sale.refused(error);
      }
    }
    draw();
  }

  const end = [every(500, look), every(100, () => lanes.forEach((lane) => lane.tick()))];
  signal.addEventListener("abort", () => end.forEach((stop) => stop()));
  draw();
}

/** newSale makes the form that puts the units on sale. begun is called when a sale may have begun. */
function newSale({ default: usual, stages }, begun) {
  const before = recall(kept) ?? { stage: usual, seconds: 10, stock: 1 };
  const option = (value, text, chosen) => el("option", { value, selected: value === chosen }, text);
  const choice = el("select", { id: "stage", onchange: describe },
    stages.map(({ name }) => option(name, name, before.stage)));
  const about = el("p.small");
  const stock = el("input", {
    id: "units",
    type: "number",
    min: 1,
    max: mostUnits,
    value: before.stock,
    required: true,
  });
  const seconds = el("select", { id: "hold-seconds" },
    holdTimes.map((n) => option(n, t("seats.seconds", { n }), before.seconds)));
  const secret = tokenField("seats-token");
  const told = el("p.told", { role: "alert" });
  const now = el("p.small.onsale");

  function describe() {
    put(about, lesson(stages.find((stage) => stage.name === choice.value)));
  }

  function refused(error) {
    told.textContent = error.message;
    secret.refused(error);
  }

  async function offer() {
    const chosen = { stage: choice.value, seconds: Number(seconds.value), stock: Number(stock.value) };
    store(kept, chosen);
    told.textContent = "";
    try {
      const body = { ...offers, stock: chosen.stock, hold_seconds: chosen.seconds };
      await call(`/api/items/${sku}`, { method: "PUT", body });
      say(t("shop.offered"));
      await begun(true);
    } catch (error) {
      refused(error);
    }
  }

  describe();
  const labelled = (label, input) => el("div.field", el("label", { for: input.id }, label), input);
  secret.input.addEventListener("change", () => begun(true));
  return {
    node: el("form.panel.seatform", { onsubmit: submitted(offer), "aria-label": t("seats.sale") },
      el("div.fields", labelled(t("seats.stage"), choice), labelled(t("shop.stock"), stock),
        labelled(t("seats.lasts"), seconds), el("button.primary", { type: "submit" }, t("shop.offer"))), about,
      secret.node, told, now),
    refused,
    stage: () => choice.value,
    draw({ strategy }, { initial }) {
      told.textContent = "";
      const values = { n: initial, stage: strategy || choice.value };
      now.textContent = t("seats.onsale", values);
    },
  };
}

/** ownerOf returns the buyer of a hold. If the stage has forgotten the hold, this page's buyers are searched. */
const ownerOf = (lanes) => ({ id, buyer }) => buyer || lanes.map((lane) => lane.had(id)).find(Boolean);

/** newUnits makes the table of the units and their owners. */
function newUnits() {
  const body = el("tbody");
  const titles = ["buyer", "unit", "order", "money"].map((name) => [t(`seats.unit.${name}`)]);
  const line = (hold, owner) =>
    el("tr", { "data-hold": hold.id, "data-status": hold.status },
      el("th", { scope: "row" }, owner(hold) || t("seats.somebody")),
      el("td", standing(hold)), el("td", hold.order && el("code", { title: hold.id }, `…${hold.id.slice(-8)}`)),
      el("td", (hold.payments ?? []).map((payment) => el("div", money(payment)))));
  return {
    node: scroll(t("seats.units"), el("table.rows.unitrows", head(...titles), body)),
    draw({ holds }, owner) {
      put(body, holds.length > 0
        ? holds.map((hold) => line(hold, owner))
        : el("tr", el("td.nothing", { colspan: 4 }, t("seats.nobody"))));
    },
  };
}

/** standing shows the state of a unit. */
function standing(hold) {
  const { status, order } = hold;
  if (order) return el("strong", t("seats.unit.sold"));
  const until = hold.expires_at && clockTime(hold.expires_at);
  return el("span", t(`seats.unit.${status}`, { until }));
}

/** money shows the state of a payment. */
export const money = ({ amount, currency, status }) =>
  t(`payment.${status}`, {
    amount: (amount / 100).toLocaleString(document.documentElement.lang, { style: "currency", currency }),
  });

/** newBooks makes the figures of the audit, and the verdict on them. */
function newBooks() {
  const node = el("dl.books");
  const verdict = el("p.outcome.verdict", { role: "status" });
  return {
    node,
    verdict,
    draw({ list, audit }, owner) {
      const { initial, remaining, held, sold, oversold, stranded } = audit;
      const figures = [["initial", initial], ["remaining", remaining], ["held", held], ["sold", sold], ["oversold",
        oversold, oversold > 0], ["stranded", stranded]];
      if (list.books) {
        const { captured, refunded, charged_without_order: open } = list.books;
        figures.push(["captured", captured], ["refunded", refunded], ["unsettled", open, open > 0]);
      }
      put(node, figures.map(([name, value, alarm]) => fact(`books.${name}`, value, alarm)));
      const [kind, text] = judged(list, audit, owner);
      verdict.className = `outcome verdict ${kind}`;
      retell(verdict, text);
    },
  };
}

/** judged returns the kind and the text of the verdict on the figures. */
function judged({ holds, books }, { initial, sold, oversold, lost_updates: again }, owner) {
  const names = holds.filter(({ order }) => order).map(owner).reverse();
  const [known, n] = [names.every(Boolean), names.length];
  if (oversold > 0) {
    const values = { sold, initial, n, names: names.join(t("page.and")) };
    return ["bad", t(known ? "seats.verdict.oversold" : "seats.verdict.oversold.forgotten", values)];
  }
  if (again > 0) return ["bad", t("seats.verdict.again", { n: again })];
  if (books?.charged_without_order > 0) {
    return ["open", t("seats.verdict.unsettled", { n: books.charged_without_order })];
  }
  if (books?.refunded > 0) return ["good", t("seats.verdict.refunded", { sold, initial, n: books.refunded })];
  if (sold === 0) return ["open", t("seats.verdict.none")];
  return ["good", t("seats.verdict.good", { sold, initial })];
}
