// Recordings that replace the shop on a site without one: a sale to a class, or a payment that comes too late.

import { fetchStory, newPlayer } from "./cell.js";
import { newScene } from "./class.js";
import { el, every } from "./dom.js";
import { t, told } from "./text.js";

const pause = 40; // frames until a sale is replayed

/** late is the cell of the lab with the payment. */
const late = { anomaly: "late-payment", strategy: "h2_status" };

/** show shows the recording in place of a way of selling, until the signal aborts. */
export const show = (box, way, signal) => way === "seats" ? payment(box, signal) : classroom(box, signal);

async function classroom(box, signal) {
  const { strategy, work_ms, initial, frame_ms, frames } =
    await (await fetch("page/recordedclass.json", { signal })).json();
  const scene = newScene();
  box.append(el("h2", t("site.class")), scene.node);
  let n = 0;
  signal.addEventListener("abort", every(frame_ms, () => {
    const [inside, most_inside, remaining, sold, oversold] = frames[Math.min(n, frames.length - 1)];
    scene.draw({ inside, most_inside, work_ms }, { initial, remaining, sold, oversold }, strategy);
    n = (n + 1) % (frames.length + pause);
  }));
}

async function payment(box, signal) {
  const story = await fetchStory(late, signal);
  const { note, message } = story;
  const player = newPlayer({ ...late, note, message }, story, { replace() {} }, box);
  box.append(el("h2", t("site.payment")), el("p.outcome.bad", told(note, message)), player.node);
  player.start(new URLSearchParams());
  player.play();
  signal.addEventListener("abort", player.close);
}
