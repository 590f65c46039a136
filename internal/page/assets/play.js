// Be the scheduler: the reader chooses who takes the next step, to reach the goal of a level. The
// whole schedule is in the address; the engine works out what it leads to.

import { call } from "./api.js";
import { booksOf, newGameBoard } from "./gameboard.js";
import { copy, el, put } from "./dom.js";
import { addsOf, allowed, newCard, newGame, newLevels, winLevel } from "./levels.js";
import { newProof } from "./proof.js";
import { expand } from "./shortname.js";
import { t } from "./text.js";
import { newTimeline } from "./timeline.js";
import { rowsOf } from "./trace.js";

const pace = 800; // milliseconds per move during a replay

/** here returns the address of a schedule. */
const here = ({ strategy, buyers, moves }) =>
  `#/play/${strategy}/${moves.join(".")}${buyers === 2 ? "" : `?buyers=${buyers}`}`;

/**
 * levelOf returns the strategy, the number of buyers and the moves in an address. A short name is that of a level
 * of the game, or else of a strategy.
 */
const levelOf = ({ of: [strategy = "none", moves = ""], query }, levels, game) => ({
  strategy: game.named(strategy) ?? expand(strategy, levels),
  buyers: Number(query.get("buyers")) || 2,
  moves: moves === "" ? [] : moves.split("."),
});

/** load loads what does not depend on the schedule. */
async function load(signal) {
  const asking = ["/api/schedule/levels", "/api/strategies", "/api/schedule/record"].map((at) => call(at, { signal }));
  const [{ levels, game }, { strategies }, record] = await Promise.all(asking);
  return { levels, strategies, record, game: newGame(game, record) };
}

/** show shows the schedule of the address. */
export async function show(box, at, page) {
  const { signal } = page;
  const { levels, strategies, record, game } = await load(signal);
  // own is the address that the reader's last move led to: opening a link does not win a level.
  const now = { level: { strategy: "", buyers: 2, moves: [] }, own: "" };
  let asked = 0; // counts the requests, so that an old reply does not replace a newer one

  const replayer = newReplayer(ask, (on) => frame.replaying(on));
  const frame = newFrame(levels, game, { ...actsOf(now, replayer), show: playFound, next: game.next, won,
    proof: () => proof.open() });
  const proof = newProof(record, playFound);
  box.append(...frame.nodes, proof.node);
  signal.addEventListener("abort", () => {
    replayer.halt();
    asked++;
    proof.close();
    frame.close();
  });

  const showLevel = () => frame.level(game.of(now.level), addsOf(now.level.strategy, strategies));

  function update(address) {
    const level = levelOf(address, levels, game);
    if (address.of[0] && address.of[0] !== level.strategy) page.replace(here(level));
    return ask(change(level).moves);
  }

  /** won remembers a level as won, and shows it. */
  function won(level) {
    winLevel(level);
    showLevel();
  }

  /** change goes to a schedule, perhaps of a level that is not shown yet. */
  function change(next) {
    const { strategy, buyers } = now.level;
    replayer.halt();
    if (next.strategy !== strategy || next.buyers !== buyers) frame.blank();
    now.level = next;
    page.title(`${t("nav.play")}: ${next.strategy}`);
    showLevel();
    return proof.level(next);
  }

  /** ask makes the engine play moves, and shows the result. */
  async function ask(moves) {
    const mine = ++asked;
    frame.busy(true);
    try {
      const body = { ...now.level, goal: game.of(now.level).goal, moves: moves.join(".") };
      const state = await call("/api/schedule", { method: "POST", body });
      if (mine !== asked) return;
      if (frame.state(state, now.level.moves.length) && now.own === here(now.level)) won(body);
    } catch (error) {
      if (mine === asked) frame.failed(error);
    }
    frame.busy(false);
  }

  /** playFound replays what a search found, on its level. */
  function playFound({ strategy, buyers, moves }) {
    const found = { strategy, buyers, moves: moves.split(".") };
    if (location.hash !== here(found)) history.pushState(null, "", here(found));
    change(found);
    now.own = "";
    document.querySelector("h1").scrollIntoView();
    replayer.replay(found.moves);
  }

  await update(at);
  return { update };
}

