// The dialog of a cell: a description of the cell, its lanes, and the list of its moments.

const dialog = document.getElementById("cell");
const part = (selector) => dialog.querySelector(selector);
let redraw = null; // draws the lanes of the open cell again

new ResizeObserver(() => redraw?.()).observe(part(".story"));

/** say returns a text in the language of the page, with values in place of the names in braces. */
function say(english, values = {}) {
  return (data.words?.[english] ?? english).replace(/\{(\w+)\}/g, (_, name) => values[name]);
}

/** fillCell shows a cell in the dialog. */
function fillCell(cell, anomaly) {
  const name = anomaly.title ? `${anomaly.title} ${cell.anomaly}` : cell.anomaly;
  part("#cell-title").replaceChildren(name, el("span.on", ` ${say("on")} `), cell.strategy);
  part(".verdict .mark").className = `mark ${cell.class}`;
  part(".verdict .mark").textContent = cell.verdict.split(/[ ,，（]/, 1)[0];
  part(".verdict .words").textContent = cell.verdict.replace(/^[^ ,，（]+[,，]? ?/, "");
  part(".note").textContent = cell.note;
  part(".about .sentence").textContent = anomaly.sentence;
  section(".sequence", anomaly.sequence);
  section(".source", ...linked(anomaly.source));
  part(".run code").textContent = cell.command;
  part(".copy").textContent = say("copy");
  fillStory(cell);
  part(".body").scrollTop = 0;
}

/** section fills a section; an empty one is hidden with its heading. */
function section(selector, ...content) {
  const node = part(selector);
  node.replaceChildren(...content);
  node.hidden = node.previousElementSibling.hidden = node.textContent === "";
}

function fillStory(cell) {
  const none = cell.rows.length === 0;
  part(".moment").hidden =
    part(".inredis").hidden =
    part(".list").hidden =
    part(".key").hidden =
      none;
  redraw = null;
  if (none) {
    part(".lanes").className = "lanes";
    part(".lanes").replaceChildren(el("p.nothing", say("Nothing was run, so there is no timeline.")));
    return;
  }
  for (const item of dialog.querySelectorAll(".key .in-redis")) item.hidden = !cell.lock;
  part(".list summary").textContent = say("All {count} moments as a list", { count: cell.rows.length });
  part(".list ol").replaceChildren(...cell.rows.map((row) => el("li", sentence(cell, row))));
  let width = 0;
  redraw = () => {
    if (part(".lanes").clientWidth === width || !dialog.open) return;
    width = part(".lanes").clientWidth;
    drawLanes(part(".lanes"), cell, (row, event) => showMoment(cell, row, event));
    const breaks = cell.rows.findIndex((row) => row.kind === "break");
    showMoment(cell, cell.rows[Math.max(0, breaks)], part(".lanes").querySelectorAll(".event")[Math.max(0, breaks)]);
  };
  redraw();
}

/** showMoment shows all that is known about a moment. */
function showMoment(cell, row, event) {
  part(".event.shown")?.classList.remove("shown");
  event.classList.add("shown");
  const { text, reply } = words(row);
  const find = el("button.there", { onclick: () => event.scrollIntoView({ block: "center" }) }, say("find it"));
  put(part(".moment"), find, el("strong", `${row.time} ${cell.unit}`),
    row.actor < 0 ? "" : ` · ${cell.actors[row.actor]}`, el("pre", text + reply),
    el("span.small", standing(cell, row)));
  showKeys(cell, row);
}

const ofKeys = (name) => ({ key: say("key in Redis"), value: say("value"), ttl: "ttl", gone: say("not there") })[name];

/** showKeys shows the keys in Redis after a moment. */
function showKeys(cell, row) {
  part(".inredis").hidden = !cell.rows.some((each) => each.keys);
  const unknown = say("The keys are not known here, because earlier commands are not shown.");
  put(part(".inredis"), row.blind ? el("p.small", unknown) : keyTable(keysAt(cell, row), ofKeys));
}

/** standing returns a sentence about the state after a moment. */
function standing(cell, row) {
  const who = (row.believe ?? []).map((actor) => cell.actors[actor]).join(say(" and ")) || say("nobody");
  if (!cell.lock) return row.believe ? say("Actors that believe they hold the lock: {who}.", { who }) : "";
  if (!row.holder) {
    return say("Redis has not been asked yet who holds the lock. Actors that believe they hold it: {who}.", { who });
  }
  const left = row.ttl == null
    ? (row.left ? say(", with no lease") : "")
    : say(", {left} {unit} left", { left: row.left, unit: cell.unit });
  const held = row.holder === "free"
    ? say("the lock is free")
    : say("{holder} holds the lock", { holder: row.holder });
  return say("Redis: {held}. Actors that believe they hold it: {who}.", { held: held + left, who });
}

function sentence(cell, row) {
  const { text, reply } = words(row);
  const lead = row.kind === "break" ? `${say("breaks")}: ` : row.actor < 0 ? "" : `${cell.actors[row.actor]}: `;
  return `${row.time} ${cell.unit} · ${lead}${text}${reply} · ${standing(cell, row)}`.replace(/ · $/, "");
}

part(".copy").addEventListener("click", async () => {
  const code = part(".run code");
  try {
    await navigator.clipboard.writeText(code.textContent);
    part(".copy").textContent = say("copied");
  } catch {
    getSelection().selectAllChildren(code); // the user can copy it
    part(".copy").textContent = say("selected: press Ctrl+C");
  }
});
