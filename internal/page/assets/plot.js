// Plots: uPlot, which is loaded when there is something to draw.

import { colour, el } from "./dom.js";
import { number, t } from "./text.js";

const height = 220;
const fromZero = (u, min, max) => [0, Math.max(max, 1) * 1.05];
let loaded = null;

/** library loads uPlot, once. */
function library() {
  loaded ??= new Promise((done, failed) => {
    document.head.append(el("link", { rel: "stylesheet", href: "/page/uplot/uPlot.min.css" }));
    document.head.append(el("script", { src: "/page/uplot/uPlot.iife.min.js", onload: () => done(globalThis.uPlot), onerror: () => failed(new Error("uPlot")) }));
  });
  return loaded;
}

const axis = (more) => ({ stroke: colour("--muted"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line"), width: 1 }, font: "12px system-ui, sans-serif", ...more });
const time = () => axis({ space: 90, values: (u, at) => at.map((ms) => `${number(ms)} ms`) });
const amount = (more) => axis({ size: 52, values: (u, at) => at.map(number), ...more });
const line = (label, hue, more) => ({ label, stroke: colour(hue), width: 2, points: { show: false }, ...more });

/** newChart keeps a plot in host, as wide as that and in the colours of the theme: style tells how it looks, columns what it shows, by uPlot. */
function newChart(host, style, columns) {
  let chart = null;
  let making = false;
  let ended = false;

  async function draw() {
    if (chart) return void chart.setData(columns(globalThis.uPlot));
    if (making) return;
    making = true;
    const UPlot = await library().catch(() => null);
    making = false;
    if (!UPlot || ended || host.clientWidth === 0) return;
    chart = new UPlot({ width: host.clientWidth, height, cursor: { drag: { x: false, y: false } }, legend: { live: false }, ...style() }, columns(UPlot), host);
  }

  const remove = () => {
    chart?.destroy();
    chart = null;
  };
  const restyle = () => {
    if (!chart) return;
    remove();
    draw();
  };
  addEventListener("themechange", restyle);
  const resized = new ResizeObserver(() => chart && host.clientWidth > 0 && host.clientWidth !== chart.width && chart.setSize({ width: host.clientWidth, height }));
  resized.observe(host);
  return {
    draw,
    remove,
    close() {
      ended = true;
      resized.disconnect();
      removeEventListener("themechange", restyle);
      remove();
    },
  };
}

/** newPlot makes the plot of a row under way in host. */
export function newPlot(host) {
  let latest = null;
  const series = [["remaining", "--hue0"], ["sold", "--hue3"], ["waiting", "--hue5"]];
  const chart = newChart(host, () => ({
    scales: { x: { time: false }, y: { range: fromZero }, requests: { range: fromZero } },
    axes: [time(), amount(), amount({ scale: "requests", side: 1, grid: { show: false }, label: t("live.waiting"), labelFont: "12px system-ui, sans-serif", labelSize: 18 })],
    series: [{}, ...series.map(([name, hue]) => line(t(`live.${name}`), hue, name === "waiting" && { scale: "requests", dash: [4, 4] })),
      line(t("live.stockline"), "--alarm", { width: 1, dash: [2, 3] })],
  }), () => {
    const { samples, stock } = latest;
    return [samples.map((p) => p.t_ms), ...series.map(([name]) => samples.map((p) => (name !== "waiting" && p.audit_ms < 0 ? null : p[name]))), samples.map(() => stock)];
  });
  return {
    draw(samples, stock) {
      latest = { samples, stock };
      if (samples.length >= 2) chart.draw();
    },
    close: chart.close,
  };
}

/** newCurves makes a plot of what several rows sold over their time, one over the other: of each its name, points and stock, or nothing. */
export function newCurves(host) {
  let rows = [];
  const stock = () => {
    const [one, ...others] = new Set(rows.filter(Boolean).map((row) => row.stock));
    return others.length === 0 ? one : null; // there is no line for several
  };
  const chart = newChart(host, () => ({
    scales: { x: { time: false }, y: { range: fromZero } },
    axes: [time(), amount()],
    series: [{}, ...rows.flatMap((row, i) => (row ? [line(row.name, `--hue${i}`, { spanGaps: true })] : [])), line(t("live.stockline"), "--alarm", { width: 1, dash: [2, 3] })],
  }), (UPlot) => {
    const columns = UPlot.join(rows.filter(Boolean).map(({ points }) => {
      const known = points.filter((p) => p.audit_ms >= 0);
      return [known.map((p) => p.audit_ms), known.map((p) => p.sold)];
    }));
    const first = stock();
    return [...columns, columns[0].map(() => first)];
  });
  return {
    draw(next) {
      chart.remove(); // there may be more or fewer lines
      rows = next;
      if (rows.some(Boolean)) chart.draw();
    },
    close: chart.close,
  };
}
