// Cases: the state of the cases of a run. A case is a strategy under a condition.

const mostPoints = 600;

/** planned returns the cases of a run, in their order. */
const planned = ({ strategies, conditions }) =>
  conditions.flatMap((condition) => strategies.map((strategy) => ({ strategy, condition })));

/**
 * add adds a point that is newer than the last one, and returns the points. The point of the final audit replaces the
 * last one: it is dated when the outcome was known, which is before the sample that found it. If there are too
 * many points, every second one is dropped.
 */
function add(points, point) {
  const last = points.at(-1);
  if (!last || point.t_ms > last.t_ms) points.push(point);
  else if (point.audit_ms > last.audit_ms) points[points.length - 1] = { ...point, t_ms: last.t_ms };
  return points.length > mostPoints ? points.filter((_, i) => i % 2 === 0) : points;
}

/** begins returns the state of a case before it begins. */
const begins = () => ({ points: [], faults: [], broken: [] });

/** newCases keeps the cases of one run at a time. */
export function newCases() {
  let id = null;
  let all = [];

  /** plan starts over with the cases of a run, unless it is the current run. */
  function plan({ id: next, settings }) {
    if (next && next === id) return; // a run without an id has not begun
    id = next;
    all = planned(settings).map((one, i) => ({ ...one, n: i + 1, stock: settings.stock, ...begins() }));
  }

  function underWay({ row: n, phase, point, faults, broken }) {
    const one = all[n - 1];
    const anew = phase === "setup" || (phase === "load" && point.t_ms < one.points.at(-1)?.t_ms); // it is run again
    Object.assign(one, anew && begins(), { phase, faults, broken });
    if (point) one.points = add(one.points, point);
  }

  return {
    list: () => all,
    /** take applies an event of the stream about a run. */
    take(run) {
      plan(run);
      for (const one of all) one.phase = null;
      (run.rows ?? []).forEach((row, i) => all[i].row = row);
      if (run.now) underWay(run.now);
    },
    /** replay takes the state of a recorded run at a moment. */
    replay(run) {
      plan(run);
      run.samples.forEach((known, i) => Object.assign(all[i], known, { row: run.rows[i] }));
    },
    /** adopt takes the shop's record of a run. For a case under way, it adds only the points before the known ones. */
    adopt(run) {
      plan(run);
      for (const { n, points, faults, broken } of run.samples) {
        const one = all[n - 1];
        if (one.phase && one.phase !== "judged") one.points = [...points, ...one.points].reduce(add, []);
        else Object.assign(one, { points, faults, broken });
      }
      run.rows.forEach((row, i) => all[i].row = row);
    },
  };
}

// How bad each verdict is.
const weights = { oversold: 5, stuck: 4, drift: 3, undersold: 2, unknown: 1 };

/** badness is more than 0 for a case that failed. */
const badness = ({ row, broken }) => (row ? weights[row.verdict] ?? 0 : Math.min(1, broken.length));

const worse = (a, b) =>
  badness(b) - badness(a) || (b.row?.oversold ?? 0) - (a.row?.oversold ?? 0) || a.n - b.n;

/** worst returns the case that failed worst, or the first one. */
export const worst = (cases) => cases.toSorted(worse)[0];

/**
 * pair returns a case and the case to compare it with, in the order of the run. The other case is under the same
 * condition: for a case that failed, it is one that did not fail; for any other case, it is the one that failed worst.
 */
export function pair(cases, chosen) {
  const others = cases.filter((one) => one !== chosen);
  const alike = others.filter(({ condition }) => condition === chosen.condition);
  const finished = alike.filter(({ row }) => row);
  const failed = finished.filter((one) => badness(one) > 0).sort(worse);
  const held = finished.filter((one) => badness(one) === 0);
  const next = (list) => list.find(({ n }) => n === chosen.n + 1) ?? list.findLast(({ n }) => n < chosen.n) ?? list[0];
  const other = (chosen.row && badness(chosen) > 0 ? next(held) : failed[0]) ?? next(finished) ?? next(alike)
    ?? next(others);
  return [chosen, other].filter(Boolean).sort((a, b) => a.n - b.n);
}
