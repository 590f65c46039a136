// The picture of a case: what was sold over time against the stock, and the faults where they happened.

import { el, svg } from "./dom.js";
import { zoom } from "./lanes.js";
import { named, number, t } from "./text.js";

const edge = { top: 16, right: 100, bottom: 24, left: 46 };
const line = 15; // height of a line of text
const letter = { narrow: 7.8, wide: 13.5 }; // usual widths of a letter, in bold

/** nameOf returns the name of a case. */
export const nameOf = ({ strategy, condition }) => `${strategy} · ${named(`condition.${condition}`, condition)}`;

const audited = ({ points }) => points.filter(({ audit_ms: at }) => at >= 0);
const endOf = ({ points }) => points.at(-1)?.t_ms ?? 0;

/** soldOf returns the number of units that a case has sold, or null if it is not known. */
export const soldOf = (one) => one.row?.sold ?? audited(one).at(-1)?.sold ?? null;

/** soldWords says how many of the units a case has sold, and whether that is too many. */
export const soldWords = ({ stock }, sold) =>
  t(sold > stock ? "stage.verdict.oversold" : "live.bar", { sold, stock, n: sold - stock });

/** scaleOf returns one scale for several cases: the milliseconds and units that fit all of them. */
export function scaleOf(cases) {
  const units = cases.map((one) => Math.max(one.stock * 1.25, (soldOf(one) ?? 0) * 1.12));
  return { ms: Math.max(500, ...cases.map(endOf)), units: Math.max(1, ...units) };
}

/** steps returns round values from 0 to a maximum, about as many as wanted. */
function steps(most, wanted) {
  const rough = most / wanted;
  const ten = 10 ** Math.floor(Math.log10(rough));
  const step = Math.max(1, [1, 2, 5, 10].find((n) => n * ten >= rough) * ten);
  return Array.from({ length: Math.floor(most / step) + 1 }, (_, i) => i * step);
}

/** seconds formats a time: in ms below a second. */
export const seconds = (ms) => (ms < 1000 ? t("stage.ms", { n: Math.round(ms) }) : t("stage.s", { n: ms / 1000 }));

/** faultText describes a fault, with its duration once that is known. */
function faultText({ kind, t_ms: at, until_ms: until }) {
  return until > 0 ? t(`stage.fault.${kind}.for`, { time: seconds(until - at) }) : t(`stage.fault.${kind}`);
}

/**
 * curve returns the path of the units sold, and of the area below it. It rises at the times of the audits, so that it
 * crosses the stock where the break is marked.
 */
function curve(one, x, y) {
  const known = audited(one).map((p) => [x(p.audit_ms), y(p.sold)]);
  if (known.length === 0) return null;
  const until = x(endOf(one));
  const points = [[x(0), y(0)]];
  for (const [at, sold] of known) points.push([at, points.at(-1)[1]], [at, sold]);
  if (until > points.at(-1)[0]) points.push([until, points.at(-1)[1]]);
  const path = `M${points.map(([a, b]) => `${a.toFixed(1)} ${b.toFixed(1)}`).join("L")}`;
  const end = points.at(-1);
  return { path, area: `${path}L${end[0].toFixed(1)} ${y(0)}L${x(0)} ${y(0)}Z`, end };
}

/** soldAt returns the number of units that a case had sold at a time, according to its curve. */
const soldAt = (one, ms) => audited(one).findLast(({ audit_ms: at }) => at <= ms)?.sold ?? 0;

/** filled draws the area below a curve: what was sold within the stock, and beyond it. */
function filled({ area, path }, { left, right, top, bottom, stock }) {
  const part = (from, to, name) => {
    const height = Math.max(0, to - from);
    const width = right - left;
    const inner = svg("svg", { x: left, y: from, width, height, viewBox: `${left} ${from} ${width} ${height || 1}` });
    inner.append(svg("path", { d: area, class: `area ${name}` }), svg("path", { d: path, class: `sold ${name}` }));
    return inner;
  };
  return [part(stock, bottom + 1, "within"), part(top - 2, stock, "beyond")];
}

/** widthOf estimates the width of a text. Chinese has wide letters. */
const widthOf = (text) => [...text].reduce((sum, one) => sum + (one > "\u2e80" ? letter.wide : letter.narrow), 0);

function label(x, y, text, name, anchor = "start") {
  const node = svg("text", { x, y, class: name, "text-anchor": anchor });
  node.textContent = text;
  return node;
}

/** beside makes a label for a mark at x: right of it if there is room, else left of it, else wherever it fits. */
function beside(x, y, text, name, { left, right }) {
  const width = widthOf(text);
  if (x + 5 + width < right) return label(x + 5, y, text, name);
  if (x - 5 - width > left) return label(x - 5, y, text, name, "end");
  return label(Math.max(left, right - width), y, text, name);
}

/** axes draws the grid, and the figures at it. */
function axes({ x, y, scale, box, axis }) {
  const nodes = axis ? [label(box.left - 6, 10, t("stage.units"), "tick", "end")] : [];
  for (const units of steps(scale.units, 4)) {
    nodes.push(svg("line", { x1: box.left, x2: box.right, y1: y(units), y2: y(units), class: "grid" }));
    if (axis) nodes.push(label(box.left - 6, y(units) + 4, number(units), "tick", "end"));
  }
  const wanted = Math.max(2, Math.floor((box.right - box.left) / 90));
  for (const ms of steps(scale.ms, wanted)) {
    nodes.push(label(x(ms), box.bottom + 16, seconds(ms), "tick", ms === 0 ? "start" : "middle"));
  }
  return nodes;
}

