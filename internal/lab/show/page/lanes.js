// Lanes: a story drawn downwards, a lane an actor. Rows are laid out by the
// browser, so that long commands wrap; bands and ticks are drawn behind them,
// where the rows have come to lie.

const BAND = 6; // width of a band; a lane begins with two of them
const WIDE = 128; // narrower lanes have their texts beside them
const THIN = 20;
const TEXT = 110; // the texts beside them need as much
const GAP = 6; // between columns

/** el makes an element; strings among its children become text, never markup. */
export function el(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) node.setAttribute(name, value);
  node.append(...children.filter((child) => child != null));
  return node;
}

export function svg(tag, attributes) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  return node;
}

const hue = (actor) => (actor < 0 ? "nobody" : `a${actor % 6}`);

/** words is what a row says: its text, or a shorter one, and the reply. */
export function words(row, text = row.text) {
  const sign = { hold: "▼ ", release: "▲ ", lost: "△ ", fault: "‡ ", break: "✗ " }[row.kind] ?? "";
  let reply = row.reply ? ` → ${row.reply}` : "";
  if (row.waits) reply = " …";
  if (row.again) reply += `, ${row.again}`;
  return { text: (row.answers ? "↳ " : sign) + text, reply };
}

/** drawLanes fills box with the cell's story; show is called with a row. */
export function drawLanes(box, cell, show) {
  const narrow = box.clientWidth < 600;
  const time = narrow ? 44 : 52;
  const redis = cell.lock ? (narrow ? 74 : 86) : 0;
  const room = box.clientWidth - time - (redis ? redis + GAP : 0); // for the lanes, each with its gap
  const wide = cell.actors.length > 0 && room / cell.actors.length - GAP >= WIDE;
  const many = !wide && room - cell.actors.length * (THIN + GAP) - GAP < TEXT;
  // Texts are in the lanes, right of thin lanes, or, where these do not fit
  // and are scrolled, left of them.
  const lanes = cell.actors.map(() => (wide ? "minmax(0, 1fr)" : `${THIN}px`));
  if (!wide) many ? lanes.unshift("210px") : lanes.push("minmax(0, 1fr)");
  box.style.setProperty("--columns", [`${time}px`, ...(redis ? [`${redis}px`] : []), ...lanes].join(" "));
  box.className = `lanes ${wide ? "wide" : "thin"} ${many ? "many" : ""}`;

  const lane = (redis ? 3 : 2) + (many ? 1 : 0); // grid column of the first lane
  const text = many ? lane - 1 : lane + cell.actors.length;
  const heads = el("div", { class: "heads" }, el("span", { class: "time" }, cell.unit),
    redis ? el("span", { class: "redis" }, el("span", {}, "Redis"), el("span", {}, "ttl")) : null,
    ...cell.actors.map((name, i) => el("span", { class: `actor ${hue(i)}`, title: name, "data-column": lane + i }, name)));
  for (const head of heads.querySelectorAll(".actor")) head.style.gridColumn = head.dataset.column;
  const column = (row) => {
    if (!wide) return `${text}`;
    return row.actor < 0 || row.kind === "break" ? `${lane} / -1` : `${lane + row.actor}`;
  };
  const rows = cell.rows.map((row, i) => drawRow(cell, row, cell.rows[i - 1], { wide, redis, column: column(row), show }));
  box.replaceChildren(heads, ...rows);
  box.prepend(drawBands(cell, heads, rows, redis, box));
}

/** drawRow is one moment: its time, what Redis has, and what happens. */
function drawRow(cell, row, before, { wide, redis, column, show }) {
  const { text, reply } = words(row, row.short);
  const who = row.actor >= 0 && !wide && row.kind !== "break" ? el("span", { class: "who" }, `${cell.actors[row.actor]} `) : null;
  const event = el("button", { type: "button", class: `event ${row.kind} ${hue(row.actor)}` },
    who, text, reply ? el("span", { class: "reply" }, reply) : null);
  event.addEventListener("mouseenter", () => show(row, event));
  event.addEventListener("focus", () => show(row, event));
  event.addEventListener("click", () => show(row, event));
  event.style.gridColumn = column;

  const line = el("div", { class: `row ${row.kind}` }, el("span", { class: "time" }, row.time));
  if (redis) {
    const name = row.holder === "free" ? cell.free ?? "free" : row.holder ?? "";
    const holder = row.holder !== before?.holder ? name : "";
    line.append(el("span", { class: "redis" }, el("span", { class: "holder" }, holder), el("span", { class: "left" }, row.left ?? "")));
  }
  line.append(event);
  const passed = before ? row.at - before.at : 0;
  const whole = cell.rows.at(-1).at - cell.rows[0].at;
  if (passed > 0) line.style.marginTop = `${Math.min(46, 2 + (260 * passed) / whole)}px`;
  return line;
}

/** holdsWith tells whether the hold that Redis has as one actor's is another's too: A/1 is a caller of process A. */
export const holdsWith = (actors, holding, actor) => holding === actor || (actors[actor] ?? "").startsWith(`${actors[holding]}/`);

