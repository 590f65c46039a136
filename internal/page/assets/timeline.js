// A timeline: the lanes of a story, in a box that scrolls.

import { el, put } from "./dom.js";
import { drawLanes } from "./lanes.js";
import { t } from "./text.js";

/**
 * newTimeline makes a timeline that is drawn again when its width or the size of its type changes. drawn is called each
 * time with its node.
 */
export function newTimeline(drawn) {
  const lanes = el("div.lanes");
  const node = el("div.stage", { tabindex: 0, role: "region", "aria-label": t("lanes.title") }, lanes);
  let story = null;
  let width = 0;
  let type = "";
  const typeSize = () => getComputedStyle(document.documentElement).fontSize;

  function draw() {
    if (!story || lanes.clientWidth < 100) return; // nothing to show, or hidden
    width = node.clientWidth;
    type = typeSize();
    if (story.rows.length === 0) {
      lanes.className = "lanes";
      put(lanes, el("p.nothing", t("play.empty")));
      return;
    }
    drawLanes(lanes, story, () => {});
    for (const event of lanes.querySelectorAll(".event")) event.tabIndex = -1; // the arrow keys or the moves step
    drawn(node);
  }
  const resized = new ResizeObserver(() => node.clientWidth !== width && draw());
  resized.observe(node);
  // A phone also fires this when its address bar hides; drawing again would lose the reader's place.
  const retyped = () => typeSize() !== type && draw();
  addEventListener("resize", retyped);
  return {
    node,
    /** show shows a story, or nothing. */
    show(next) {
      story = next;
      if (!story) put(lanes);
      draw();
    },
    close() {
      resized.disconnect();
      removeEventListener("resize", retyped);
    },
  };
}
