// Squares: each shows one cell of the matrix by shape and colour, with a tooltip.

import { el, put } from "./dom.js";
import { called, t, told } from "./text.js";

const outcomes = { holds: "holds", breaks: "breaks", "n/a": "na", unknown: "unknown" };

/** kinds lists the kinds of squares. */
export const kinds = ["breaks", "holds", "endless", "na", "unknown"];

/** kindOf returns the kind of a cell's square. A lock that holds only because it never expires has its own kind. */
export const kindOf = ({ outcome, endless }) => (endless ? "endless" : outcomes[outcome] ?? "unknown");

/** sign makes a square without a link. */
export const sign = (kind) => el(`span.square.${kind}`, { "aria-hidden": "true" }, t(`square.${kind}`));

const onStrategy = ({ anomaly, strategy }) => t("break.on", { anomaly: called(anomaly), strategy });

/** square makes the square of a cell, which links to it. */
export function square(cell, attributes = {}) {
  const { anomaly, strategy } = cell;
  const kind = kindOf(cell);
  const label = `${onStrategy(cell)}: ${t(`outcome.${kind}`)}`;
  const link = { href: `#/break/${anomaly}/${strategy}`, "aria-label": label };
  return el(`a.square.${kind}`, { ...link, ...attributes }, t(`square.${kind}`));
}

/**
 * newTip makes the tooltip of the square that has the pointer or the keyboard focus. cellOf finds the cell of a
 * square.
 */
export function newTip(box, cellOf) {
  const tip = el("div.tip", { role: "tooltip", id: "square-tip", hidden: true });
  let of = null;

  function show(link) {
    const cell = cellOf(link);
    if (!cell) return;
    of = link;
    link.setAttribute("aria-describedby", tip.id);
    put(tip, el("strong", onStrategy(cell)), el("span", sign(kindOf(cell)), " ", t(`outcome.${kindOf(cell)}`)),
      el("span.small", told(cell.note, cell.message)));
    tip.hidden = false;
    const at = link.getBoundingClientRect();
    const { offsetWidth: width, offsetHeight: height } = tip;
    tip.style.left = `${Math.max(8, Math.min(innerWidth - width - 8, at.left - width / 2))}px`;
    tip.style.top = `${at.bottom + 8 + height < innerHeight ? at.bottom + 8 : at.top - height - 8}px`;
  }

  function hide() {
    of?.removeAttribute("aria-describedby");
    of = null;
    tip.hidden = true;
  }

  const over = ({ target }) => {
    const link = target.closest?.("a.square");
    if (link && link !== of) show(link);
    else if (!link && of) hide();
  };
  box.addEventListener("pointerover", over);
  box.addEventListener("focusin", over);
  box.addEventListener("pointerleave", hide);
  box.addEventListener("focusout", hide);
  box.addEventListener("scroll", hide, true);
  box.addEventListener("keydown", ({ key }) => key === "Escape" && hide());
  return { node: tip, hide };
}
