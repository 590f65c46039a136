// A cell of the lab that is run again in this browser, on a site of recordings.

import { call } from "./api.js";
import { el, put, say } from "./dom.js";
import { t, told } from "./text.js";

/** newAgain makes the button that runs a cell again, and shows whether the result matches the recording. */
export function newAgain({ anomaly, strategy }, signal) {
  const found = el("p.small", { role: "status" });
  const button = el("button", { onclick: run }, t("site.again"));

  async function run() {
    button.disabled = true;
    put(found);
    try {
      const path = `/api/lab/${anomaly}/${strategy}`;
      const { note, story } = await call(path, { method: "POST", body: {}, signal });
      const recording = await call(path, { signal });
      const same = note === recording.note && JSON.stringify(story.rows) === JSON.stringify(recording.story.rows);
      const n = story.rows.length;
      tell(t(same ? "site.again.same" : "site.again.other", { outcome: told(note), n }));
    } catch (error) {
      if (error.name !== "AbortError") tell(error.message);
    }
    button.disabled = false;
  }

  function tell(sentence) {
    put(found, sentence);
    say(sentence);
  }

  return el("div.again", el("p", button), found);
}
