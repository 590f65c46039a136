// A hint that shows which columns of a table are out of sight, and leads to them.

import { el } from "./dom.js";
import { t } from "./text.js";

/**
 * newColumns makes a hint at the columns that are out of sight in a box that scrolls sideways. Their names are in
 * the data-column of the headings; the first heading stays in sight.
 */
export function newColumns(box) {
  const go = (by) => () => box.scrollBy({ left: by * box.clientWidth * 0.6, behavior: "smooth" });
  const left = el("button.left", { onclick: go(-1) });
  const right = el("button.right", { onclick: go(1) });
  const node = el("div.beyond", left, right);
  let waiting = false;

  function tell(button, names, key) {
    button.classList.toggle("none", names.length === 0);
    button.disabled = names.length === 0;
    const words = { n: names.length, first: names[0], last: names.at(-1) };
    button.textContent = names.length > 0 ? t(key, words) : "";
  }

  function look() {
    waiting = false;
    const heads = [...box.querySelectorAll("thead [data-column]")];
    const edge = box.getBoundingClientRect();
    const start = box.querySelector("thead th")?.getBoundingClientRect().right ?? edge.left;
    const names = (hidden) => heads.filter((head) => hidden(head.getBoundingClientRect())).map((h) => h.dataset.column);
    const before = names((at) => at.left < start - 2);
    const after = names((at) => at.right > edge.left + box.clientWidth + 2);
    tell(left, before, "columns.left");
    tell(right, after, "columns.right");
    node.hidden = before.length + after.length === 0;
  }

  const soon = () => {
    if (!waiting) requestAnimationFrame(look);
    waiting = true;
  };
  const resized = new ResizeObserver(soon);
  resized.observe(box);
  box.addEventListener("scroll", soon);
  return { node, look: soon, close: () => resized.disconnect() };
}
