// Lanes: a story drawn from top to bottom, with a lane for each actor. The browser lays out the
// rows, so that long commands wrap; bands and ticks are drawn behind them, at the positions of the
// rows. This file also contains the helpers that this page and the shop's page share.

const BAND = 6; // width of a band; a lane begins with two of them
const WIDE = 128; // if lanes are narrower, texts are beside them
const THIN = 20;
const TEXT = 110; // minimum width of texts beside the lanes
const GAP = 6; // between columns
const ARC = 60; // how far the arc of a delayed command bends away from the ticks of its lane
const MIDDLE = 11; // from the top of a row to the middle of its first line of text

/** zoom returns how many times larger the page's type is than usual, for example on a projector. */
export const zoom = () => parseFloat(getComputedStyle(document.documentElement).fontSize) / 16;

/**
 * el makes an element: el("p.small", { title }, "text"), where the attributes may be left out.
 * Strings among its children become text, never markup. Attributes that are functions become event listeners.
 */
export function el(tag, ...children) {
  const [name, ...classes] = tag.split(".");
  const node = document.createElement(name);
  if (classes.length > 0) node.className = classes.join(" ");
  if (name === "button") node.type = "button"; // unless its attributes make it a submit button
  const attributes = children[0]?.constructor === Object ? children.shift() : {};
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, "");
    else if (value != null && value !== false) node.setAttribute(name, value);
  }
  node.append(...present(children));
  return node;
}

/** put replaces the children of a node. Null and false are left out, as in el. */
export function put(node, ...children) {
  node.replaceChildren(...present(children));
}

const present = (children) => children.flat().filter((child) => child != null && child !== false);

/** linked returns the parts of a text, with links in place of addresses. */
export function linked(text) {
  return text.split(/(\s+)/).map((word) =>
    /^https?:\/\/\S+$/.test(word) && URL.canParse(word) ? el("a", { href: word, rel: "noreferrer" }, word) : word
  );
}

export function svg(tag, attributes) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  return node;
}

const hue = (actor) => (actor < 0 ? "nobody" : `a${actor % 6}`);

// A script's hash, a UUID token, and the name of a script, which is its first comment.
const longHex = /\b([0-9a-f]{8})([0-9a-f]{32}|-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})\b/g;
const longScript = /«([^»]{22})[^»]{4,}»/g;

/** abridge shortens long names, to leave room for the parts in which commands differ. */
const abridge = (text) => text.replace(longHex, "$1…").replace(longScript, "«$1…»");

/** words returns the words of a row: its text, or a shorter version, and the reply. */
export function words(row, text = row.text) {
  const sign = { hold: "▼ ", release: "▲ ", lost: "△ ", fault: "‡ ", break: "✗ " }[row.kind] ?? "";
  let reply = row.reply ? ` → ${row.reply}` : "";
  if (row.waits) reply = " …";
  if (row.again) reply += `, ${row.again}`;
  return { text: (row.answers ? "↳ " : sign) + text, reply };
}

/** drawLanes fills box with the cell's story. It calls show with the row under the pointer. */
export function drawLanes(box, cell, show) {
  const narrow = box.clientWidth < 600;
  const size = zoom();
  const time = size * (narrow ? 44 : 52);
  const redis = cell.lock ? size * (narrow ? 74 : 86) : 0;
  const room = box.clientWidth - time - (redis ? redis + GAP : 0); // for the lanes, each with its gap
  const wide = cell.actors.length > 0 && room / cell.actors.length - GAP >= WIDE * size;
  const many = !wide && room - cell.actors.length * (THIN + GAP) - GAP < TEXT * size;
  // Texts are inside the lanes, to the right of thin lanes, or to the left of lanes that are scrolled.
  const lanes = cell.actors.map(() => (wide ? "minmax(0, 1fr)" : `${THIN}px`));
  if (!wide) many ? lanes.unshift(`${210 * size}px`) : lanes.push("minmax(0, 1fr)");
  box.style.setProperty("--columns", [`${time}px`, ...(redis ? [`${redis}px`] : []), ...lanes].join(" "));
  box.className = `lanes ${wide ? "wide" : "thin"} ${many ? "many" : ""}`;

  const lane = (redis ? 3 : 2) + (many ? 1 : 0); // grid column of the first lane
  const text = many ? lane - 1 : lane + cell.actors.length;
  const heads = el("div.heads", el("span.time", cell.unit),
    redis > 0 && el("span.redis", el("span", "Redis"), el("span", "ttl")),
    cell.actors.map((name, i) => placed(lane + i, el(`span.actor.${hue(i)}`, { title: name }, name))));
  const column = (row) => {
    if (!wide) return `${text}`;
    return row.actor < 0 || row.kind === "break" ? `${lane} / -1` : `${lane + row.actor}`;
  };
  const rows = cell.rows.map((row, i) =>
    drawRow(cell, row, cell.rows[i - 1], { wide, redis, column: column(row), show })
  );
  box.replaceChildren(heads, ...rows);
  box.prepend(drawBands(cell, heads, rows, redis, box));
}

