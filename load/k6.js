// Buyers who arrive at a growing rate, ask again if they get no answer, and sometimes leave before
// the answer comes. load/run starts this script: k6 run load/k6.js
import http from 'k6/http';
import { sleep } from 'k6';
import { Counter } from 'k6/metrics';

const rate = Number(__ENV.RATE);
const seconds = Number(__ENV.SECONDS);
const url = `${__ENV.URL}/api/items/${__ENV.SKU}/deduct${__ENV.STRATEGY ? `?strategy=${__ENV.STRATEGY}` : ''}`;

// What buyers were told. A metric's tags are not in the summary, so each status has its own metric.
const watched = [0, 200, 202, 400, 404, 409, 422, 429, 500, 502, 503, 504];
const replies = Object.fromEntries(watched.map((status) => [status, new Counter(`status_${status}`)]));
const otherReplies = new Counter('status_599');
const sold = new Counter('told_sold');
const cutOff = new Counter('cut_off');

export const options = {
  discardResponseBodies: false,
  scenarios: {
    buyers: {
      executor: 'ramping-arrival-rate',
      startRate: Math.max(1, Math.floor(rate / 10)),
      timeUnit: '1s',
      preAllocatedVUs: Math.min(1000, rate),
      maxVUs: 2000,
      stages: [
        { target: rate, duration: `${seconds * 500}ms` },
        { target: rate, duration: `${seconds * 500}ms` },
      ],
      // Longer than five tries of 30 s, the most that a buyer makes: k6 does not count an iteration that it
      // interrupts, although its buyer may have an order.
      gracefulStop: '160s',
    },
  },
};

// One buyer in twenty leaves after 20 ms and does not come back.
const leaves = () => Math.random() < 0.05;
const tries = 5;

export default function () {
  const key = `${__VU}-${__ITER}-${Date.now()}`;
  const params = { headers: { 'Content-Type': 'application/json', 'Idempotency-Key': key }, timeout: '30s' };
  if (leaves()) {
    const reply = http.post(url, '{"quantity":1}', { ...params, timeout: '20ms' });
    if (reply.status === 0) {
      cutOff.add(1);
      return;
    }
    note(reply);
    return;
  }
  for (let i = 1; ; i += 1) {
    const reply = http.post(url, '{"quantity":1}', params);
    if (i === tries || (reply.status !== 0 && reply.status < 500)) {
      note(reply);
      return;
    }
    sleep(0.05 * i); // with the same key a buyer buys only once, even if an earlier try succeeded
  }
}

function note(reply) {
  (replies[reply.status] || otherReplies).add(1);
  if (reply.status >= 200 && reply.status < 300) sold.add(1);
}

export function handleSummary(data) {
  const count = (name) => (data.metrics[name] ? data.metrics[name].values.count : 0);
  const statuses = {};
  for (const status of [...watched, 599]) {
    const n = count(`status_${status}`);
    if (n > 0) statuses[status] = n;
  }
  const told = {
    requests: count('iterations') + count('dropped_iterations'),
    status_codes: statuses,
    dropped: count('dropped_iterations'),
    cut_off: count('cut_off'),
    sold: count('told_sold'),
  };
  return { [__ENV.TOLD]: `${JSON.stringify(told)}\n` };
}
