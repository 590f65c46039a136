// Replaces the shop on a site of recordings. Recorded files answer most requests. The lab, which runs in a
// worker, answers those for a schedule or a cell.

import { el, put } from "./dom.js";
import { number, t } from "./text.js";

const root = new URL("../", import.meta.url);

/** played lists the paths whose POST the lab answers, each with the question for the lab. */
const played = [
  [/^\/api\/schedule$/, (body) => JSON.parse(body)],
  [/^\/api\/lab\/([^/]+)\/([^/]+)$/, (body, anomaly, strategy) => ({ anomaly, strategy })],
];

/** send answers a request as the shop does. */
export async function send(path, { method, body, signal }) {
  if (method === "GET") return recording(path, signal);
  if (path === "/api/runs") return recorded(JSON.parse(body), signal);
  for (const [form, question] of played) {
    const found = form.exec(path);
    if (found && method === "POST") return lab.ask(question(body, ...found.slice(1).map(decodeURIComponent)), signal);
  }
  return refusal(501, "no_shop", path);
}

/** recording fetches the file with the reply to a GET. */
async function recording(path, signal) {
  const reply = await fetch(new URL(`.${path}.json`, root), { signal });
  return reply.status === 404 ? refusal(404, "not_recorded", path) : reply;
}

/** recorded returns the recorded run with these settings, in place of a new one. */
async function recorded(settings, signal) {
  const reply = await recording("/api/runs", signal);
  if (!reply.ok) return reply;
  const { runs } = await reply.json();
  const same = (run) => Object.entries(run.settings).every(([name, value]) => `${value}` === `${settings[name]}`);
  const run = runs.find(same);
  return run ? Response.json({ id: run.id }) : refusal(501, "no_shop", "/api/runs");
}

const refusal = (status, code, detail) => Response.json({ status, code, detail }, { status });

/** lab is the lab in the browser. It is loaded with the first question. */
const lab = newLab();

function newLab() {
  const waiting = new Map(); // the functions that answer the questions, by number
  let worker = null;
  let asked = 0;
  let notice = null;

  /** open starts the worker, which loads the lab. */
  function open() {
    notice = newNotice();
    worker = new Worker(new URL("labworker.js", import.meta.url));
    worker.addEventListener("message", ({ data }) => on[data.kind](data));
    worker.addEventListener("error", (event) => on.failed({ text: event.message || t("problem.unreachable") }));
  }

  /** close ends the worker: the next question starts another one. */
  function close() {
    notice?.close();
    worker?.terminate();
    worker = notice = null;
  }

  const on = {
    loading: (far) => notice?.update(far),
    loaded() {
      notice?.close();
      notice = null;
    },
    answer({ id, status, text }) {
      waiting.get(id)?.(new Response(text, { status }));
      waiting.delete(id);
    },
    failed({ text }) {
      close();
      for (const answer of waiting.values()) answer(refusal(500, "lab_failed", text));
      waiting.clear();
    },
  };

  return {
    /** ask asks the lab a question. The lab still answers a question that is aborted, but the answer is dropped. */
    ask(question, signal) {
      signal?.throwIfAborted();
      if (!worker) open();
      const id = ++asked;
      return new Promise((answer, abort) => {
        waiting.set(id, answer);
        signal?.addEventListener("abort", () => {
          waiting.delete(id);
          abort(signal.reason);
        });
        worker.postMessage({ id, question });
      });
    },
  };
}

/** newNotice shows that the lab is being loaded, and its size. */
function newNotice() {
  const bar = el("progress", { max: 1, value: 0, "aria-label": t("site.loading.bar") });
  const text = el("span", t("site.loading"));
  const node = el("p.labloading", { role: "status" }, text, " ", bar);
  (document.querySelector("dialog[open]") ?? document.body).append(node); // a dialog covers everything outside it
  return {
    update({ done, of }) {
      put(text, t("site.loading.size", { size: number(Math.round(of / 1e5) / 10) }));
      bar.max = of;
      bar.value = done;
    },
    close: () => node.remove(),
  };
}