/** drawBands draws, behind the rows, who holds and who believes to. */
function drawBands(cell, heads, rows, redis, box) {
  const bottom = rows.at(-1).offsetTop + rows.at(-1).offsetHeight;
  const picture = svg("svg", { width: box.scrollWidth, height: bottom, "aria-hidden": "true" });
  const tops = [...rows.map((row) => row.offsetTop + 11), bottom];
  const left = [...heads.querySelectorAll(".actor")].map((head) => head.offsetLeft);
  const last = heads.querySelector(".actor:last-child"); // which may be out of sight, right of the rows
  const laneEnd = Math.max(rows[0].offsetLeft + rows[0].offsetWidth, last ? last.offsetLeft + last.offsetWidth : 0) - 1;

  const bar = (cls, x, from, to, width) =>
    picture.append(svg("rect", { class: cls, x, width, y: tops[from], height: Math.max(2, tops[to] - tops[from]) }));

  runs(cell.rows, (row) => (row.believe?.length ?? 0) > 1, (from, to) => bar("two", left[0] - 3, from, to, laneEnd - left[0] + 3));
  left.forEach((x, actor) => {
    picture.append(svg("line", { class: "lane", x1: x - 3, x2: x - 3, y1: 0, y2: bottom }));
    runs(cell.rows, (row) => row.holding === actor, (from, to) => bar(`holds ${hue(actor)}`, x, from, to, BAND));
    const believes = (row) => row.believe?.includes(actor) && (cell.lock && !holdsWith(cell.actors, row.holding, actor) ? "alone" : "believes");
    runs(cell.rows, believes, (from, to, how) => bar(`believes ${how} ${hue(actor)}`, x + BAND + 3, from, to, BAND - 1));
  });
  if (redis) drawLease(picture, cell, tops, heads.children[1].offsetLeft, redis - 4);
  cell.rows.forEach((row, i) => drawTick(picture, cell, row, i, tops, left, laneEnd));
  return picture;
}

/** runs calls draw for each run of rows of which what() says the same. */
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

/** drawTick marks a row in its actor's lane, and a command that is under way. */
function drawTick(picture, cell, row, i, tops, left, laneEnd) {
  if (row.kind === "break") picture.append(svg("line", { class: "broken", x1: left[0] ?? 0, x2: laneEnd, y1: tops[i], y2: tops[i] }));
  if (row.actor < 0 || row.kind === "break") return;
  const x = left[row.actor] + 2 * BAND + 7;
  if (row.waits) {
    const end = cell.rows.findIndex((later, j) => j > i && later.answers && later.actor === row.actor && later.text === row.text);
    if (end > 0) picture.append(svg("line", { class: `flight ${hue(row.actor)}`, x1: x, x2: x, y1: tops[i], y2: tops[end] }));
  }
  if (row.kind === "command") picture.append(svg("circle", { class: `tick ${hue(row.actor)}`, cx: x, cy: tops[i], r: 3 }));
}

const FEW = 8; // keys that are shown also while they are not there, so that the others keep their places

/** keysAt returns the keys of a cell as Redis has them after a row, and which of them are not as before it. */
export function keysAt(cell, row) {
  const keys = new Map(cell.rows.flatMap((each) => each.keys ?? []).map(({ name }) => [name, { name, gone: true }]));
  for (const { at, keys: changed } of cell.rows.slice(0, cell.rows.indexOf(row) + 1)) {
    for (const key of changed ?? []) keys.set(key.name, { ...key, at });
  }
  const changed = new Set(row.keys?.map(({ name }) => name));
  const left = (key) => Math.round((key.ttl_ms - (row.at - key.at)) * 1000) / 1000;
  const ttl = (key) => (cell.unit === "s" ? (left(key) / 1000).toFixed(3) : Math.floor(left(key)));
  return [...keys.values()]
    .map((key) => ({ ...key, changed: changed.has(key.name), ttl: key.ttl_ms == null ? "–" : `${ttl(key)} ${cell.unit}` }))
    .filter((key) => keys.size <= FEW || !key.gone || key.changed)
    .sort((a, b) => (a.name < b.name ? -1 : 1));
}

/** keyTable shows keys. What the table says besides, say tells by its name. */
export function keyTable(keys, say) {
  const rows = keys.map(({ name, type, value, ttl, gone, changed }) => el("tr", { class: `${gone ? "gone" : ""} ${changed ? "changed" : ""}` },
    el("th", { scope: "row" }, el("code", {}, name), " ", type && !gone ? el("span", { class: "small kind" }, type) : null),
    el("td", {}, gone ? say("gone") : el("code", {}, value)),
    el("td", { class: "number" }, gone ? "" : ttl)));
  return el("table", { class: "rows keys" },
    el("thead", {}, el("tr", {}, ...["key", "value", "ttl"].map((name) => el("th", { scope: "col", class: name === "ttl" ? "number" : "" }, say(name))))),
    el("tbody", {}, ...rows));
}
