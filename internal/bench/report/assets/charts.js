// The charts: uPlot with the page's colours and keyboard control.

/** colour returns the current value of a CSS variable. */
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

const hues = 8;

/** look returns the style of a strategy: its colour, and dashes from the ninth strategy on. */
function look(index) {
  return {
    stroke: colour(`--hue${index % hues}`),
    dash: index < hues ? undefined : index < 2 * hues ? [7, 4] : [2, 4],
  };
}

const chartHeight = 280;

/** axis returns an axis in the page's colours. */
function axis(more) {
  const line = { stroke: colour("--line"), width: 1 };
  const font = "12px system-ui, sans-serif";
  return { stroke: colour("--muted"), grid: line, ticks: line, font, labelFont: font, labelSize: 20, ...more };
}

/** words formats a number with about three digits. */
function words(value) {
  const size = Math.abs(value);
  if (size >= 100 || size === 0) return Math.round(value).toLocaleString("en");
  return value.toLocaleString("en", { maximumFractionDigits: size >= 10 ? 1 : 2 });
}

/** between formats a median, and its interval if the runs differ. */
const between = (median, low, high) =>
  low === high ? words(median) : `${words(median)} (${words(low)}..${words(high)})`;

/** mount creates a chart with a cursor that the arrow keys move, and writes the values at the cursor. */
function mount(host, readout, options, data, read) {
  const write = (u) => readout.textContent = u.cursor.idx == null ? "" : read(u.cursor.idx);
  const chart = new uPlot({
    ...options,
    width: Math.max(host.clientWidth, 200),
    height: chartHeight,
    legend: { show: false },
    cursor: { y: false, drag: { x: false, y: false, setScale: false }, points: { size: 6 } },
    hooks: { setCursor: [write], ...options.hooks },
  }, data, host);
  host.onkeydown = (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    const last = data[0].length - 1;
    const next = Math.min(last, Math.max(0, (chart.cursor.idx ?? (step > 0 ? -1 : last + 1)) + step));
    chart.setCursor({ left: chart.valToPos(data[0][next], "x"), top: 10 });
  };
  return chart;
}

/** lines draws curves: the median of the runs, with a band for their interval. */
function lines(host, readout, chart, { strategies, shown, log, xLabel, yLabel, xText, place }) {
  const curves = chart.curves.filter((curve) => shown.has(curve.strategy));
  const x = place ? chart.x.map((_, i) => i) : chart.x;
  const data = [x];
  const series = [{}];
  const bands = [];
  for (const curve of curves) {
    const { stroke, dash } = look(strategies.indexOf(curve.strategy));
    if (curve.runs > 1) {
      bands.push({ series: [series.length + 1, series.length], fill: stroke + "2a" });
      data.push(curve.low, curve.high);
      const edge = { stroke: "transparent", points: { show: false } };
      series.push(edge, { ...edge });
    }
    data.push(curve.median);
    series.push({ label: curve.strategy, stroke, dash, width: 2, points: { show: false } });
  }
  const point = ({ strategy, median, low, high }, i) => `${strategy} ${between(median[i], low[i], high[i])}`;
  const read = (i) => {
    const there = curves.filter((curve) => curve.median[i] != null);
    return `${xText(chart.x[i])}: ${there.map((curve) => point(curve, i)).join(" · ")}`;
  };
  return mount(host, readout, {
    series,
    bands,
    scales: { x: { time: false }, y: log ? { distr: 3 } : { range: (u, min, max) => [0, Math.max(max, 1) * 1.05] } },
    axes: [axis({ label: xLabel, ...(place && { ...place, values: (u, at) => at.map((i) => xText(chart.x[i])) }) }),
      axis({ label: yLabel, size: 62, values: (u, at) => at.map((v) => (v == null ? "" : words(v))) })],
  }, data, read);
}

/** bars draws two bars for each strategy, one up and one down, with their values and intervals. */
function bars(host, readout, list, { shown, over, under }) {
  const rows = list.filter((bar) => shown.has(bar.strategy));
  const x = rows.map((_, i) => i);
  const most = Math.max(1, ...rows.map((bar) => bar.over.high));
  const least = -Math.max(0, ...rows.map((bar) => bar.under.high));
  const paths = uPlot.paths.bars({ size: [0.7, 60] });
  const bar = (label, hue) => ({ label, paths, fill: colour(hue), points: { show: false } });
  const figure = ({ median, low, high }) => between(median, low, high);
  const read = (i) =>
    rows[i] ? `${rows[i].strategy}: ${over} ${figure(rows[i].over)}, ${under} ${figure(rows[i].under)}` : "";
  const name = (u, at) => at.map((i) => rows[i]?.strategy ?? "");
  const incrs = Array.from({ length: 7 }, (_, i) => [1, 2, 5].map((n) => n * 10 ** i)).flat();
  return mount(host, readout, {
    series: [{}, bar(over, "--alarm"), bar(under, "--warn")],
    scales: {
      x: { time: false, range: () => [-0.6, Math.max(rows.length, 1) - 0.4] },
      y: { range: () => [least * 1.4, most * 1.15] },
    },
    axes: [axis({ splits: () => x, values: name, rotate: -40, size: 84, grid: { show: false } }),
      axis({ size: 62, incrs, values: (u, at) => at.map((v) => words(Math.abs(v))) })],
    hooks: { draw: [(u) => annotate(u, rows)] },
  }, [x, rows.map((row) => row.over.median), rows.map((row) => -row.under.median)], read);
}

/** annotate writes the values at the bars, and draws a whisker for each interval. */
function annotate(u, rows) {
  const ratio = devicePixelRatio;
  const { ctx } = u;
  ctx.save();
  ctx.font = `${12 * ratio}px system-ui, sans-serif`;
  ctx.textAlign = "center";
  ctx.lineWidth = ratio * 1.5;
  ctx.strokeStyle = ctx.fillStyle = colour("--text");
  for (const [i, bar] of rows.entries()) {
    const left = u.valToPos(i, "x", true);
    for (const [{ median, low, high }, sign] of [[bar.over, 1], [bar.under, -1]]) {
      const at = (value) => u.valToPos(sign * value, "y", true);
      const beyond = (sign < 0 ? 13 : -5) * ratio;
      if (high > 0) ctx.fillText(words(median), left, at(high) + beyond);
      else if (sign > 0 && bar.under.high === 0) ctx.fillText("0", left, at(0) - 5 * ratio);
      if (low !== high) whisker(ctx, left, at(low), at(high), 4 * ratio);
    }
  }
  ctx.restore();
}

function whisker(ctx, x, low, high, half) {
  ctx.beginPath();
  ctx.moveTo(x, low);
  ctx.lineTo(x, high);
  for (const end of [low, high]) {
    ctx.moveTo(x - half, end);
    ctx.lineTo(x + half, end);
  }
  ctx.stroke();
}