/** actsOf returns the reader's actions. Each goes to a schedule by its address, so that the back button undoes it. */
function actsOf(now, replayer) {
  const go = (more) => {
    replayer.halt();
    location.hash = here({ ...now.level, moves: [], ...more });
  };
  return {
    level: (strategy) => go({ strategy, buyers: 2 }),
    crowd: (buyers) => go({ buyers }),
    move(text) {
      if (replayer.running()) return;
      const moves = [...now.level.moves, text];
      now.own = here({ ...now.level, moves });
      go({ moves });
    },
    undo: () => go({ moves: now.level.moves.slice(0, -1) }),
    restart: () => go({}),
    replay: () => replayer.replay(now.level.moves),
    link: (button) => copy(button, location.href),
  };
}

/** newReplayer replays moves one after the other. shown is called when it begins and ends. */
function newReplayer(ask, shown) {
  let timer = 0;
  let turn = 0; // counts the replays, so that a replay that waits for a reply does not go on in the next one
  function halt() {
    clearTimeout(timer);
    timer = 0;
    turn++;
    shown(false);
  }
  return {
    halt,
    running: () => timer !== 0,
    /** replay begins, or ends a replay that is under way. */
    replay(moves) {
      if (timer) return void (halt(), ask(moves));
      let n = 0;
      const mine = ++turn;
      const next = async () => {
        await ask(moves.slice(0, n));
        if (mine !== turn) return;
        if (++n > moves.length) {
          halt();
          return ask(moves);
        }
        timer = setTimeout(next, pace);
      };
      timer = setTimeout(next, 0);
      shown(true);
    },
  };
}

/** newFrame makes the elements of the part, and the functions that fill them. */
function newFrame(levels, game, act) {
  const bar = newLevels(levels, game, act);
  const card = newCard(act);
  const board = newGameBoard(act.move);
  const redis = el("section.panel.redisstate", { "aria-label": t("play.redis") });
  const timeline = newTimeline((stage) => stage.scrollTop = stage.scrollHeight);
  const undo = el("button", { onclick: act.undo }, "↶ ", t("play.undo"));
  const restart = el("button", { onclick: act.restart }, t("play.restart"));
  const replay = el("button", { onclick: act.replay });
  const link = el("button", { onclick: () => act.link(link) }, t("play.link"));
  const tools = el("div.pair.playtools", { role: "group", "aria-label": t("play.tools") }, undo, restart, replay, link,
    bar.crowd, el("span.pair.helpers", card.help));

  let level = null;

  function blank() {
    board.blank();
    put(redis);
    timeline.show(null);
  }

  return {
    nodes: [bar.node, card.node, tools, board.node,
      el("div.desk", el("section.story.playstory", { "aria-label": t("lanes.title") }, el("h2", t("play.sofar")),
        timeline.node), redis)],
    level(next, adds) {
      level = next;
      bar.show(level);
      card.show(level, adds);
    },
    /** state shows the state that a schedule leads to. It returns whether that is the goal. */
    state(state, whole) {
      undo.disabled = restart.disabled = replay.disabled = whole === 0;
      board.show({ ...state, can: state.can.filter((move) => allowed(level, move)) }, undo);
      put(redis, ...booksOf(state).filter(Boolean));
      timeline.show(rowsOf(state.trace, state.players.map(({ name }) => name), state.now_ms));
      return card.state(state);
    },
    replaying: (on) => replay.textContent = on ? `❚❚ ${t("play.stop")}` : `▶ ${t("play.replay")}`,
    /** blank clears the state of another level. */
    blank() {
      blank();
      card.blank();
    },
    busy: board.busy,
    failed(error) {
      if (error.status === 400) blank(); // the board shows the earlier moves
      undo.disabled = restart.disabled = false;
      card.failed(error);
    },
    close: timeline.close,
  };
}
