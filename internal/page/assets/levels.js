// The levels of the game: the goal of each, its hints, and whether it is won.

import { el, put } from "./dom.js";
import { knows, named, remember, remembered, t, told } from "./text.js";

const wonLevels = "won.goals"; // the levels that were won in this browser
const mostHints = 2; // of each level; then the shortest schedule can be shown

const goalName = (goal) => t(`proof.goal.${goal}`);
const movesOf = (text) => (text ? text.split(".").length : 0);
const won = () => (remembered(wonLevels) ?? "").split(",").filter(Boolean);

/** shortOf returns the short name of a level's strategy, for its button. */
const shortOf = (name) => name.match(/v\d+/)?.[0] ?? name;

/** allowed reports whether a level can be won by some moves. A faultless level must be won without a fault. */
export const allowed = ({ faultless }, moves) => !faultless || !moves.split(".").some((move) => /^[fkl]/.test(move));

/** winLevel remembers a level as won. */
export function winLevel({ strategy, goal }) {
  const name = `${strategy}:${goal}`;
  if (!won().includes(name)) remember(wonLevels, [...won(), name].join(","));
}

/** newGame keeps the levels, with the recorded result of each. */
export function newGame(game, record) {
  return {
    levels: game,
    /** of returns the level of a strategy; for a strategy without one the goal is a unit sold twice. */
    of({ strategy, buyers }) {
      const number = game.findIndex((level) => level.strategy === strategy) + 1;
      const { goal = "oversell", faultless = false } = game[number - 1] ?? {};
      const result = record.results.find((r) => r.strategy === strategy && r.buyers === buyers);
      const best = result?.breaks[goal];
      const impossible = result && !result.cut && best === undefined;
      return { strategy, buyers, goal, faultless, number, result, best, impossible, goals: record.goals };
    },
    next: (number) => game[number]?.strategy,
    /** named returns the strategy of the level whose button has this name, if there is one. */
    named: (name) => game.find(({ strategy }) => shortOf(strategy) === name)?.strategy,
  };
}

/** newLevels makes the row of levels, and the choice of all strategies. */
export function newLevels(strategies, game, act) {
  const chips = el("div.levels", { role: "group", "aria-label": t("play.level") });
  const all = el("select", { "aria-label": t("play.free"), onchange: () => all.value && act.level(all.value) },
    el("option", { value: "" }, t("play.free")), strategies.map((name) => el("option", { value: name }, name)));
  const crowd = el("select", { "aria-label": t("play.buyers"), onchange: () => act.crowd(Number(crowd.value)) },
    [2, 3].map((n) => el("option", { value: n }, t("play.crowd", { n, units: n - 1 }))));
  const star = () => el("span.won", { title: t("play.won") }, "★");
  return {
    node: el("div.gamebar", el("h1", t("play.title")), chips, all),
    crowd,
    show({ strategy, buyers }) {
      const done = won();
      put(chips,
        game.levels.map(({ strategy: name, goal }, i) =>
          el("button", {
            "aria-pressed": String(name === strategy),
            title: `${name}: ${t(`play.level.${name}.title`)}`,
            onclick: () => act.level(name),
          }, el("b", i + 1), ` ${shortOf(name)}`, done.includes(`${name}:${goal}`) && star())
        ));
      all.value = game.levels.some((level) => level.strategy === strategy) ? "" : strategy;
      crowd.value = buyers;
    },
  };
}

/** newCard makes the card with the goal of a level and its progress. */
export function newCard(act) {
  const head = el("div.goalhead");
  const verdict = el("div.standingline", { role: "status", "aria-live": "polite" });
  const help = newHelp(act, claim);
  const node = el("section.goalcard.panel", { "aria-label": t("play.goal") }, head,
    verdict, help.hints);
  let level = null;
  let claimed = ""; // the claim that the goal is impossible: "why" while the reason is asked for, or "proved"

  function mark(kind, ...said) {
    verdict.className = `standingline ${kind}`;
    node.className = `goalcard panel ${kind}`;
    put(verdict, ...said.filter(Boolean));
  }

  /** claim shows whether the engine has found that the goal is impossible. */
  function claim() {
    const { best, impossible, result } = level;
    if (!impossible) {
      const n = movesOf(best);
      return mark("open", el("strong", n > 0 ? t("play.claim.wrong", { n }) : t("play.claim.unknown")));
    }
    if (claimed !== "proved") return mark("open", ...whyNot());
    act.won(level);
    const others = Object.entries(result.breaks).map(([other, moves]) =>
      el("button", { onclick: () => act.show({ ...level, moves }) }, `▶ ${goalName(other)}`)
    );
    mark("won", el("strong", t("play.claim.right", { states: result.states })), lesson(level),
      others.length > 0 && el("p.pair.small", t("play.possible"), others), nextLevel(level, act));
  }

  /** whyNot asks for the reason, so that a claim alone does not win. */
  function whyNot() {
    claimed = "why";
    const no = el("p.also", { role: "alert" });
    const choose = (reason) => {
      if (reason !== why) return void put(no, t(`play.reason.${reason}.no`));
      claimed = "proved";
      claim();
    };
    const choice = (reason) => el("button", { onclick: () => choose(reason) }, t(`play.reason.${reason}`));
    return [el("strong", t("play.claim.why")), el("p.pair.reasons", reasons.map(choice)), no];
  }

  return {
    node,
    help: help.buttons,
    show(next, adds) {
      if (next.strategy !== level?.strategy || next.buyers !== level?.buyers) claimed = "";
      level = next;
      const numbered = isLevel(level) && t("play.numbered", { n: level.number, title: say(level, "title") });
      const goal = isLevel(level) ? say(level, "goal") : t("play.freegoal");
      put(head, el("h2", numbered || level.strategy), el("p.goal", goal), el("p.small.adds", adds),
        explored(level, act));
      help.show(level);
    },
    /** state shows the progress of a schedule, and returns whether the goal is reached. */
    state(state) {
      const n = movesOf(state.moves);
      if (n > 0) claimed = "";
      if (claimed) return false;
      const reached = state.reached.includes(level.goal) && allowed(level, state.moves);
      if (reached) mark("won", ...done(level, n, wordsOf(state)), nextLevel(level, act));
      else mark(state.verdict.outcome === "over" ? "over" : "open", ...standing(level, n, state));
      return reached;
    },
    blank: () => mark(""),
    failed(error) {
      const refused = error.status === 400; // otherwise the schedule was not judged
      mark("failed", ...(refused ? [el("strong", t("play.impossible")), " ", error.detail] : [error.message]));
    },
  };
}

