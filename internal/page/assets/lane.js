// One buyer of a sale with a payment.

import { call, key } from "./api.js";
import { el, put, retell, say } from "./dom.js";
import { recall, store } from "./tab.js";
import { t } from "./text.js";

const faults = { none: 0, slow_bank: 9, lost_reply: 60, slow_shop: 4 }; // each with its maximum number of seconds
const usual = 4; // seconds
const lastSecond = 1000; // milliseconds before the hold ends
const mostHad = 50; // holds

const tenths = (ms) => (Math.ceil(ms / 100) / 10).toFixed(1);

/** left returns the number of milliseconds that are left of a buyer's hold. */
const left = ({ hold }, clock) => (hold ? Date.parse(hold.expires_at) - clock.now() : 0);

/**
 * newLane makes the i-th buyer. The state of the buyer's hold is read from the list of the sale; only the hold's id
 * and token are kept in the lane.
 */
export function newLane(usualName, i, site) {
  const stored = `lane${i}`;
  const lane = { name: usualName, hold: null, had: {}, fault: "none", seconds: usual, ...recall(stored) };
  const keep = () => store(stored, lane);
  const view = newView(lane, i, { act: during, keep });
  let busy = ""; // what the buyer waits for
  let running = ""; // the hold whose time is running

  const listed = () => site.list()?.holds.find(({ id }) => id === lane.hold?.id);
  const phase = () => phaseOf(lane.hold, listed(), left(lane, site.clock));

  /** during runs a task that the buyer waits for, and shows its result. */
  async function during(what) {
    if (busy) return;
    const now = (name) => {
      busy = name;
      view.tell("", t(`lane.busy.${name}`));
      draw();
    };
    now(what);
    try {
      view.tell("good", await acts[what](lane, site, now));
    } catch (error) {
      view.tell("bad", error.message);
      if (error.status === 401) site.refused(error);
    }
    busy = "";
    keep();
    await site.look();
    draw();
  }

  function draw() {
    const list = site.list();
    if (lane.hold && listed()) lane.hold.sale = list.sale_id;
    if (lane.hold && list && lane.hold.sale !== list.sale_id && !busy) {
      lane.hold = null; // the hold belongs to a sale that is over
      view.tell("", "");
      keep();
    }
    view.draw(phase(), listed(), busy, list);
    tick();
  }

  /** tick shows the time that is left, and says once that it is over. */
  function tick() {
    const ms = left(lane, site.clock);
    const now = phase();
    view.count(["held", "paying", "charged", "expired"].includes(now) ? tenths(Math.max(0, ms)) : "", ms <= 0);
    if (now === "held" && ms > 0) running = lane.hold.id;
    if (ms > 0 || !lane.hold || running !== lane.hold.id) return;
    running = "";
    if (["held", "paying", "charged", "expired"].includes(now)) say(t("lane.ranout", { name: lane.name }));
    draw();
  }

  return { node: view.node, draw, tick, had: (id) => lane.had[id] };
}

/** acts holds the actions of a buyer. Each returns a message for the buyer, or throws. */
const acts = { hold, pay, last, extend, release, cancel };

async function hold(lane, { sku, stage, list }) {
  const got = await call(`/api/items/${sku}/holds?strategy=${encodeURIComponent(stage())}`, {
    method: "POST",
    body: { buyer: lane.name, quantity: 1 },
    headers: { "Idempotency-Key": key() },
  });
  lane.hold = { ...got, key: key(), spoilt: false, sale: list().sale_id };
  lane.had = Object.fromEntries([...Object.entries(lane.had), [got.id, lane.name]].slice(-mostHad));
  return t("lane.held");
}

async function pay(lane, site) {
  await spoil(lane, site);
  const { id, token, key: once } = lane.hold;
  const headers = { "Idempotency-Key": once };
  const order = await call(`/api/holds/${id}/pay`, { method: "POST", body: { token }, headers });
  return t("lane.ordered", { order: order.order_id.slice(-8) });
}

/** spoil makes the payment go wrong as chosen. */
async function spoil(lane, { clock, list }) {
  const { id, token, spoilt } = lane.hold;
  const chosen = lane.fault !== "none";
  if (!list().faults || left(lane, clock) <= 0 || (!chosen && !spoilt)) return;
  const seconds = Math.min(lane.seconds, faults[lane.fault]);
  await call(`/api/holds/${id}/fault`, { method: "PUT", body: { token, fault: lane.fault, seconds } });
  lane.hold.spoilt = chosen;
}

/** last pays in the last second of the hold. */
async function last(lane, site, now) {
  while (left(lane, site.clock) > lastSecond) {
    await new Promise((done) => setTimeout(done, 20));
    site.signal.throwIfAborted();
  }
  now("pay");
  return pay(lane, site);
}

/** extend lets the hold expire later, up to what the shop allows. */
async function extend({ hold }) {
  const { id, token } = hold;
  const { expires_at } = await call(`/api/holds/${id}/extend`, { method: "POST", body: { token } });
  hold.expires_at = expires_at;
  return t("lane.extended");
}

async function release({ hold: { id, token } }) {
  await call(`/api/holds/${id}?token=${token}`, { method: "DELETE" });
  return t("lane.released");
}

/** cancel ends the order, which has the id of its hold. */
async function cancel({ hold }) {
  const { id, token } = hold;
  await call(`/api/orders/${id}/cancel`, { method: "POST", body: { token } });
  hold.cancelled = true; // the refund is final; a stage may forget the hold
  return t("lane.cancelled");
}

/**
 * phaseOf returns the phase of a hold in the shop's list. A hold that is not listed was made a moment ago,
 * or its stage has forgotten that it ended.
 */
