// A 45-minute lesson: what to show, what to ask, and an exercise whose answer is a schedule. The arrow
// keys go from step to step.

import { call } from "./api.js";
import { el, put } from "./dom.js";
import { t } from "./text.js";

// Each step takes five minutes. Its exercise is a goal of a strategy, with a schedule that reaches the goal in the way
// that the lesson explains. The record contains the shortest schedule.
const steps = [
  { id: "none", show: "#/shop/class", exercise: ["none", "oversell", "A.B.A.B"] },
  { id: "local", show: "#/break/local-mutex-across-instances/local", exercise: ["local", "oversell", "A.B.A.B"] },
  { id: "setnx", show: "#/break/orphan-after-crash/v1_setnx", exercise: ["v1_setnx", "stuck", "A.kA"] },
  { id: "ttl", show: "#/break/foreign-delete/v2_ttl", exercise: ["v2_ttl", "foreign-delete", "A.A.p3000.B.A.A"] },
  {
    id: "uuid",
    show: "#/break/check-then-delete/v3_uuid",
    exercise: ["v3_uuid", "foreign-delete", "A.A.A.A.p3000.B.A"],
  },
  {
    id: "lease",
    show: "#/break/expires-while-held/v5_reentrant",
    exercise: ["v5_reentrant", "oversell", "A.A.p3000.B.B.A.B"],
  },
  {
    id: "watchdog",
    show: "#/break/paused-writer/v6_watchdog",
    exercise: ["v6_watchdog", "oversell", "A.A.fA.p3000.B.B.B.tA.A"],
  },
  { id: "fence", show: "#/break/paused-writer/v8_fenced", exercise: ["v8_fenced", "oversell"] },
  { id: "money", show: "#/shop/seats", exercise: null },
];

const minutes = 5; // per step

let last = 0; // the step that was shown last: it is shown again when the address names no step

/** stepOf returns the step that an address names. */
const stepOf = ({ of: [name] }) => name ? Math.max(0, steps.findIndex(({ id }) => id === name)) : last;

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
    shown = last = stepOf(next);
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

/** lesson makes the text of a step. The answer is folded, because the projector shows it to everybody. */
function lesson({ id, show, exercise }, i, record) {
  const turn = (to, text) => to && el("a.level", { href: `#/teach/${to.id}` }, text);
  return [el("p.small", t("teach.time", { from: i * minutes, to: (i + 1) * minutes })),
    el("h2", t(`teach.${id}.title`)), el("h3", t("teach.show")),
    el("p", t(`teach.${id}.show`), " ", el("a", { href: show }, t("teach.open"))), el("h3", t("teach.ask")),
    el("p.question", t(`teach.${id}.ask`)),
    el("details", el("summary", t("teach.answer")), el("p", t(`teach.${id}.answer`))),
    ...(exercise ? exerciseOf(id, exercise, record) : []),
    el("nav.pair", { "aria-label": t("teach.steps") }, turn(steps[i - 1], `← ${t("teach.before")}`),
      turn(steps[i + 1], `${t("teach.next")} →`))];
}

/** exerciseOf makes the exercise: a goal in the scheduler, and the schedule that reaches it, if there is one. */
function exerciseOf(id, exercise, { results }) {
  const [strategy, goal, moves] = exercise;
  const { breaks, states } = results.find((r) => r.strategy === strategy && r.buyers === 2);
  const link = (text) => el("a", { href: `#/play/${strategy}/${text}` }, el("code", text));
  const shortest = breaks[goal];
  const solution = moves
    ? [el("p", link(moves), " ", t(`teach.${id}.moves`)),
      shortest !== moves && el("p.small", t("teach.shortest"), " ", link(shortest))]
    : [el("p", t("teach.impossible", { states }))];
  return [el("h3", t("teach.exercise")),
    el("p", t("teach.reach"), " ", el("strong", t(`proof.goal.${goal}`)), " · ",
      el("a", { href: `#/play/${strategy}` }, t("break.play", { name: strategy }))),
    el("details", el("summary", t("teach.answer")), solution)];
}
