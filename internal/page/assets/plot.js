// Plots, drawn by uPlot, which is loaded when there is something to draw.

import { colour, el, put } from "./dom.js";
import { number, t } from "./text.js";

const height = 220;
const fromZero = (u, min, max) => [0, Math.max(max, 1) * 1.05];
let loaded = null;
const file = (name) => new URL(`uplot/${name}`, import.meta.url).href;

/** library loads uPlot, once. */
function library() {
  loaded ??= new Promise((done, failed) => {
    const onerror = () => {
      loaded = null; // it can be loaded again
      failed(new Error("uPlot"));
    };
    document.head.append(el("link", { rel: "stylesheet", href: file("uPlot.min.css") }),
      el("script", { src: file("uPlot.iife.min.js"), onload: () => done(globalThis.uPlot), onerror }));
  });
  return loaded;
}

const font = "12px system-ui, sans-serif";
const thin = () => ({ stroke: colour("--line"), width: 1 });
const axis = (more) => ({ stroke: colour("--muted"), grid: thin(), ticks: thin(), font, ...more });
const time = () => axis({ space: 90, values: (u, at) => at.map((ms) => t("play.ms", { ms })) });
const amount = () => axis({ size: 52, values: (u, at) => at.map(number) });
const line = (label, hue, more) => ({ label, stroke: colour(hue), width: 2, points: { show: false }, ...more });
const stockLine = () => line(t("live.stockline"), "--alarm", { width: 1, dash: [2, 3] });
const cursor = { drag: { x: false, y: false } };

/** newChart keeps a plot as wide as its host and in the colours of the theme. style and columns are for uPlot. */
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
    put(host, !UPlot && el("p.alarm", t("problem.unreachable")));
    if (!UPlot || ended || host.clientWidth === 0) return;
    const width = host.clientWidth;
    chart = new UPlot({ width, height, cursor, legend: { live: false }, ...style() }, columns(UPlot), host);
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
  const resized = new ResizeObserver(() => {
    const width = host.clientWidth;
    if (chart && width > 0 && width !== chart.width) chart.setSize({ width, height });
  });
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

/**
 * newCurves makes a plot of the sales of several rows over time. Each row has a name, points and a stock, or is
 * missing. The stock is drawn if it is the same in all rows.
 */
export function newCurves(host) {
  let rows = [];
  const chart = newChart(host,
    () => ({
      scales: { x: { time: false }, y: { range: fromZero } },
      axes: [time(), amount()],
      series: [{}, ...rows.flatMap((row, i) => (row ? [line(row.name, `--hue${i}`, { spanGaps: true })] : [])),
        stockLine()],
    }), (UPlot) => {
    const there = rows.filter(Boolean);
    const columns = UPlot.join(there.map(({ points }) => {
      const known = points.filter((p) => p.audit_ms >= 0);
      return [known.map((p) => p.audit_ms), known.map((p) => p.sold)];
    }));
    const stocks = new Set(there.map((row) => row.stock));
    return [...columns, columns[0].map(() => (stocks.size === 1 ? there[0].stock : null))];
  });
  return {
    draw(next) {
      chart.remove(); // the number of lines may differ
      rows = next;
      if (rows.some(Boolean)) chart.draw();
    },
    close: chart.close,
  };
}
