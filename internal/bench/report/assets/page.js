// The page: draws the charts of each condition for the strategies that are shown.

const plots = JSON.parse(document.getElementById("plots").textContent);
const shown = new Set(plots.strategies);
let drawn = []; // the charts and their hosts

/** say returns a text in the language of the page, with values in place of its braces. */
function say(english, values = {}) {
  return (plots.words?.[english] ?? english).replace(/\{(\w+)\}/g, (_, name) => values[name]);
}

/** percent names a percentile. */
const percent = (p) => (p === 0 ? say("min") : p === 100 ? say("max") : `p${p}`);

/** overPercentiles returns the options of a chart whose x axis shows percentiles. */
function overPercentiles(chart) {
  const named = new Set([0, 25, 50, 75, 90, 99, 100]);
  const splits = () => chart.x.flatMap((p, i) => (named.has(p) ? [i] : []));
  return { log: true, yLabel: say("ms"), xText: percent, place: { splits } };
}

/** figures lists the plots of a condition: name, explanation, and how to draw each. */
function figures(condition) {
  const since = condition.open ? say("the planned time of a request") : say("the common start");
  const [over, under] = plots.reads ? [say("loads"), say("not served")] : [say("oversold"), say("undersold")];
  const common = { strategies: plots.strategies, shown, over, under };
  const percentiles = (chart) => (host, readout) =>
    lines(host, readout, chart, { ...common, ...overPercentiles(chart) });
  const seconds = (s) => say("{s} s", { s: words(s) });
  const overTime = { ...common, xLabel: say("s"), yLabel: say("per second"), xText: seconds };
  return [{
    name: plots.reads
      ? say("Loads (up) and readers not served (down)")
      : say("Units oversold (up) and undersold (down)"),
    note: say("the number at a bar is its median; the whisker is the interval of the runs"),
    draw: (host, readout) => bars(host, readout, condition.bars, common),
    empty: condition.bars.length === 0,
  }, {
    name: condition.open ? say("Response time") : say("Latency"),
    note: say("percentiles of all requests, from {since} to the outcome", { since }),
    draw: percentiles(condition.latency),
    empty: condition.latency.curves.length === 0,
  }, {
    name: plots.reads ? say("Values read over time") : say("Units sold over time"),
    note: say("requests served per second"),
    draw: (host, readout) => lines(host, readout, condition.served, overTime),
    empty: condition.served.curves.length === 0,
  }, {
    name: say("Wait for the lock"),
    note: say("percentiles of the requests that entered the critical section, from {since}", { since }),
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

/** frame makes the figure of a plot, and returns a function that draws it. A plot without data is left out. */
function frame(grid, condition, { name, note, draw, empty }) {
  if (empty) return null;
  const figure = element("figure", "");
  const caption = element("figcaption", "", name);
  caption.append(element("span", "small", note));
  figure.append(caption);
  grid.append(figure);
  const host = element("div", "chart");
  host.tabIndex = 0;
  host.setAttribute("role", "img");
  host.setAttribute("aria-label", say("{name}, under {condition}", { name, condition }));
  const readout = element("p", "small readout");
  readout.setAttribute("role", "status");
  figure.append(host, readout);
  return () => drawn.push({ host, chart: draw(host, readout) });
}

const drawings = [];
for (const section of document.querySelectorAll(".plots")) {
  const condition = plots.conditions.find(({ name }) => name === section.dataset.condition);
  for (const plot of figures(condition)) drawings.push(frame(section.querySelector(".grid"), condition.title, plot));
}

/** redraw draws all charts again, after a change of colours or strategies. */
function redraw() {
  for (const { chart } of drawn) chart.destroy();
  drawn = [];
  for (const draw of drawings) draw?.();
}

/** sample draws a piece of a strategy's line, for its button. */
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