const isLevel = ({ number }) => number > 0;

const reasons = ["alone", "late", "renewed"]; // why a level cannot be won
const why = "late";

/** explored says what no schedule leads to. In a level, it does not reveal the answer. */
function explored(level, act) {
  const { states, cut, breaks, not_applicable: none = [] } = level.result ?? { cut: true };
  if (cut) return null;
  const not = (goal) => breaks[goal] === undefined && !none.includes(goal);
  const never = level.goals.filter(not).map(goalName).join("; ");
  const said = isLevel(level) || !never ? t("play.explored", { states }) : t("play.never", { states, never });
  return el("p.small.explored", said, " ", el("button", { onclick: act.proof }, t("play.explored.show")));
}
const say = ({ strategy }, part) => t(`play.level.${strategy}.${part}`);
const lesson = (level) => isLevel(level) && el("p.lesson", say(level, "win"));

/** nextLevel makes the button that leads to the level after this one, if there is one. */
function nextLevel({ number }, act) {
  const next = number > 0 && act.next(number);
  return next && el("button.primary.next", { onclick: () => act.level(next) }, t("play.next"), " →");
}

/** notes lists the kinds of findings that the verdict leaves out, because they need not do harm. */
const notes = ["overlap", "refused"];

/** wordsOf returns what the engine says about a state, in chronological order. It begins a sentence. */
function wordsOf({ verdict, findings, unserved = [] }) {
  const note = findings.findLastIndex(({ kind }) => notes.includes(kind));
  const harm = findings.findLastIndex(({ kind }) => !notes.includes(kind));
  const said = [told(verdict.sentence, verdict.message)];
  if (note >= 0) said.splice(note < harm ? 0 : 1, 0, told(findings[note].text, findings[note].message));
  if (unserved.length > 0) said.push(t("play.unserved", { names: unserved.join(t("page.and")) }));
  const words = said.join(t("play.then"));
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/** done returns the text for a schedule that has reached the goal. */
function done(level, n, words) {
  const least = movesOf(level.best);
  const count = least > 0 ? t("play.done.best", { n, least }) : t("play.done", { n });
  return [el("strong", "★ ", count), " ", words, lesson(level)];
}

/** standing returns the text for a schedule that has not reached the goal. */
function standing(level, n, state) {
  const also = state.reached.map(goalName).join(t("page.and"));
  const least = movesOf(level.best);
  const count = least > 0 ? t("play.moves.best", { n, least }) : t("play.moves", { n });
  const outcome = state.verdict.outcome === "over" ? "over" : "open";
  const words = n > 0 ? [el("strong", t(`play.outcome.${outcome}`)), " ", wordsOf(state)] : [t("play.begin")];
  const but = allowed(level, state.moves) ? also && t("play.also", { what: also }) : t("play.faultless");
  return [...words, el("span.small", ` · ${count}`), but && el("p.also", but)];
}

/** newHelp makes the hints of a level, shown one by one, and the button to claim that its goal is impossible. */
function newHelp(act, claim) {
  const hints = el("ol.hints", { "aria-live": "polite" });
  const hint = el("button", { onclick: nextHint });
  const give = el("button", { onclick: claim }, t("play.claim"));
  let level = null;

  function draw() {
    const given = hints.children.length;
    hint.hidden = give.hidden = !isLevel(level);
    hint.disabled = given === mostHints && !level.best;
    hint.textContent = given < mostHints ? t("play.hint", { n: given + 1, of: mostHints }) : t("play.show");
  }

  function nextHint() {
    const given = hints.children.length;
    if (given === mostHints) return act.show({ ...level, moves: level.best });
    hints.append(el("li", say(level, `hint${given + 1}`)));
    draw();
  }

  return {
    hints,
    buttons: [hint, give],
    show(next) {
      if (next.strategy !== level?.strategy) put(hints);
      level = next;
      draw();
    },
  };
}

/** addsOf returns what a strategy adds to the one before it. */
export function addsOf(name, strategies) {
  const plain = name.replace(/^nested_/, "");
  const strategy = strategies.find((s) => s.name === plain);
  const own = knows(`play.about.${name}`) ? t(`play.about.${name}`) : "";
  const adds = strategy ? `${plain}: ${named(`strategy.${plain}.adds`, strategy.adds)}` : "";
  return [adds, own].filter(Boolean).join(" · ");
}
