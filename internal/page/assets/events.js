// Server-sent events, read with fetch: an EventSource cannot show the token.

import { authorization } from "./api.js";

/**
 * listen opens a stream of events and gives the JSON of each to on[its name]. It calls opened
 * once the stream has begun, and ended when it is over, with true if the shop ended it in
 * order. close ends it without a word.
 */
export function listen(path, on, { opened, ended }) {
  const stop = new AbortController();
  const { signal } = stop;

  async function read() {
    const reply = await fetch(path, { headers: authorization(), cache: "no-store", signal });
    if (!reply.ok) throw new Error(`${reply.status} ${reply.statusText}`);
    opened();
    const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done || signal.aborted) return;
      const events = (text + value).split("\n\n");
      text = events.pop(); // has not come in full
      for (const event of events) if (!signal.aborted) tell(event);
    }
  }

  function tell(event) {
    const field = (name) => event.split("\n").find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2);
    try {
      on[field("event")]?.(JSON.parse(field("data")));
    } catch (error) {
      reportError(error); // and go on with the next
    }
  }

  read().then(() => true, () => false).then((whole) => signal.aborted || ended(whole));
  return { close: () => stop.abort() };
}
