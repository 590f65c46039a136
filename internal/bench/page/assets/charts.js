// The charts: uPlot with the page's colours, and what they have in common.

/** colour is one of the style's, as it is now. */
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

const hues = 8;

/** look is how a strategy is drawn: a colour, and a dash from the ninth on. */
function look(index) {
  return { stroke: colour(`--hue${index % hues}`), dash: index < hues ? undefined : index < 2 * hues ? [7, 4] : [2, 4] };
}

const chartHeight = 280;

/** axis is an axis in the page's colours. */
function axis(more) {
  const line = { stroke: colour("--line"), width: 1 };
  return { stroke: colour("--muted"), grid: line, ticks: line, font: "12px system-ui, sans-serif", labelFont: "12px system-ui, sans-serif", labelSize: 20, ...more };
}

/** words shows a number with as many digits as are worth it. */
function words(value) {
  const size = Math.abs(value);
  if (size >= 100 || size === 0) return Math.round(value).toLocaleString("en");
  return value.toLocaleString("en", { maximumFractionDigits: size >= 10 ? 1 : 2 });
}

/** between shows a median, and its interval where the runs differ. */
const between = (median, low, high) => (low === high ? words(median) : `${words(median)} (${words(low)}..${words(high)})`);

/** mount makes a chart in a host, lets the arrow keys move along it, and writes what is under the cursor. */
function mount(host, readout, options, data, read) {
  const write = (u) => { readout.textContent = u.cursor.idx == null ? "" : read(u.cursor.idx); };
  const chart = new uPlot({
    ...options, width: Math.max(host.clientWidth, 200), height: chartHeight, legend: { show: false },
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

/** lines draws curves: for each the median of its runs, and around it their interval. */
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
      series.push({ stroke: "transparent", points: { show: false } }, { stroke: "transparent", points: { show: false } });
    }
    data.push(curve.median);
    series.push({ label: curve.strategy, stroke, dash, width: 2, points: { show: false } });
  }
  const read = (i) => `${xText(chart.x[i])}: ` + curves.filter((curve) => curve.median[i] != null)
    .map((curve) => `${curve.strategy} ${between(curve.median[i], curve.low[i], curve.high[i])}`).join(" · ");
  return mount(host, readout, {
    series, bands,
    scales: { x: { time: false }, y: log ? { distr: 3 } : { range: (u, min, max) => [0, Math.max(max, 1) * 1.05] } },
    axes: [
      axis({ label: xLabel, ...(place && { splits: place.splits, values: (u, at) => at.map((i) => xText(chart.x[i])) }) }),
      axis({ label: yLabel, size: 62, values: (u, at) => at.map((v) => (v == null ? "" : words(v))) }),
    ],
  }, data, read);
}

/** bars draws one bar up and one down for each strategy, its value, and a whisker for the interval. */
function bars(host, readout, list, { strategies, shown, over, under }) {
  const rows = list.filter((bar) => shown.has(bar.strategy));
  const x = rows.map((_, i) => i);
  const up = rows.map((bar) => bar.over.median);
  const down = rows.map((bar) => -bar.under.median);
  const most = Math.max(1, ...rows.map((bar) => bar.over.high));
  const least = -Math.max(0, ...rows.map((bar) => bar.under.high));
  const path = uPlot.paths.bars({ size: [0.7, 60] });
  const annotate = (u) => {
    const ratio = devicePixelRatio;
    const { ctx } = u;
    ctx.save();
    ctx.font = `${12 * ratio}px system-ui, sans-serif`;
    ctx.textAlign = "center";
    ctx.lineWidth = ratio * 1.5;
    ctx.strokeStyle = ctx.fillStyle = colour("--text");
    for (const [i, bar] of rows.entries()) {
      const left = u.valToPos(i, "x", true);
      for (const [estimate, sign] of [[bar.over, 1], [bar.under, -1]]) {
        const at = (value) => u.valToPos(sign * value, "y", true);
        if (estimate.high > 0) ctx.fillText(words(estimate.median), left, at(estimate.high) - sign * 5 * ratio + (sign < 0 ? 8 * ratio : 0));
        else if (sign > 0 && bar.under.high === 0) ctx.fillText("0", left, at(0) - 5 * ratio);
        if (estimate.low === estimate.high) continue;
        ctx.beginPath();
        ctx.moveTo(left, at(estimate.low));
        ctx.lineTo(left, at(estimate.high));
        for (const end of [estimate.low, estimate.high]) {
          ctx.moveTo(left - 4 * ratio, at(end));
          ctx.lineTo(left + 4 * ratio, at(end));
        }
        ctx.stroke();
      }
    }
    ctx.restore();
  };
  const read = (i) => rows[i] ? `${rows[i].strategy}: ${over} ${between(rows[i].over.median, rows[i].over.low, rows[i].over.high)}, ` +
    `${under} ${between(rows[i].under.median, rows[i].under.low, rows[i].under.high)}` : "";
  return mount(host, readout, {
    series: [{}, { label: over, paths: path, fill: colour("--alarm"), points: { show: false } }, { label: under, paths: path, fill: colour("--warn"), points: { show: false } }],
    scales: { x: { time: false, range: () => [-0.6, Math.max(rows.length, 1) - 0.4] }, y: { range: () => [least * 1.4, most * 1.15] } },
    axes: [
      axis({ splits: () => x, values: (u, at) => at.map((i) => rows[i]?.strategy ?? ""), rotate: -40, size: 84, grid: { show: false } }),
      axis({ size: 62, incrs: Array.from({ length: 7 }, (_, i) => [1, 2, 5].map((n) => n * 10 ** i)).flat(), values: (u, at) => at.map((v) => words(Math.abs(v))) }),
    ],
    hooks: { draw: [annotate] },
  }, [x, up, down], read);
}
