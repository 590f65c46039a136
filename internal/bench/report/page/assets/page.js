// The page: draws the charts of each condition for the strategies that are shown.

const plots = JSON.parse(document.getElementById("plots").textContent);
const shown = new Set(plots.strategies);
let drawn = []; // the charts and their hosts

/** percent names a percentile. */
const percent = (p) => (p === 0 ? "min" : p === 100 ? "max" : `p${p}`);

/** overPercentiles returns the options of a chart whose x axis is percentiles. */
function overPercentiles(chart) {
  const named = new Set([0, 25, 50, 75, 90, 99, 100]);
  const splits = () => chart.x.flatMap((p, i) => (named.has(p) ? [i] : []));
  return { log: true, yLabel: "ms", xText: percent, place: { splits } };
}

/** figures lists the plots of a condition: name, explanation, and how to draw each. */
function figures(condition) {
  const since = plots.open ? "the planned time of a request" : "the common start";
  const [over, under] = plots.reads ? ["loads", "not served"] : ["oversold", "undersold"];
  const common = { strategies: plots.strategies, shown, over, under };
  const percentiles = (chart) => (host, readout) =>
    lines(host, readout, chart, { ...common, ...overPercentiles(chart) });
  const overTime = { ...common, xLabel: "s", yLabel: "per second", xText: (s) => `${words(s)} s` };
  return [{
    name: plots.reads ? "Loads (up) and readers not served (down)" : "Units oversold (up) and undersold (down)",
    note: "the number at a bar is its median; the whisker is the interval of the runs",
    draw: (host, readout) => bars(host, readout, condition.bars, common),
    empty: condition.bars.length === 0,
  }, {
    name: plots.open ? "Response time" : "Latency",
    note: `percentiles of all requests, from ${since} to the outcome`,
    draw: percentiles(condition.latency),
    empty: condition.latency.curves.length === 0,
  }, {
    name: plots.reads ? "Values read over time" : "Units sold over time",
    note: "requests served per second",
    draw: (host, readout) => lines(host, readout, condition.served, overTime),
    empty: condition.served.curves.length === 0,
  }, {
    name: "Wait for the lock",
    note: `percentiles of the requests that entered the critical section, from ${since}`,
    draw: percentiles(condition.wait),
    empty: condition.wait.curves.length === 0,
  }];
}

/** element makes an element with a class and a text. */
function element(name, className, text = "") {
  const node = document.createElement(name);
  node.className = className;
  node.textContent = text;
  return node;
}

/** frame makes the figure of a plot, and returns how to draw it. */
function frame(grid, condition, { name, note, draw, empty }) {
  const figure = element("figure", "");
  const caption = element("figcaption", "", name);
  caption.append(element("span", "small", note));
  figure.append(caption);
  grid.append(figure);
  if (empty) {
    figure.append(element("p", "small", "There is nothing to draw."));
    return null;
  }
  const host = element("div", "chart");
  host.tabIndex = 0;
  host.setAttribute("role", "img");
  host.setAttribute("aria-label", `${name}, under ${condition}`);
  const readout = element("p", "small readout");
  readout.setAttribute("role", "status");
  figure.append(host, readout);
  return () => drawn.push({ host, chart: draw(host, readout) });
}

const drawings = [];
for (const section of document.querySelectorAll(".plots")) {
  const condition = plots.conditions.find(({ name }) => name === section.dataset.condition);
  for (const plot of figures(condition)) drawings.push(frame(section.querySelector(".grid"), condition.name, plot));
}

/** redraw draws everything again, after a change of colours or strategies. */
function redraw() {
  for (const { chart } of drawn) chart.destroy();
  drawn = [];
  for (const draw of drawings) draw?.();
}

/** sample is a piece of a strategy's line, for its button. */
function sample(index) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", "0 0 26 10");
  svg.setAttribute("aria-hidden", "true");
  svg.setAttribute("class", `h${index % hues}`);
  const line = document.createElementNS("http://www.w3.org/2000/svg", "line");
  for (const [name, value] of Object.entries({ x1: 0, x2: 26, y1: 5, y2: 5 })) line.setAttribute(name, value);
  const { dash } = look(index);
  if (dash) line.setAttribute("stroke-dasharray", dash.join(" "));
  svg.append(line);
  return svg;
}

for (const [index, strategy] of plots.strategies.entries()) {
  const button = element("button", "");
  button.type = "button";
  button.setAttribute("aria-pressed", "true");
  button.append(sample(index), strategy);
  button.addEventListener("click", () => {
    if (!shown.delete(strategy)) shown.add(strategy);
    button.setAttribute("aria-pressed", String(shown.has(strategy)));
    redraw();
  });
  document.querySelector(".strategies").append(button);
}

const report = JSON.parse(document.getElementById("report").textContent);
const file = new Blob([JSON.stringify(report, null, 2) + "\n"], { type: "application/json" });
document.getElementById("download").href = URL.createObjectURL(file);

redraw();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
new ResizeObserver(() => {
  for (const { host, chart } of drawn) {
    if (host.clientWidth !== chart.width) chart.setSize({ width: host.clientWidth, height: chartHeight });
  }
}).observe(document.body);
