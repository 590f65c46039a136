// Break: the matrix of anomalies and strategies, the cell that the address names, and the results of the searches.

import { call, hasShop } from "./api.js";
import { newBoard } from "./board.js";
import { fetchStory, showCell } from "./cell.js";
import { el, every, put } from "./dom.js";
import { allProofs } from "./proof.js";
import { expand } from "./shortname.js";
import { called, t } from "./text.js";

let lab = null; // the lab's results; they do not change while the shop runs

/** show shows the matrix, and in front of it the cell that the address names. */
export async function show(box, at, page) {
  const { signal } = page;
  let shown = null; // the cell
  let asked = 0; // counts the addresses, so that a cell that loads slowly does not replace a newer one
  let board = null;
  const trouble = el("div");
  const again = el("p.small", { role: "status" });
  const proofs = el("section.everyschedule", { "aria-label": t("proof.title") });
  const measured = lab ? null : measure(again, signal);
  measured?.catch(() => {}); // errors are shown below, and by then the page may have been left

  /** paint shows the squares of a lab, with the pins and the filter. */
  function paint(known, query) {
    const focused = board?.node.contains(document.activeElement) && document.activeElement.getAttribute("href");
    board?.close();
    board = newBoard(known, query, page);
    put(box, trouble, intro(), again, board.node, lab && made(), proofs);
    if (focused) board.focus(focused);
  }

  function close() {
    shown?.close();
    shown = null;
  }

  async function update({ of: [anomaly, named = ""], query }) {
    const mine = ++asked;
    if (anomaly && !lab) await measured;
    if (mine !== asked) return;
    const strategy = lab && expand(named, lab.manifest.strategies);
    const cell = lab?.cells.find((c) => c.anomaly === anomaly && c.strategy === strategy);
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
    board?.close();
  });
  const first = at.of.length > 0 ? new URLSearchParams() : at.query;
  paint(lab ?? await (hasShop ? call("/api/lab/recorded", { signal }) : measured), first);
  showProofs(proofs, signal);
  measured?.then(() => {
    if (!signal.aborted) paint(lab, new URLSearchParams(board.address().split("?")[1]));
  }, (error) => signal.aborted || (put(again), put(trouble, el("p.alarm", { role: "alert" }, error.message))));
  await update(at);
  return { update };
}

/** measure waits until the lab has run all cells in this shop, and shows its progress. */
function measure(progress, signal) {
  let idle = 0; // polls without progress
  return new Promise((done, failed) => {
    const stop = every(500, async () => {
      try {
        const reply = await call("/api/lab", { signal });
        if (reply.cells) return void (lab = reply, put(progress), stop(), done(lab));
        idle = reply.done ? 0 : idle + 1;
        put(progress, t(idle > 3 ? "break.waits" : "break.made", reply));
      } catch (error) {
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

/** intro explains the matrix. */
const intro = () => [el("h1", t("break.title")), el("p.lead", t("break.lead"))];

/** made says what the matrix was made with, and counts the cells by result. */
function made() {
  const { redis, ttl_ns: ttl } = lab.manifest;
  const count = (kind) => lab.cells.filter((cell) => cell.outcome === kind).length;
  const counts = { cells: lab.cells.length, holds: count("holds"), breaks: count("breaks"), na: count("n/a") };
  const values = { ...counts, unknown: count("unknown"), redis, ttl: ttl / 1e9 };
  return el("p.small", t("break.counts", values));
}

/** showProofs shows what the searches through every schedule have found for all strategies. */
async function showProofs(box, signal) {
  const title = el("h2", t("proof.title"));
  try {
    const record = await call("/api/schedule/record", { signal });
    put(box, title, el("p", t("proof.about")), allProofs(record));
  } catch (error) {
    if (!signal.aborted) put(box, title, el("p.alarm", error.message));
  }
}
