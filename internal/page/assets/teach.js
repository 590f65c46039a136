// A lesson of 45 minutes: what to show, what to ask, and an exercise whose answer is a schedule. The arrow keys step.

import { call } from "./api.js";
import { el, put } from "./dom.js";
import { t } from "./text.js";

// Each step has five minutes. Its exercise is a goal of a strategy, of which the record has the shortest schedule.
const steps = [
  { id: "none", show: "#/shop/class", exercise: ["none", "oversell"] },
  { id: "local", show: "#/break/local-mutex-across-instances/local", exercise: ["local", "oversell"] },
  { id: "setnx", show: "#/break/orphan-after-crash/v1_setnx", exercise: ["v1_setnx", "stuck"] },
  { id: "ttl", show: "#/break/foreign-delete/v2_ttl", exercise: ["v2_ttl", "foreign-delete"] },
  { id: "uuid", show: "#/break/check-then-delete/v3_uuid", exercise: ["v3_uuid", "foreign-delete"] },
  { id: "lease", show: "#/break/expires-while-held/v5_reentrant", exercise: ["v5_reentrant", "oversell"] },
  { id: "watchdog", show: "#/break/paused-writer/v6_watchdog", exercise: ["v6_watchdog", "oversell"] },
  { id: "fence", show: "#/break/paused-writer/v8_fenced", exercise: ["v8_fenced", "oversell"] },
  { id: "money", show: "#/shop/seats", exercise: null },
];

const minutes = 5; // of a step

const stepOf = ({ of: [name] }) => Math.max(0, steps.findIndex(({ id }) => id === name));

/** show shows the step of the address. */
export async function show(box, at, page) {
  const { signal } = page;
  const record = await call("/api/schedule/record", { signal });
  const list = el("ol.lessons", steps.map(({ id }, i) =>
    el("li", el("a.level", { href: `#/teach/${id}`, "data-step": i }, t(`teach.${id}.title`)))));
  const inner = el("article.lesson.panel", { "aria-live": "polite" });
  let shown = 0;
  box.append(el("h1", t("teach.title")), el("p.lead", t("teach.lead", { n: steps.length * minutes })),
    el("div.teachroom", list, inner));

  function update(next) {
    shown = stepOf(next);
    for (const link of list.querySelectorAll("a")) {
      if (Number(link.dataset.step) === shown) link.setAttribute("aria-current", "step");
      else link.removeAttribute("aria-current");
    }
    page.title(t(`teach.${steps[shown].id}.title`));
    put(inner, ...lesson(steps[shown], shown, record));
  }

  /** turn goes to the next step or the one before. */
  function turn({ key, altKey, ctrlKey, metaKey, target }) {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[key];
    if (!by || altKey || ctrlKey || metaKey || target.closest("input, select, textarea")) return;
    const to = steps[shown + by];
    if (to) location.hash = `#/teach/${to.id}`;
  }

  document.addEventListener("keydown", turn);
  signal.addEventListener("abort", () => document.removeEventListener("keydown", turn));
  update(at);
  return { update };
}

/** lesson is what a step has to say. The question's answer is folded, as the projector shows it to everybody. */
function lesson({ id, show, exercise }, i, record) {
  const turn = (to, text) => to && el("a.level", { href: `#/teach/${to.id}` }, text);
  return [el("p.small", t("teach.time", { from: i * minutes, to: (i + 1) * minutes })),
    el("h2", t(`teach.${id}.title`)), el("h3", t("teach.show")),
    el("p", t(`teach.${id}.show`), " ", el("a", { href: show }, t("teach.open"))), el("h3", t("teach.ask")),
    el("p.question", t(`teach.${id}.ask`)),
    el("details", el("summary", t("teach.answer")), el("p", t(`teach.${id}.answer`))),
    ...(exercise ? exerciseOf(exercise, record) : []),
    el("nav.pair", { "aria-label": t("teach.steps") }, turn(steps[i - 1], `← ${t("teach.before")}`),
      turn(steps[i + 1], `${t("teach.next")} →`))];
}

/** exerciseOf is a goal to be reached in the scheduler, and the shortest schedule that reaches it, if there is one. */
function exerciseOf([strategy, goal], { results }) {
  const { breaks, states } = results.find((r) => r.strategy === strategy && r.buyers === 2);
  const moves = breaks[goal];
  const level = el("a", { href: `#/play/${strategy}` }, strategy);
  const solution = moves === undefined
    ? el("p", t("teach.impossible", { states }))
    : el("p", el("a", { href: `#/play/${strategy}/${moves}` }, el("code", moves)));
  return [el("h3", t("teach.exercise")),
    el("p", t("teach.reach"), " ", level, " · ", el("strong", t(`proof.goal.${goal}`))),
    el("details", el("summary", t("teach.answer")), solution)];
}
