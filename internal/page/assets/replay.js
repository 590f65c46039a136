// Replays a recorded run in slow motion, and repeats it after a pause.

const duration = 6000; // ms
const rest = 5000;
const still = matchMedia("(prefers-reduced-motion: reduce)");

/** until returns the state of a run at a time, in ms since each of its cases began. */
function until(run, ms) {
  const known = (list) => list.filter(({ t_ms: at }) => at <= ms);
  const samples = run.samples.map(({ points, faults, broken, ...of }) => ({
    ...of, points: known(points), faults: known(faults), broken: known(broken),
  }));
  const over = run.samples.map(({ points }) => points.every(({ t_ms: at }) => at <= ms));
  const rows = run.rows.map((row, i) => over[i] ? row : null);
  return { ...run, samples, rows, ended: rows.every(Boolean) && run.ended };
}

/** replay shows a run again and again, until the function that it returns is called. */
export function replay(run, show) {
  if (still.matches) {
    show(run);
    return () => {};
  }
  const end = Math.max(...run.samples.flatMap(({ points }) => points.map(({ t_ms: at }) => at)));
  const began = performance.now();
  let shown = -1;
  const timer = setInterval(() => {
    const at = Math.min(1, ((performance.now() - began) % (duration + rest)) / duration);
    if (at !== shown) show(until(run, end * at));
    shown = at;
  }, 50);
  return () => clearInterval(timer);
}