/** placed puts a node into a column of the grid. */
function placed(column, node) {
  node.style.gridColumn = column;
  return node;
}

/** drawRow draws one moment: its time, the lock in Redis, and what happens. */
function drawRow(cell, row, before, { wide, redis, column, show }) {
  const { text, reply } = words(row, abridge(row.text));
  const who = row.actor >= 0 && !wide && row.kind !== "break" && el("span.who", `${cell.actors[row.actor]} `);
  const on = () => show(row, event);
  const event = placed(column,
    el(`button.event.${row.kind}.${hue(row.actor)}`, { onmouseenter: on, onfocus: on, onclick: on }, who, text,
      reply && el("span.reply", reply)));
  const line = el(`div.row.${row.kind}`, el("span.time", row.time));
  if (redis) {
    const name = row.holder === "free" ? cell.free ?? "free" : row.holder ?? "";
    const holder = row.holder !== before?.holder ? name : "";
    line.append(el("span.redis", el("span.holder", holder), el("span.left", row.left ?? "")));
  }
  line.append(event);
  const passed = before ? row.at - before.at : 0;
  const whole = cell.rows.at(-1).at - cell.rows[0].at;
  if (passed > 0) line.style.marginTop = `${Math.min(46, 2 + (260 * passed) / whole)}px`;
  return line;
}

/** holdsWith tells whether actor shares the lock that holding has in Redis: A/1 is a caller in process A. */
export const holdsWith = (actors, holding, actor) =>
  holding === actor || (actors[actor] ?? "").startsWith(`${actors[holding]}/`);

/** drawBands draws, behind the rows, which actors hold the lock and which believe that they do. */
function drawBands(cell, heads, rows, redis, box) {
  const bottom = rows.at(-1).offsetTop + rows.at(-1).offsetHeight;
  const picture = svg("svg", { width: box.scrollWidth, height: bottom, "aria-hidden": "true" });
  const tops = [...rows.map((row) => row.offsetTop + MIDDLE * zoom()), bottom];
  const left = [...heads.querySelectorAll(".actor")].map((head) => head.offsetLeft);
  const last = heads.querySelector(".actor:last-child"); // it may be out of sight to the right of the rows
  const laneEnd = Math.max(rows[0].offsetLeft + rows[0].offsetWidth, last ? last.offsetLeft + last.offsetWidth : 0) - 1;

  const bar = (cls, x, from, to, width) =>
    picture.append(svg("rect", { class: cls, x, width, y: tops[from], height: Math.max(2, tops[to] - tops[from]) }));

  const two = (row) => (row.believe?.length ?? 0) > 1;
  runs(cell.rows, two, (from, to) => bar("two", left[0] - 3, from, to, laneEnd - left[0] + 3));
  left.forEach((x, actor) => {
    picture.append(svg("line", { class: "lane", x1: x - 3, x2: x - 3, y1: 0, y2: bottom }));
    runs(cell.rows, (row) => row.holding === actor, (from, to) => bar(`holds ${hue(actor)}`, x, from, to, BAND));
    const alone = (row) => cell.lock && !holdsWith(cell.actors, row.holding, actor);
    const believes = (row) => row.believe?.includes(actor) && (alone(row) ? "alone" : "believes");
    const draw = (from, to, how) => bar(`believes ${how} ${hue(actor)}`, x + BAND + 3, from, to, BAND - 1);
    runs(cell.rows, believes, draw);
  });
  if (redis) drawLease(picture, cell, tops, heads.children[1].offsetLeft, redis - 4);
  cell.rows.forEach((row, i) => drawTick(picture, row, i, tops, left, laneEnd));
  return picture;
}

/** runs calls draw for each run of consecutive rows with the same value of what(row). */
function runs(rows, what, draw) {
  let from = 0;
  for (let i = 1; i <= rows.length; i++) {
    if (i < rows.length && what(rows[i]) === what(rows[from])) continue;
    const value = what(rows[from]);
    if (value) draw(from, i, value);
    from = i;
  }
}

