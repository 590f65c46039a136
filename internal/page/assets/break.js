// Break: the matrix of anomalies and strategies, the cell that the address names, and what every schedule leads to.

import { call } from "./api.js";
import { newBoard } from "./board.js";
import { fetchStory, showCell } from "./cell.js";
import { el, every, put, scroll } from "./dom.js";
import { allProofs } from "./proof.js";
import { expand } from "./shortname.js";
import { called, t, told } from "./text.js";

const busyPause = 1500; // milliseconds more until the lab is asked again, when it has to wait for a run

let lab = null; // what the lab found; it does not change while the shop runs

/** show shows the matrix, and in front of it the cell that the address names. */
export async function show(box, at, page) {
  const { signal } = page;
  let shown = null; // the cell
  let asked = 0; // counts the addresses, so that a cell that is late does not replace a newer one
  await ready(box, signal);
  const board = newBoard(lab, at.of.length > 0 ? new URLSearchParams() : at.query, page);
  const trouble = el("div");
  const proofs = el("section.everyschedule", { "aria-label": t("proof.title") });
  put(box, trouble, intro(), board.node, made(), proofs);
  showProofs(proofs, signal);

  function close() {
    shown?.close();
    shown = null;
  }

  async function update({ of: [anomaly, named = ""], query }) {
    const mine = ++asked;
    const strategy = expand(named, lab.manifest.strategies);
    const cell = lab.cells.find((c) => c.anomaly === anomaly && c.strategy === strategy);
    page.title(cell ? t("break.on", { anomaly: called(anomaly), strategy }) : t("nav.break"));
    if (cell && shown?.is(cell)) return shown.update(query);
    const unknown = !cell && anomaly && t("page.unknown", { address: location.hash });
    put(trouble, unknown && el("p.alarm", { role: "alert" }, unknown));
    if (!cell) {
      const before = shown?.address;
      close();
      if (!unknown && location.hash !== board.address()) board.update(query);
      if (before) board.focus(before);
      return;
    }
    const story = await fetchStory(cell, signal);
    if (mine !== asked) return;
    close();
    shown = showCell(box, lab, cell, story, query, { ...page, leave: () => location.hash = board.address() });
  }
  signal.addEventListener("abort", () => {
    close();
    board.close();
  });
  await update(at);
  return { update };
}

/** ready waits until the lab has tried everything, and shows its progress. */
async function ready(box, signal) {
  if (lab) return;
  const bar = el("progress", { max: 1, value: 0, "aria-label": t("break.making") });
  const count = el("p.small");
  let idle = 0; // polls without progress
  put(box, el("h1", t("break.title")), el("p", t("break.making")), bar, count);
  await new Promise((done, failed) => {
    const stop = every(500, async () => {
      try {
        const reply = await call("/api/lab", { signal });
        if (reply.cells) return void (lab = reply, stop(), done());
        bar.max = reply.of;
        bar.value = reply.done;
        idle = reply.done ? 0 : idle + 1;
        count.textContent = idle > 3 ? t("break.waits") : t("break.made", reply);
      } catch (error) {
        if (error.code === "busy") {
          count.textContent = error.message;
          return new Promise((over) => setTimeout(over, busyPause));
        }
        stop();
        failed(error);
      }
    });
    signal.addEventListener("abort", () => {
      stop();
      failed(signal.reason);
    });
  });
}

/** intro says what is seen. */
const intro = () => [el("h1", t("break.title")), el("p.lead", t("break.lead"))];

/** made says what the matrix was made with, and how many cells came out how. */
function made() {
  const { redis, ttl_ns: ttl } = lab.manifest;
  const count = (kind) => lab.cells.filter((cell) => cell.outcome === kind).length;
  const counts = { cells: lab.cells.length, holds: count("holds"), breaks: count("breaks"), na: count("n/a") };
  const values = { ...counts, unknown: count("unknown"), redis: told(redis), ttl: ttl / 1e9 };
  return el("p.small", t("break.counts", values));
}

/** showProofs shows what the search of every schedule has found of all strategies. */
async function showProofs(box, signal) {
  const title = el("h2", t("proof.title"));
  try {
    const record = await call("/api/schedule/record", { signal });
    put(box, title, el("p", t("proof.about")), allProofs(record));
  } catch (error) {
    if (!signal.aborted) put(box, title, el("p.alarm", error.message));
  }
}