function phaseOf(hold, listed, left) {
  if (!hold) return "none";
  const money = (listed?.payments ?? []).map(({ status }) => status);
  if (listed?.order) return "order";
  if (hold.cancelled) return "cancelled";
  if (listed?.status === "cancelled") return money.includes("refunded") ? "cancelled" : "cancelling";
  if (money.includes("captured")) return "charged";
  if (money.includes("authorised")) return "paying";
  if (money.includes("refunded") || money.includes("cancelled")) return "refunded";
  if (listed?.status === "released") return "released";
  return left > 0 ? "held" : "expired";
}

/** allowed returns which of the actions make sense. An expired hold may be paid: the shop must refuse it. */
const allowed = {
  hold: (phase) => ["none", "order", "refunded", "released", "expired", "cancelling", "cancelled"].includes(phase),
  pay: (phase) => ["held", "expired", "paying", "charged"].includes(phase),
  last: (phase) => phase === "held",
  extend: (phase) => phase === "held",
  release: (phase) => phase === "held",
  cancel: (phase) => ["order", "cancelling"].includes(phase),
};

/** newView makes the view of a buyer. */
function newView(lane, i, { act, keep }) {
  const mark = el("span.mark.status");
  const digits = el("strong.units");
  const timer = el("p.countdown", { role: "timer", "aria-live": "off" }, digits, " ", t("lane.left"));
  const says = el("p.says");
  const outcome = el("div.outcome", { role: "status", "aria-live": "polite" });
  const button = (name) =>
    el("button", { type: "button", "data-act": name, onclick: () => act(name) }, t(`lane.${name}`));
  const buttons = Object.fromEntries(Object.keys(acts).map((name) => [name, button(name)]));
  buttons.pay.classList.add("primary");
  const disable = disabler(buttons);
  const trouble = newTrouble(lane, i, keep);
  const named = newName(lane, i, keep);
  const node = el(`section.panel.buyer.lane.a${i}`, { "aria-label": t("lane.buyer", { n: i + 1 }) },
    el("h2", named, mark), timer, says, el("div.pair", Object.values(buttons)), trouble.node, outcome);
  return {
    node,
    draw(phase, listed, busy, list) {
      const doing = busy === "pay" && phase === "held" ? "paying" : phase;
      mark.textContent = t(`lane.phase.${doing}`);
      mark.className = `mark status ${doing}`;
      const order = listed?.order?.order_id.slice(-8) ?? "";
      put(says, list ? t(`lane.says.${doing}`, { order }) : t("lane.says.first"));
      disable((name) => !list || busy !== "" || !allowed[name](phase));
      trouble.draw(list);
    },
    count(text, over) {
      timer.classList.toggle("unshown", text === "");
      timer.classList.toggle("over", over);
      retell(digits, text);
    },
    tell(kind, text) {
      outcome.className = `outcome ${kind}`;
      outcome.textContent = text;
    },
  };
}

/**
 * disabler returns a function that disables some buttons and enables the others. A disabled button loses the focus,
 * which moves to the next possible action, as soon as there is one.
 */
function disabler(buttons) {
  let lost = false;
  return (off) => {
    lost ||= Object.values(buttons).includes(document.activeElement) && !document.activeElement.disabled
      && off(document.activeElement.dataset.act);
    for (const [name, button] of Object.entries(buttons)) button.disabled = off(name);
    const next = ["pay", "hold"].find((name) => !off(name));
    if (!lost || !next) return;
    lost = false;
    if (document.activeElement === document.body || document.activeElement.disabled) buttons[next].focus();
  };
}

/** newName makes the field for the buyer's name. */
function newName(lane, i, keep) {
  const form = { id: `lane${i}-name`, maxlength: 20, pattern: "[!-~]+", required: true, value: lane.name, size: 8 };
  const input = el("input.who", { ...form, autocomplete: "off", "aria-label": t("lane.name"), onchange: take });
  function take() {
    if (input.checkValidity()) lane.name = input.value;
    else input.value = lane.name;
    keep();
  }
  return input;
}

/** newTrouble makes the choice of what goes wrong with the payment. */
function newTrouble(lane, i, keep) {
  const name = `lane${i}-fault`;
  const option = (fault) => el("option", { value: fault, selected: fault === lane.fault }, t(`lane.fault.${fault}`));
  const choice = el("select", { id: name, onchange: take }, Object.keys(faults).map(option));
  const seconds = el("input", { id: `${name}-seconds`, type: "number", min: 1, required: true, onchange: take });
  const times = el("span.pair", seconds, " ", el("label", { for: seconds.id }, t("lane.seconds")));
  const about = el("p.small");
  const none = el("p.small", { hidden: true }, t("lane.nofaults"));
  const node = el("div.spoil", el("label", { for: name }, t("lane.fault")), el("div.pair", choice, times), about);

  function take() {
    lane.fault = choice.value;
    const most = faults[lane.fault];
    lane.seconds = Math.max(1, Math.min(most || usual, Math.round(Number(seconds.value)) || usual));
    keep();
    draw();
  }

  function draw() {
    times.hidden = lane.fault === "none";
    seconds.max = faults[lane.fault] || usual;
    seconds.value = Math.min(lane.seconds, Number(seconds.max));
    about.textContent = t(`lane.fault.${lane.fault}.about`);
  }

  seconds.value = lane.seconds;
  draw();
  return {
    node: el("div", node, none),
    draw(list) {
      node.hidden = list !== null && !list.faults;
      none.hidden = !node.hidden;
    },
  };
}
