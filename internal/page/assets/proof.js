// The results of the search through every schedule: for each strategy and goal the shortest one, or a proof of
// impossibility.

import { call, hasShop, wantsToken } from "./api.js";
import { byCommand, el, every, head, put, say, scroll, submitted, tokenField } from "./dom.js";
import { seconds } from "./picture.js";
import { number, t } from "./text.js";

const goalName = (goal) => t(`proof.goal.${goal}`);

/** inWords describes the moves of a schedule: A · A, reply lost · 3 s pass · B. */
const inWords = (moves) => moves.split(".").filter(Boolean).map(word).join(" · ");

/** word describes a move. A move that begins with a buyer sends a command: the buyer's second one has a number. */
function word(move) {
  const [, kind, of] = /^([pflkt]?)(.+)$/.exec(move);
  const values = { name: of, time: kind === "p" && seconds(Number(of)) };
  return kind ? t(`move.${kind}`, values) : of;
}

/** newProof makes the panel for a level, with the table of all strategies. play replays a schedule. */
export function newProof(record, play) {
  const { goals, results } = record;
  const mine = el("div.answer.recorded");
  const recorded = ({ strategy, buyers }) => results.find((r) => r.strategy === strategy && r.buyers === buyers);
  let shown = { strategy: "", buyers: 0 };

  /** list makes the list of the results for each goal. */
  const list = (result) => [
    el("dl.books.proof",
      goals.map((goal) =>
        el("div", el("dt", goalName(goal)),
          el("dd", cell(result, goal, play), " ", el("span.moves", inWords(result.breaks[goal] ?? ""))))
      )),
    result.not_applicable && el("p.small", t("proof.na.why")),
  ];

  const again = newSearch(() => shown, (level) => recorded(level), goals, list);
  const node = el("details.panel.finding", el("summary", el("h2", t("proof.title"))),
    el("p.small", t("proof.about")), mine, again.nodes,
    el("details.proofs", el("summary", t("proof.all")), allProofs(record, play)));
  return {
    node,
    /** open shows the panel. */
    open() {
      node.open = true;
      node.scrollIntoView({ block: "start" });
    },
    /** level shows the recorded result for a level, ends the search of another level, and returns the level. */
    level(level) {
      const { strategy, buyers } = level;
      if (strategy === shown.strategy && buyers === shown.buyers) return level;
      again.clear();
      shown = { strategy, buyers };
      const result = recorded(shown);
      const found = result &&
        [el("p", el("strong", t("proof.of", { strategy, states: result.states }))), ...list(result)];
      put(mine, found ?? el("p", t("proof.unrecorded")));
      return level;
    },
    close: again.clear,
  };
}

/** allProofs makes the table of all strategies and goals. A click on a schedule calls play, or follows its link. */
export function allProofs(record, play = null) {
  return [scroll(t("proof.all"), proofTable(record, play)), el("p.small", t("proof.na.why"))];
}

function proofTable({ goals, results }, play) {
  const row = (result) =>
    el("tr", el("th", { scope: "row" }, result.strategy), el("td", result.buyers),
      goals.map((goal) => el("td", cell(result, goal, play))), el("td", number(result.states)));
  return el("table.proofs",
    head([t("proof.strategy")], [t("proof.buyers")], ...goals.map((goal) => [goalName(goal)]), [t("proof.states")]),
    el("tbody", results.map(row)));
}

/** cell makes the result for one goal: the schedule, which can be replayed, or a mark. */
function cell({ strategy, buyers, breaks, cut, not_applicable: none = [] }, goal, play) {
  const moves = breaks[goal];
  if (none.includes(goal)) return el("span.mark.na", { title: t("proof.na.why") }, t("proof.na"));
  if (moves === undefined) {
    return cut ? el("span.mark.unknown", t("proof.open")) : el("span.mark.holds", t("proof.impossible"));
  }
  const n = moves.split(".").length;
  return el("a.mark.breaks", {
    href: `#/play/${strategy}/${moves}${buyers === 2 ? "" : `?buyers=${buyers}`}`,
    "aria-label": `${strategy}, ${goalName(goal)}: ${t("proof.play", { n })}`,
    title: inWords(moves),
    onclick(event) {
      if (!play || event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      play({ strategy, buyers, moves });
    },
  }, "▶ ", t("play.moves", { n }));
}

/** newSearch makes the button that searches a level again, and shows the result. */
function newSearch(level, recorded, goals, list) {
  const found = el("div.answer.again", { role: "status", "aria-live": "polite" });
  let searching = null; // an AbortController
  let stopAsking = () => {};

  function stop() {
    searching?.abort();
    stopAsking();
  }

  async function search() {
    stop();
    const mine = searching = new AbortController();
    const { signal } = mine;
    const asked = level();
    const bar = el("progress", { "aria-label": t("proof.again") });
    const count = el("span.small");
    put(found, el("p.pair", bar, count, el("button", { onclick: stop }, t("play.search.stop"))));
    stopAsking = every(500, async () => {
      const far = await call("/api/schedule/progress", { signal }).catch(() => null);
      if (far?.strategy !== asked.strategy || far.buyers !== asked.buyers) return; // another search
      bar.max = recorded(asked)?.states ?? far.states + far.open;
      bar.value = far.states - far.open;
      count.textContent = t("proof.far", far);
    });
    try {
      tell(await call(`/api/schedule/search?${new URLSearchParams(asked)}`, { signal }));
    } catch (error) {
      if (error.name !== "AbortError") put(found, el("p.alarm", error.message), wantsToken(error) && askToken(search));
      else if (mine === searching) put(found);
    }
    if (mine === searching) stopAsking();
  }

  /** tell shows the result of a search, and whether it equals the recorded one. */
  function tell(result) {
    const before = recorded(result);
    const same = before && before.states === result.states && goals.every((g) => before.breaks[g] === result.breaks[g]);
    const kind = result.cut ? "cut" : same ? "same" : before ? "other" : "new";
    const words = { states: result.states, seconds: result.wall_ms / 1000, before: before?.states };
    const sentence = t(`proof.${kind}`, words);
    put(found, el("p", el("strong", sentence)), kind !== "same" && list(result));
    say(sentence);
  }

  const again = () => el("p.pair", el("button", { onclick: search }, t("proof.again")));
  return {
    nodes: [hasShop ? again() : byCommand("site.search", "go run ./cmd/lab -search all"), found],
    /** clear ends a search, whose result would belong to another level. */
    clear() {
      stop();
      put(found);
    },
  };
}

/** askToken makes a form for the token that a search needs. */
function askToken(again) {
  return el("form.pair", { onsubmit: submitted(again) }, tokenField("search-token", false).node,
    el("button", { type: "submit" }, t("play.search.again")));
}
