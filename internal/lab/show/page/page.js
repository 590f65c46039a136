// The page. Its address names the open cell: #anomaly/strategy.

const data = JSON.parse(document.getElementById("data").textContent);
const cells = new Map(data.cells.map((cell) => [`${cell.anomaly}/${cell.strategy}`, cell]));
const grid = [...document.querySelectorAll(".matrix tbody tr:not(.loss)")].map((row) =>
  [...row.cells].slice(1).map((cell) => cell.querySelector("a"))
);
const links = grid.flat();
let current = links[0]; // the cell that is open or was open last

/** go shows what the address says. */
function go() {
  const cell = cells.get(decoded(location.hash.slice(1)));
  if (!cell) return dialog.close();
  choose(links.find((link) => link.getAttribute("href") === cell.link) ?? current);
  if (!dialog.open) dialog.showModal();
  fillCell(cell, data.anomalies[cell.anomaly]);
  document.title = `${cell.anomaly} ${say("on")} ${cell.strategy}: ${say("Failure lab")}`;
}

function decoded(address) {
  try {
    return decodeURIComponent(address);
  } catch {
    return ""; // mistyped
  }
}

/** choose makes a cell the only one that Tab reaches. */
function choose(link) {
  current.tabIndex = -1;
  current = link;
  current.tabIndex = 0;
}

/** move moves the focus to the next cell in a direction. */
function move(down, right) {
  const row = grid.findIndex((line) => line.includes(current));
  const next = grid[row + down]?.[grid[row].indexOf(current) + right];
  if (!next) return;
  choose(next);
  if (!dialog.open) return next.focus();
  history.replaceState(null, "", next.getAttribute("href"));
  go();
}

const keys = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0], k: [-1, 0], j: [1, 0] };

document.addEventListener("keydown", (event) => {
  const direction = keys[event.key];
  if (!direction || event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
  const vertical = event.key === "ArrowUp" || event.key === "ArrowDown";
  if (dialog.open && vertical) return alongEvents(event, direction[0]);
  if (!dialog.open && !links.includes(document.activeElement)) return;
  event.preventDefault();
  if (!dialog.open) choose(document.activeElement);
  move(...direction);
});

/** alongEvents moves the focus from one moment to the next. */
function alongEvents(event, step) {
  const events = [...dialog.querySelectorAll(".event")];
  const next = events[events.indexOf(document.activeElement) + step];
  if (!events.includes(document.activeElement) || !next) return; // the arrow keys scroll
  event.preventDefault();
  next.focus();
}

for (const button of dialog.querySelectorAll("[data-move]")) {
  button.addEventListener("click", () => move(...button.dataset.move.split(",").map(Number)));
}
dialog.querySelector(".close").addEventListener("click", () => dialog.close());
dialog.addEventListener("close", () => {
  document.title = say("Failure lab: anomalies × strategies");
  if (location.hash) history.replaceState(null, "", location.href.split("#")[0]);
  current?.focus();
});
addEventListener("hashchange", go);

for (const link of links) link.tabIndex = link === current ? 0 : -1;
if (location.hash) go();