/** injected draws the faults: their beginning, duration and kind. */
function injected(faults, { x, box, now }) {
  return faults.flatMap((fault, i) => {
    const from = x(fault.t_ms);
    const end = fault.kind === "killed" ? fault.t_ms : Math.min(fault.until_ms || now, now); // the future is not drawn
    const to = Math.max(from, x(end));
    const y = line * (1 + i % 2) - 2;
    return [
      svg("rect", { x: from, y, width: Math.max(0, to - from), height: box.bottom - y, class: "fault" }),
      svg("line", { x1: from, x2: from, y1: y, y2: box.bottom, class: "faultline" }),
      beside(from, y + line - 3, faultText(fault), "faultname", { ...box, right: box.right + edge.right }),
    ];
  });
}

/** violated marks where an invariant was broken. */
function violated(broken, { x, y, box, one }) {
  const at = (name) => broken.find(({ invariant }) => invariant === name);
  const [stock, service] = [at("stock"), at("service")];
  const nodes = [];
  if (service) {
    const from = x(service.t_ms);
    const width = Math.max(0, x(endOf(one)) - from);
    const middle = (y(one.stock) + y(soldOf(one) ?? 0)) / 2;
    nodes.push(svg("rect", { x: from, y: box.top, width, height: box.bottom - box.top, class: "unserved" }),
      beside(from, middle, t("stage.unserved"), "alarmname", box));
  }
  if (stock) {
    const [cx, cy] = [x(stock.t_ms), y(soldAt(one, stock.t_ms))];
    const text = t("stage.crossed", { time: seconds(stock.t_ms) });
    const room = cx + 9 + widthOf(text) < box.right; // right of the dot and below the curve
    const over = Math.abs(cy + line + 2 - y(one.stock)) < line / 2 + 4; // the mark of the stock
    const height = !room ? cy - 8 : (over ? y(one.stock) : cy) + line + 2;
    nodes.push(svg("circle", { cx, cy, r: 5, class: "crossing" }), beside(cx + 4, height, text, "alarmname", box));
  }
  return nodes;
}

/** ends makes the names of the lines, at their ends. */
function ends(one, sold, { y, box }) {
  const stock = y(one.stock);
  const nodes = [label(box.right + 6, stock + 4, t("live.stock", { stock: one.stock }), "endname stockname")];
  if (!sold) return nodes;
  const [x, at] = sold.end;
  const over = soldOf(one) > one.stock;
  const near = Math.abs(at - stock) < line;
  const text = t("stage.sold", { n: soldOf(one) });
  const room = x + widthOf(text) < box.right + edge.right;
  const height = near ? stock + (over ? -line / 2 - 2 : line + 2) : room ? at + 4 : at - 6;
  nodes.push(label(x + 6, height, text, over ? "endname alarmname" : "endname soldname"));
  return nodes;
}

/** described describes a picture in words. */
function described(one) {
  const faults = one.faults.map((fault) => `${faultText(fault)} (${seconds(fault.t_ms)})`);
  return [nameOf(one), soldWords(one, soldOf(one) ?? 0), ...faults].join("; ");
}

/** frame returns the coordinates in a picture of this size. */
function frame(width, height, scale, margin) {
  const box = { left: margin.left, right: width - margin.right, top: margin.top, bottom: height - margin.bottom };
  const x = (ms) => box.left + (Math.min(ms, scale.ms) / scale.ms) * (box.right - box.left);
  const y = (units) => box.bottom - (units / scale.units) * (box.bottom - box.top);
  return { box, x, y, scale };
}

const stockMark = (one, { box, y }) =>
  svg("line", { x1: box.left, x2: box.right, y1: y(one.stock), y2: y(one.stock), class: "stockmark" });

/** picture draws a case. With axis it shows the scale of the units; with faulty it has room for the names of faults. */
export function picture(one, { width, height, scale, axis, faulty }) {
  const margin = { ...edge, top: edge.top + (faulty ? 2 * line : 0) };
  const [w, h] = [width / zoom(), height / zoom()];
  const at = frame(w, h, scale, margin);
  const sold = curve(one, at.x, at.y);
  const size = { width, height, viewBox: `0 0 ${w} ${h}` };
  const node = svg("svg", { ...size, class: "picture", role: "img", "aria-label": described(one) });
  node.append(...axes({ ...at, axis }), ...injected(one.faults, { ...at, now: endOf(one) }),
    ...(sold ? filled(sold, { ...at.box, stock: at.y(one.stock) }) : []), stockMark(one, at),
    ...violated(one.broken, { ...at, one }), ...ends(one, sold, at));
  return node;
}

/** thumbnail draws a small picture of a case. */
export function thumbnail(one, scale) {
  const at = frame(116, 40, scale, { left: 1, right: 1, top: 2, bottom: 1 });
  const sold = curve(one, at.x, at.y);
  const node = svg("svg", { width: 116, height: 40, class: "picture thumbnail", "aria-hidden": "true" });
  const from = one.faults.map((fault) => at.x(fault.t_ms));
  node.append(...from.map((x) => svg("line", { x1: x, x2: x, y1: 0, y2: 40, class: "faultline" })),
    ...(sold ? filled(sold, { ...at.box, stock: at.y(one.stock) }) : []), stockMark(one, at));
  return el("span.frame", node);
}
