// The live plot: uPlot, which is loaded when there is something to draw.

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

/** newPlot makes a plot of samples in host. */
export function newPlot(host) {
  let chart = null;
  let making = false;
  let ended = false;
  let latest = null;

  const series = [
    ["remaining", "--hue0"], ["sold", "--hue3"], ["waiting", "--hue5"],
  ];

  async function make() {
    if (making) return;
    making = true;
    const UPlot = await library().catch(() => null);
    making = false;
    if (!UPlot || ended || host.clientWidth === 0) return;
    const axis = (more) => ({ stroke: colour("--muted"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line"), width: 1 }, font: "12px system-ui, sans-serif", ...more });
    chart = new UPlot({
      width: host.clientWidth, height,
      cursor: { drag: { x: false, y: false } },
      legend: { live: false },
      scales: { x: { time: false }, y: { range: fromZero }, requests: { range: fromZero } },
      axes: [axis({ values: (u, at) => at.map((ms) => `${number(ms)} ms`) }), axis({ size: 52, values: (u, at) => at.map(number) }),
        axis({ scale: "requests", side: 1, size: 52, grid: { show: false }, values: (u, at) => at.map(number) })],
      series: [{}, ...series.map(([name, hue]) => ({ label: t(`live.${name}`), stroke: colour(hue), width: 2, points: { show: false }, ...(name === "waiting" && { scale: "requests", dash: [4, 4] }) })),
        { label: t("live.stockline"), stroke: colour("--alarm"), width: 1, dash: [2, 3], points: { show: false } }],
    }, columns(), host);
  }

  const columns = () => {
    const { samples, stock } = latest;
    return [samples.map((p) => p.t_ms), ...series.map(([name]) => samples.map((p) => (name !== "waiting" && p.audit_ms < 0 ? null : p[name]))), samples.map(() => stock)];
  };

  const restyle = () => {
    chart?.destroy();
    chart = null;
    if (latest) make();
  };
  addEventListener("themechange", restyle);
  const resized = new ResizeObserver(() => chart && host.clientWidth > 0 && host.clientWidth !== chart.width && chart.setSize({ width: host.clientWidth, height }));
  resized.observe(host);

  return {
    draw(samples, stock) {
      latest = { samples, stock };
      if (samples.length < 2) return;
      if (!chart) return void make();
      chart.setData(columns());
    },
    close() {
      ended = true;
      resized.disconnect();
      removeEventListener("themechange", restyle);
      chart?.destroy();
      chart = null;
    },
  };
}