/** drawLease draws the lease as a band that narrows as it runs out. */
function drawLease(picture, cell, tops, x, width) {
  const longest = Math.max(1, ...cell.rows.map((row) => row.ttl ?? 0));
  cell.rows.forEach((row, i) => {
    if (!row.holder || row.holder === "free") return;
    const next = cell.rows[i + 1];
    const now = row.ttl == null ? width : (width * row.ttl) / longest;
    const then = row.ttl == null || !next ? now : (width * Math.max(0, row.ttl - (next.at - row.at))) / longest;
    const points = `${x},${tops[i]} ${x + now},${tops[i]} ${x + then},${tops[i + 1]} ${x},${tops[i + 1]}`;
    picture.append(svg("polygon", { class: `lease ${hue(row.holding)}`, points }));
  });
}

/** drawTick marks a row in its actor's lane, and draws an arc from a delayed command to its arrival. */
function drawTick(picture, { kind, actor, arrives }, i, tops, left, laneEnd) {
  const draw = (tag, attributes) => picture.append(svg(tag, attributes));
  if (kind === "break") draw("line", { class: "broken", x1: left[0] ?? 0, x2: laneEnd, y1: tops[i], y2: tops[i] });
  if (actor < 0 || kind === "break") return;
  const x = left[actor] + 2 * BAND + 7;
  if (arrives) {
    const room = (left[actor + 1] ?? laneEnd) - x - GAP; // to the next lane
    const d = arc(x, tops[i], tops[i + 1] - MIDDLE * zoom(), tops[arrives], Math.min(ARC, room));
    draw("path", { class: `flight ${hue(actor)}`, d });
    draw("path", { class: `arrival ${hue(actor)}`, d: `M${x - 5} ${tops[arrives] - 13} h10 l-5 9 Z` });
  }
  if (kind === "command") draw("circle", { class: `tick ${hue(actor)}`, cx: x, cy: tops[i], r: 3 });
}

/** arc returns a path from one row down to another. It bends outwards between the texts of the two rows. */
function arc(x, from, below, to, room) {
  const above = to - 13;
  const out = x + Math.max(6, room) * 4 / 3; // the curve reaches three quarters of this distance
  const bend = above - below > 16 ? ` C${out} ${below + 6} ${out} ${above - 6} ${x} ${above}` : "";
  return `M${x} ${from} V${Math.min(below, above)}${bend} V${above}`;
}

const FEW = 8; // up to this number of keys, missing keys are shown too, so that the other keys keep their places

/** keysAt returns the keys that Redis has after a row of a cell, and says which of them the row changed. */
export function keysAt(cell, row) {
  const keys = new Map(cell.rows.flatMap((each) => each.keys ?? []).map(({ name }) => [name, { name, gone: true }]));
  for (const { at, keys: changed } of cell.rows.slice(0, cell.rows.indexOf(row) + 1)) {
    for (const key of changed ?? []) keys.set(key.name, { ...key, at });
  }
  const changed = new Set(row.keys?.map(({ name }) => name));
  const left = (key) => Math.round((key.ttl_ms - (row.at - key.at)) * 1000) / 1000;
  const time = (ms) => `${cell.unit === "s" ? (ms / 1000).toFixed(3) : Math.floor(ms)} ${cell.unit}`;
  const ttl = (key) => (key.ttl_ms == null ? "–" : time(left(key)));
  return [...keys.values()].map((key) => ({ ...key, changed: changed.has(key.name), ttl: ttl(key) })).filter((key) =>
    keys.size <= FEW || !key.gone || key.changed
  ).sort((a, b) => (a.name < b.name ? -1 : 1));
}

/** keyTable returns a table of keys. It calls say with the name of each word in the table. */
export function keyTable(keys, say) {
  const row = ({ name, type, value, ttl, gone, changed }) =>
    el("tr", { class: `${gone ? "gone" : ""} ${changed ? "changed" : ""}` },
      el("th", { scope: "row" }, el("code", name), " ", type && !gone && el("span.small.kind", type)),
      el("td", gone ? say("gone") : el("code", value)), el("td.number", gone ? "" : ttl));
  const title = (name) => el("th", { scope: "col", class: name === "ttl" ? "number" : null }, say(name));
  return el("table.rows.keys", el("thead", el("tr", ["key", "value", "ttl"].map(title))), el("tbody", keys.map(row)));
}
